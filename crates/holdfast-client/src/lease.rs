//! How long a holder may believe in its lease.

use std::time::Duration;

use crate::clock::Moment;

const MARGIN_MIN: Duration = Duration::from_millis(20);
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How much earlier than the lease's end its holder considers it lost.
///
/// A twentieth of the TTL, at least 20 ms and at most 1 s, to have stopped in time; and a thousandth of the TTL on
/// top for clocks of different rates: holder and leader may each be off by 500 ppm, as far as NTP slews a clock.
pub fn safety_margin(ttl: Duration) -> Duration {
    (ttl / 20).clamp(MARGIN_MIN, MARGIN_MAX) + ttl / 1000
}

/// Until when the holder may believe in a lease that was granted or renewed by a request sent at `sent`.
///
/// The leader took that request later than it was sent, and gives at least the TTL from then on.
pub(crate) fn local_deadline(sent: Moment, ttl: Duration) -> Moment {
    sent.after(ttl.saturating_sub(safety_margin(ttl)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_a_twentieth_within_limits_and_grows_with_the_drift_of_clocks() {
        let ms = Duration::from_millis;
        assert_eq!(safety_margin(ms(100)), Duration::from_micros(20_100));
        assert_eq!(safety_margin(ms(2_000)), ms(102));
        assert_eq!(safety_margin(ms(60_000)), ms(1_060));
        assert_eq!(safety_margin(ms(86_400_000)), ms(87_400));
    }
}
