//! Percent-encoding in paths and queries: decoded exactly once, and strictly.

use std::borrow::Cow;

/// Why a text cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PercentError {
    /// A percent sign without two hexadecimal digits behind it.
    #[error("has a '%' without two hexadecimal digits behind it; a percent sign itself is written %25")]
    Escape,
    /// The bytes are no text.
    #[error("is not valid UTF-8 after percent-decoding")]
    Utf8,
}

/// Decodes a segment of a path. A plus sign is a plus sign.
pub(crate) fn decode_segment(raw: &str) -> Result<Cow<'_, str>, PercentError> {
    if raw.bytes().any(|byte| byte == b'%') { decode(raw.bytes()).map(Cow::Owned) } else { Ok(raw.into()) }
}

/// Decodes a name or value of a query. A plus sign is a space, as HTML forms have it.
pub(crate) fn decode_query(raw: &str) -> Result<Cow<'_, str>, PercentError> {
    if raw.bytes().any(|byte| byte == b'%' || byte == b'+') {
        decode(raw.bytes().map(|byte| if byte == b'+' { b' ' } else { byte })).map(Cow::Owned)
    } else {
        Ok(raw.into())
    }
}

fn decode(mut raw: impl ExactSizeIterator<Item = u8>) -> Result<String, PercentError> {
    let mut bytes = Vec::with_capacity(raw.len());
    while let Some(byte) = raw.next() {
        bytes.push(match byte {
            b'%' => hex_digit(raw.next())? << 4 | hex_digit(raw.next())?,
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| PercentError::Utf8)
}

fn hex_digit(byte: Option<u8>) -> Result<u8, PercentError> {
    match byte {
        Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
        Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
        Some(digit @ b'A'..=b'F') => Ok(digit - b'A' + 10),
        _ => Err(PercentError::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_decoded_exactly_once() {
        assert_eq!(decode_segment("a%2Fb").unwrap(), "a/b");
        assert_eq!(decode_segment("a%252Fb").unwrap(), "a%2Fb");
        assert_eq!(decode_segment("a+b").unwrap(), "a+b");
        assert_eq!(decode_segment("%C3%a9").unwrap(), "é");
    }

    #[test]
    fn a_bare_percent_sign_is_refused() {
        for raw in ["%", "100%", "%2", "%zz", "%2Fb%"] {
            assert_eq!(decode_segment(raw), Err(PercentError::Escape));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(decode_segment("%ff"), Err(PercentError::Utf8));
        assert_eq!(decode_segment("%C3"), Err(PercentError::Utf8));
    }

    #[test]
    fn a_plus_sign_in_a_query_is_a_space() {
        assert_eq!(decode_query("a+b%2Bc").unwrap(), "a b+c");
    }
}
