//! Keeps a stubborn stranger from filling the log.

use std::collections::BTreeMap;
use std::time::Instant;

use super::limits::{THROTTLE_LEN_MAX, THROTTLE_PAUSE};

/// Remembers when each complaint about each source was last logged.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    logged: BTreeMap<(String, &'static str), Instant>,
}

impl Throttle {
    /// Whether to log this complaint about this source now.
    ///
    /// Too many different sources at a time share one silence: what is new then is not logged.
    pub(super) fn admits(&mut self, source: String, complaint: &'static str, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.duration_since(*at) < THROTTLE_PAUSE;
        if self.logged.get(&(source.clone(), complaint)).is_some_and(is_recent) {
            return false;
        }
        if self.logged.len() >= THROTTLE_LEN_MAX {
            self.logged.retain(|_, at| is_recent(at));
        }
        if self.logged.len() >= THROTTLE_LEN_MAX {
            return false;
        }
        self.logged.insert((source, complaint), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_same_complaint_about_the_same_source_is_logged_once_a_minute() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut admits = |source: &str, complaint, after_s| {
            throttle.admits(source.to_owned(), complaint, start + Duration::from_secs(after_s))
        };
        assert!(admits("10.0.0.1", "garbage", 0));
        assert!(!admits("10.0.0.1", "garbage", 59));
        assert!(admits("10.0.0.1", "version", 59));
        assert!(admits("10.0.0.2", "garbage", 59));
        assert!(admits("10.0.0.1", "garbage", 60));
    }

    #[test]
    fn a_flood_of_sources_neither_grows_the_memory_nor_silences_the_log_for_ever() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        for source in 0..10 * THROTTLE_LEN_MAX {
            throttle.admits(source.to_string(), "garbage", start);
        }
        assert_eq!(throttle.logged.len(), THROTTLE_LEN_MAX);
        assert!(throttle.admits("late".to_owned(), "garbage", start + THROTTLE_PAUSE));
    }
}
