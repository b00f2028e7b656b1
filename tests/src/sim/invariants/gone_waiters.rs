//! Waiters whose client has gone cost those behind them two seconds at most, all of them together.
//!
//! Looked at once the faults are over and a leader has settled: before, it may be the leader or the waiter's node itself
//! that is not there.

use holdfast_core::{Cause, Happening};

use super::Violation;
use crate::sim::clients::name;
use crate::sim::executor::{MS, Nanos};
use crate::sim::journal::Journal;
use crate::sim::run::Probe;

const NAME: &str = "gone waiters cost two seconds at most";
/// From the end of the faults until a leader is elected and has caught up.
const SETTLING: Nanos = 3_000 * MS;
/// What is promised, and what a commit and two clocks may take.
const COST_MAX: Nanos = 2_400 * MS;

pub(crate) fn check(journal: &Journal, probes: &[Probe]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut locks: Vec<_> = probes.iter().map(|probe| (probe.lock, probe.asked, probe.granted)).collect();
    locks.sort_unstable_by_key(|(lock, _, granted)| (*lock, granted.unwrap_or(Nanos::MAX)));
    locks.dedup_by_key(|(lock, ..)| *lock);
    for (lock, asked, granted) in locks {
        let served = granted.unwrap_or(asked + crate::sim::run::HEALING);
        let cost = longest_unheld(journal, lock, asked + SETTLING, served);
        if cost > COST_MAX {
            let what = format!("lock-{lock} was of no use to anybody for {} ms while others waited", cost / MS);
            violations.push(Violation::new(NAME, what));
        }
    }
    violations
}

/// The longest time within the span for which nobody really held the lock: it was free, or given to one who had gone.
fn longest_unheld(journal: &Journal, lock: u64, from: Nanos, until: Nanos) -> Nanos {
    let lock = name(lock);
    let within = |since: Nanos, at: Nanos| at.min(until).saturating_sub(since.max(from));
    let (mut longest, mut free_since, mut granted) = (0, 0, None);
    for (entry, event) in journal.events().filter(|(_, event)| event.lock == lock) {
        match event.what {
            Happening::Acquired { .. } => granted = Some(entry.first_at),
            Happening::Ended { cause: Cause::Unclaimed | Cause::Abandoned, .. } => granted = None,
            Happening::Ended { .. } => {
                longest = longest.max(within(free_since, granted.unwrap_or(entry.first_at)));
                (free_since, granted) = (entry.first_at, None);
            }
            Happening::Queued | Happening::Left(_) => {}
        }
    }
    longest.max(within(free_since, granted.unwrap_or(until)))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{acquired, ended, journal};
    use super::*;

    fn rows(second_grant_ms: u64) -> Journal {
        let at = |ms| 3_000 + ms;
        let mut journal = journal(vec![
            (at(0), vec![], vec![acquired(1, 1, true)]),
            (at(100), vec![], vec![ended(1, 1, Cause::Released), acquired(2, 2, true)]),
            (at(700), vec![], vec![ended(2, 2, Cause::Unclaimed), acquired(3, 3, true)]),
            (at(1_300), vec![], vec![ended(3, 3, Cause::Unclaimed)]),
            (at(second_grant_ms), vec![], vec![acquired(4, 4, true)]),
        ]);
        for entry in journal.entries.values_mut() {
            entry.events.iter_mut().for_each(|event| event.lock = name(0));
        }
        journal
    }

    #[test]
    fn gone_waiters_that_cost_too_much_together_are_found() {
        let probe = |ms| Probe { lock: 0, asked: 0, granted: Some((3_000 + ms) * MS) };
        assert_eq!(check(&rows(2_100), &[probe(2_100)]), []);
        assert!(check(&rows(2_600), &[probe(2_600)])[0].what.contains("for 2500 ms"));
    }
}
