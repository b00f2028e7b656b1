//! Durations on the command line: `500ms`, `60s`, `5m`, `1h30m`.

use std::time::Duration;

const UNITS_MS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The service's limits.
const TTL_MIN: Duration = Duration::from_millis(100);
const TTL_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Reads whole numbers with units, one after the other. A bare number is refused: of what?
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let error =
        || format!("`{text}` is no duration: write numbers with units (ms, s, m, h, d), like 500ms or 1h30m");
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit: write {text}s for seconds or {text}ms for milliseconds"));
    }
    let mut rest = text;
    let mut total_ms: u64 = 0;
    while total_ms == 0 || !rest.is_empty() {
        let (number, after) = split(rest, |byte| byte.is_ascii_digit());
        let (unit, after) = split(after, |byte| byte.is_ascii_alphabetic());
        let number: u64 = number.parse().map_err(|_| error())?;
        let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        let part_ms = number.checked_mul(*unit_ms).ok_or_else(error)?;
        total_ms = total_ms.checked_add(part_ms).ok_or_else(error)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Ok(Duration::from_millis(total_ms))
}

/// Reads a TTL, within the service's limits.
pub(crate) fn parse_ttl(value: &str) -> Result<Duration, String> {
    let ttl = parse(value)?;
    match (TTL_MIN..=TTL_MAX).contains(&ttl) {
        true => Ok(ttl),
        false => Err(format!("must be 100ms to 24h, got {value}")),
    }
}

fn split(text: &str, is_first: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|byte| is_first(*byte)).count())
}

/// A span for people: the two largest units that matter, tenths for short seconds.
pub(crate) fn text(ms: u64) -> String {
    let seconds = ms / 1_000;
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 if ms.is_multiple_of(1_000) => format!("{seconds}s"),
        1_000..60_000 => format!("{seconds}.{}s", ms % 1_000 / 100),
        60_000..3_600_000 => pair(seconds / 60, 'm', seconds % 60, 's'),
        3_600_000..86_400_000 => pair(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => pair(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

/// The same of a span that is no number of milliseconds.
pub(crate) fn text_of(span: Duration) -> String {
    text(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn pair(large: u64, large_unit: char, small: u64, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_row_of_numbers_with_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("1m0s", 60_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_the_two_likely_readings() {
        let error = parse("60").unwrap_err();
        assert!(error.contains("60s") && error.contains("60ms"), "{error}");
    }

    #[test]
    fn a_ttl_outside_the_limits_is_refused_in_the_units_of_the_command_line() {
        for good in ["100ms", "24h"] {
            assert!(parse_ttl(good).is_ok(), "{good}");
        }
        for (bad, told) in
            [("50ms", "must be 100ms to 24h, got 50ms"), ("25h", "must be 100ms to 24h, got 25h")]
        {
            assert_eq!(parse_ttl(bad).unwrap_err(), told);
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in
            ["", "s", "-1s", "1.5s", "1 s", "1S", "1h30", "0s0", "5 minutes", "99999999999999999999s", "é"]
        {
            assert!(parse(text).unwrap_err().contains("like 500ms"), "{text}");
        }
    }

    #[test]
    fn a_span_is_shown_with_its_two_largest_units() {
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (30_000, "30s"),
            (29_512, "29.5s"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(text(ms), shown);
        }
    }
}
