//! How long requests took.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest latency that is told apart, in microseconds: an hour, longer than any wait.
const MAX_US: u64 = 3_600_000_000;
/// Values within a thousandth of each other count as equal.
const DIGITS: u8 = 3;

/// Latencies as they come in.
#[derive(Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(
            Histogram::new_with_bounds(1, MAX_US, DIGITS)
                .expect("the bounds are in order and 3 digits are allowed"),
        )
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_US));
    }

    /// None if nothing was recorded.
    pub(crate) fn summary(&self) -> Option<Latency> {
        (!self.0.is_empty()).then(|| Latency {
            p50_us: self.0.value_at_quantile(0.5),
            p99_us: self.0.value_at_quantile(0.99),
            max_us: self.0.max(),
        })
    }
}

/// Latencies in short, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of the requests were answered within it.
    pub p50_us: u64,
    /// 99 of 100 were.
    pub p99_us: u64,
    /// All were.
    pub max_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_true_to_a_thousandth() {
        let mut latencies = Latencies::new();
        for ms in 1..=1_000 {
            latencies.record(Duration::from_millis(ms));
        }
        let latency = latencies.summary().unwrap();
        for (shown, exact) in
            [(latency.p50_us, 500_000), (latency.p99_us, 990_000), (latency.max_us, 1_000_000)]
        {
            assert!(shown.abs_diff(exact) <= exact / 1_000, "{shown} is not about {exact}");
        }
    }

    #[test]
    fn nothing_recorded_is_nothing_said() {
        assert_eq!(Latencies::new().summary(), None);
    }
}
