//! In which times the cluster is known to have been healthy.

use crate::history::{Condition, History};

/// The healthy times of a history.
#[derive(Clone, Debug)]
pub(crate) struct HealthyTimes {
    /// In order; the last may go on for ever.
    spans: Vec<(u64, u64)>,
}

impl HealthyTimes {
    pub(crate) fn of(history: &History) -> Self {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let mut since = None;
        for (at, condition) in &history.conditions {
            match condition {
                Condition::Healthy => since = since.or(Some(*at)),
                Condition::Faulty => spans.extend(since.take().map(|since| (since, *at))),
            }
        }
        spans.extend(since.map(|since| (since, u64::MAX)));
        Self { spans }
    }

    /// How much of the time between two moments was healthy.
    pub(crate) fn between(&self, from: u64, until: u64) -> u64 {
        let first = self.spans.partition_point(|(_, end)| *end <= from);
        let spans = self.spans[first..].iter().take_while(|(begin, _)| *begin < until);
        spans.map(|(begin, end)| until.min(*end) - from.max(*begin)).sum()
    }

    /// Whether all of it was.
    pub(crate) fn throughout(&self, from: u64, until: u64) -> bool {
        self.spans.iter().any(|(begin, end)| *begin <= from && until <= *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Entry, Header, Mark};

    #[test]
    fn healthy_time_is_counted_between_marks() {
        let mark = |at_ns| Mark { at_ns, text: String::new() };
        let entries = [
            Entry::Healthy(mark(10)),
            Entry::Fault(mark(20)),
            Entry::Fault(mark(25)),
            Entry::Healthy(mark(30)),
        ];
        let history = History::new(Header::of_one_clock("m"), entries).unwrap();
        let times = HealthyTimes::of(&history);
        assert_eq!(times.between(0, 100), 80);
        assert_eq!(times.between(12, 31), 9);
        assert_eq!(times.between(20, 30), 0);
        assert!(times.throughout(10, 20) && times.throughout(30, u64::MAX));
        assert!(!times.throughout(9, 20) && !times.throughout(12, 35));
    }
}
