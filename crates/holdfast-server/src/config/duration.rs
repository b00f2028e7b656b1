//! Durations as people write them: `500ms`, `60s`, `5m`, `24h`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration: write a whole number and a unit (ms, s, m, h), like 500ms or 60s")]
pub(super) struct DurationError(String);

/// Reads a whole number with a unit: `ms`, `s`, `m` or `h`.
///
/// # Errors
/// Anything else, and what does not fit into 64 bits of milliseconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.into());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_and_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("24h"), Ok(Duration::from_secs(86_400)));
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in
            ["", "5", "s", "-1s", "1.5s", "1 s", "1S", "5m30s", "99999999999999999999s", "99999999999999999h"]
        {
            assert!(parse_duration(text).unwrap_err().to_string().contains("like 500ms"), "{text}");
        }
    }
}
