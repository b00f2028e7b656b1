//! How long a lease lasts at least and at most, in the time of the history.

const NS_PER_MS: u64 = 1_000_000;
/// The service counts leases in whole milliseconds.
const RESOLUTION_NS: u64 = NS_PER_MS;
/// An expiry may be this late while a leader serves, and once more after a change of leaders.
pub(crate) const LATE_MAX_NS: u64 = 1_000 * NS_PER_MS;
/// For at least this long the service remembers how an attempt ended.
const MEMORY_MS: u64 = 60_000;

/// Turns spans of the service's clocks into spans of the history's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    error_ppm: u64,
}

impl Clock {
    pub(crate) fn new(error_ppm: u32) -> Self {
        Self { error_ppm: u64::from(error_ppm).min(900_000) }
    }

    /// A lease that begins at a moment lasts at least until this one.
    pub(crate) fn lease_end_min(self, begin: u64, ttl_ms: u64) -> u64 {
        begin.saturating_add(self.at_least(ttl_ms))
    }

    /// A span of the service is at least this long.
    pub(crate) fn at_least(self, ms: u64) -> u64 {
        let span = ms.saturating_mul(NS_PER_MS);
        (span - part(span, self.error_ppm)).saturating_sub(RESOLUTION_NS)
    }

    /// A span of the service is at most this long.
    pub(crate) fn at_most(self, ms: u64) -> u64 {
        let span = ms.saturating_mul(NS_PER_MS);
        let longer = u128::from(span) * 1_000_000 / u128::from(1_000_000 - self.error_ppm);
        u64::try_from(longer).unwrap_or(u64::MAX).saturating_add(RESOLUTION_NS)
    }

    /// For at least this long an ended attempt is remembered.
    pub(crate) fn memory(self) -> u64 {
        self.at_least(MEMORY_MS)
    }
}

fn part(span: u64, ppm: u64) -> u64 {
    u64::try_from(u128::from(span) * u128::from(ppm) / 1_000_000).expect("a part is less than the whole")
}

/// A moment or a span for people.
pub(crate) fn ms(ns: u64) -> String {
    format!("{}.{:03} ms", ns / NS_PER_MS, ns % NS_PER_MS / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_may_differ_make_a_lease_shorter_and_longer() {
        let clock = Clock::new(50_000);
        assert_eq!(clock.at_least(1_000), 949 * NS_PER_MS);
        assert!(clock.at_most(1_000) > 1_052 * NS_PER_MS);
        assert_eq!(Clock::new(0).lease_end_min(7, 100), 7 + 99 * NS_PER_MS);
    }
}
