//! From when until when a worker could believe that it leads.
//!
//! Measured on the clock that all processes of a machine share, in milliseconds since its start: spans of different
//! workers can be compared.

use holdfast_client::{Clock, Moment};

/// A span in which a worker believed in its lead, or would have if it had not been killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// Of the grant that it believed in.
    pub(crate) fence: u64,
    pub(crate) from_ms: u64,
    /// No longer at this moment.
    pub(crate) until_ms: u64,
}

/// A moment as milliseconds since the machine was started.
pub(crate) fn since_boot_ms(moment: Moment) -> u64 {
    let boot = Clock::from_fn(|| std::time::Duration::ZERO).now();
    u64::try_from(moment.since(boot).as_millis()).expect("no machine runs for so long")
}

/// Each grant's belief as a whole, in the order of the fences. What was said last counts: renewals make a belief longer,
/// and resigning ends it early.
pub(crate) fn merged(mut beliefs: Vec<Belief>) -> Vec<Belief> {
    beliefs.sort_by_key(|belief| belief.fence);
    let mut merged: Vec<Belief> = Vec::new();
    for next in beliefs {
        match merged.last_mut() {
            Some(last) if last.fence == next.fence => {
                last.until_ms = next.until_ms;
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// Whether each belief begins when the one before it is over, or later.
pub(crate) fn are_apart(merged: &[Belief]) -> bool {
    merged.is_sorted_by(|earlier, later| earlier.until_ms <= later.from_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belief(fence: u64, from_ms: u64, until_ms: u64) -> Belief {
        Belief { fence, from_ms, until_ms }
    }

    #[test]
    fn renewals_make_a_belief_longer_and_resigning_ends_it_early() {
        let said = vec![belief(1, 10, 20), belief(2, 40, 60), belief(1, 10, 30), belief(2, 40, 50)];
        assert_eq!(merged(said), [belief(1, 10, 30), belief(2, 40, 50)]);
    }

    #[test]
    fn beliefs_are_apart_if_none_begins_before_the_last_one_is_over() {
        assert!(are_apart(&[belief(1, 10, 30), belief(2, 30, 50), belief(3, 60, 70)]));
        assert!(!are_apart(&[belief(1, 10, 30), belief(2, 29, 50)]));
    }

    #[test]
    fn moments_are_compared_on_the_clock_of_the_machine() {
        let clock = Clock::from_fn(|| std::time::Duration::from_millis(1_234));
        assert_eq!(since_boot_ms(clock.now()), 1_234);
    }
}
