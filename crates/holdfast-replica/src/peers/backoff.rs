//! How long to leave a peer alone that could not be reached.

use std::time::Duration;

use super::limits::{BACKOFF_MAX, BACKOFF_MIN};

/// The pause after so many failures in a row (at least one).
///
/// Doubles with each failure. `chance` from 0 to 1 picks a point in the upper half of the pause, so that nodes that
/// lost the same peer do not return in step.
pub(super) fn pause(failures: u32, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = (BACKOFF_MIN * 2 * 2_u32.pow(doublings)).min(BACKOFF_MAX);
    longest.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_20_ms_and_end_at_500_ms() {
        let shortest: Vec<_> = (1..=7).map(|failures| pause(failures, 0.0).as_millis()).collect();
        assert_eq!(shortest, [20, 40, 80, 160, 250, 250, 250]);
        assert_eq!(pause(1, 1.0).as_millis(), 40);
        assert_eq!(pause(u32::MAX, 1.0), BACKOFF_MAX);
    }
}
