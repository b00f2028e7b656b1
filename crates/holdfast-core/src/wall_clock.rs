//! What clock on the wall goes with cluster time: for people only. No rule looks at it.

use serde::{Deserialize, Serialize};

use crate::time::ClusterTime;

/// So far the clocks may drift apart before it is noted anew, in milliseconds.
const DRIFT_MS: u64 = 1_000;
/// Most notes that are kept.
const NOTES_MAX: usize = 64;

/// What leaders have told of their wall clocks, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WallClock(Vec<(ClusterTime, u64)>);

impl WallClock {
    /// A leader says what time it is, in milliseconds since 1970.
    pub(crate) fn note(&mut self, now: ClusterTime, unix_ms: u64) {
        let expected = self.at(now);
        if expected.is_some_and(|expected| expected.abs_diff(unix_ms) <= DRIFT_MS) {
            return;
        }
        if self.0.len() == NOTES_MAX {
            self.0.remove(0);
        }
        self.0.push((now, unix_ms));
    }

    /// What time it was, in milliseconds since 1970; none before anything was told.
    pub(crate) fn at(&self, at: ClusterTime) -> Option<u64> {
        let (noted, unix_ms) = *self.0.iter().rev().find(|(noted, _)| *noted <= at).or(self.0.first())?;
        Some((unix_ms + at.0).saturating_sub(noted.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_by_the_last_note_before_it() {
        let mut clock = WallClock::default();
        assert_eq!(clock.at(ClusterTime(5)), None);
        clock.note(ClusterTime(1_000), 50_000);
        clock.note(ClusterTime(2_000), 51_900); // As expected, nearly.
        clock.note(ClusterTime(3_000), 90_000);
        let times = [0, 2_500, 3_000, 4_000].map(|at| clock.at(ClusterTime(at)));
        assert_eq!(times, [Some(49_000), Some(51_500), Some(90_000), Some(91_000)]);
    }

    #[test]
    fn only_the_last_notes_are_kept() {
        let mut clock = WallClock::default();
        (0..100).for_each(|n| clock.note(ClusterTime(n), n * 10_000));
        assert_eq!(clock.0.len(), NOTES_MAX);
        assert_eq!(clock.at(ClusterTime(99)), Some(990_000));
    }
}
