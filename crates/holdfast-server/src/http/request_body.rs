//! Reading what the client sends: within a size, within a time, and only if it is JSON.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use holdfast_api::{BODY_LEN_MAX, ErrorCode, InvalidArgument, RequestBody, read_body};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

use super::failure::Failure;

/// Longest time from the end of a request's head to the end of its body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Refuses a body that says itself that it is too large, before a byte of it is read.
pub(crate) fn check_announced_len(headers: &HeaderMap) -> Result<(), Failure> {
    let len = headers.get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse::<u64>().ok());
    if len.is_some_and(|len| len > BODY_LEN_MAX as u64) { Err(Failure::too_large()) } else { Ok(()) }
}

/// A body whose fields may all be left out: no body and no content type at all is the empty request.
pub(crate) async fn read_optional<T: RequestBody + Default>(
    headers: &HeaderMap,
    body: Incoming,
) -> Result<T, Failure> {
    let bytes = read_bytes(body).await?;
    if bytes.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        return Ok(T::default());
    }
    parse(headers, &bytes)
}

/// A body that must be there.
pub(crate) async fn read<T: RequestBody>(headers: &HeaderMap, body: Incoming) -> Result<T, Failure> {
    let bytes = read_bytes(body).await?;
    if bytes.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        return Err(InvalidArgument::new("body", "is missing; it must be a JSON object").into());
    }
    parse(headers, &bytes)
}

fn parse<T: RequestBody>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Failure> {
    check_is_json(headers)?;
    Ok(read_body(bytes)?)
}

fn check_is_json(headers: &HeaderMap) -> Result<(), Failure> {
    let refuse = |detail| Err(Failure::new(ErrorCode::UnsupportedMediaType, detail));
    if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return refuse("Send the body as JSON, with the header Content-Type: application/json.");
    }
    if headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return refuse("Send the body as it is: this service takes no Content-Encoding.");
    }
    Ok(())
}

/// `application/json`, with parameters or without.
fn is_json(value: &HeaderValue) -> bool {
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

async fn read_bytes(body: Incoming) -> Result<Bytes, Failure> {
    match tokio::time::timeout(BODY_TIMEOUT, collect(body)).await {
        Ok(result) => result,
        Err(_) => {
            let detail =
                format!("The request's body did not arrive within {} seconds.", BODY_TIMEOUT.as_secs());
            Err(Failure::new(ErrorCode::RequestTimeout, detail))
        }
    }
}

/// All of it; a body that comes in one piece is not copied.
async fn collect(mut body: Incoming) -> Result<Bytes, Failure> {
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| InvalidArgument::new("body", "could not be read to its end"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + joined.len() + data.len() > BODY_LEN_MAX {
            return Err(Failure::too_large());
        }
        if whole.is_empty() && joined.is_empty() {
            whole = data;
            continue;
        }
        if joined.is_empty() {
            joined.extend_from_slice(&std::mem::take(&mut whole));
        }
        joined.extend_from_slice(&data);
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_be_declared_with_parameters_and_in_any_case() {
        for value in ["application/json", "Application/JSON", "application/json; charset=utf-8"] {
            assert!(is_json(&HeaderValue::from_static(value)), "{value}");
        }
        for value in ["", "text/json", "application/jsonp", "application/json-patch+json", "text/plain"] {
            assert!(!is_json(&HeaderValue::from_static(value)), "{value}");
        }
    }

    #[test]
    fn a_body_that_announces_too_much_is_refused_unread() {
        let headers = |len: u64| HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from(len))]);
        assert!(check_announced_len(&headers(65_536)).is_ok());
        assert_eq!(check_announced_len(&headers(65_537)).unwrap_err().code(), ErrorCode::TooLarge);
    }
}
