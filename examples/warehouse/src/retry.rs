//! When to ask again for a lock that is held.

use std::time::Duration;

/// A bounded number of retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// How many.
    pub(crate) most: u32,
    /// The longest pause before one of them.
    pub(crate) longest: Duration,
}

impl Retry {
    /// The pause before the next retry, given what is left of the holder's lease.
    ///
    /// What is left is the service's advice (`Retry-After` tells HTTP clients the same, in whole seconds): the holder
    /// may be done much earlier, but if it has crashed, then nobody gets the lock before that. Of that, or of the
    /// longest pause, at least half and at most all, as `chance` from 0 to 1 has it: workers that were refused
    /// together must not come back together.
    pub(crate) fn pause(&self, left: Duration, chance: f64) -> Duration {
        left.min(self.longest).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry { most: 5, longest: Duration::from_secs(10) };

    #[test]
    fn a_pause_is_between_half_and_all_of_what_is_left_of_the_lease() {
        let left = Duration::from_secs(4);
        assert_eq!(RETRY.pause(left, 0.0), Duration::from_secs(2));
        assert_eq!(RETRY.pause(left, 0.5), Duration::from_secs(3));
        assert_eq!(RETRY.pause(left, 1.0), Duration::from_secs(4));
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        assert_eq!(RETRY.pause(Duration::from_secs(3_600), 1.0), Duration::from_secs(10));
    }
}
