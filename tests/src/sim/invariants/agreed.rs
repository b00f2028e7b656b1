//! What was agreed on beside the TTL is kept: nobody is granted a lock during a delay, and no run is made again within the
//! period of one that was completed. How long a hold may last at most is looked at where leases are.

use std::collections::BTreeMap;

use holdfast_core::{AttemptKey, Cause, Event, Happening, LockName, Op, Rejection};

use super::Violation;
use super::asked::Asked;
use crate::sim::journal::{Entry, Journal};
use crate::sim::sometimes::saw;

const NAME: &str = "delays and periods are kept";

/// The ends of delays, in cluster time.
#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<LockName, u64>);

impl Delays {
    pub(super) fn is_running(&self, lock: &LockName, now_ms: u64) -> bool {
        self.0.get(lock).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// An ending that the holder did not want begins one, if that had asked for it.
    pub(super) fn take(&mut self, entry: &Entry, event: &Event, asked: &Asked<'_>) {
        let Happening::Ended { cause: Cause::Expired | Cause::SessionExpired | Cause::Forced, .. } =
            event.what
        else {
            return;
        };
        let until_ms = entry.cluster_ms + asked.terms_of(&event.key).delay_ms();
        let known = self.0.entry(event.lock.clone()).or_default();
        *known = until_ms.max(*known);
    }
}

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        for event in &entry.events {
            model.take(entry, event);
        }
        model.look_at_refusals(entry);
    }
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    delays: Delays,
    /// When the present holds began.
    begun_ms: BTreeMap<AttemptKey, u64>,
    /// The ends of the periods of runs that were completed.
    done: BTreeMap<LockName, u64>,
    violations: Vec<Violation>,
}

impl Model<'_> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    fn take(&mut self, entry: &Entry, event: &Event) {
        let (lock, key, now_ms) = (event.lock.as_str(), event.key, entry.cluster_ms);
        match event.what {
            Happening::Acquired { .. } => {
                if self.delays.is_running(&event.lock, now_ms) {
                    self.found(entry, format!("{lock} is granted to {key:?} during a delay"));
                }
                let is_run = self.asked.terms_of(&key).period_ms().is_some();
                if is_run && self.done.get(&event.lock).is_some_and(|until_ms| now_ms < *until_ms) {
                    self.found(entry, format!("{key:?} gets {lock} for a run that was done already"));
                }
                self.begun_ms.insert(key, now_ms);
            }
            Happening::Ended { cause, .. } => {
                self.delays.take(entry, event, &self.asked);
                let begun_ms = self.begun_ms.remove(&key);
                let period_ms =
                    self.asked.terms_of(&key).period_ms().filter(|_| completes(entry, event, cause));
                if let Some((begun_ms, period_ms)) = begun_ms.zip(period_ms) {
                    let until_ms = self.done.entry(event.lock.clone()).or_default();
                    *until_ms = (begun_ms + period_ms).max(*until_ms);
                }
            }
            Happening::Queued if self.delays.is_running(&event.lock, now_ms) => {
                saw("a delay kept a free lock from those who wait");
            }
            Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => {}
        }
    }

    /// Nobody is told of a delay or a run that is none.
    fn look_at_refusals(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let Op::AcquireOnTerms(on) = op else { continue };
            let lock = &on.acquire.lock;
            match outcome {
                Err(Rejection::Delayed { delay_ms, .. }) => {
                    saw("an attempt was told of a delay");
                    if *delay_ms == 0 || !self.delays.is_running(lock, entry.cluster_ms + delay_ms - 1) {
                        self.found(entry, format!("there is no such delay at {}: {op:?}", lock.as_str()));
                    }
                }
                Err(Rejection::AlreadyDone { next_in_ms, .. }) => {
                    saw("a run was done already");
                    let until_ms = entry.cluster_ms + next_in_ms;
                    if self.done.get(lock).is_none_or(|done_ms| *done_ms < until_ms) {
                        self.found(entry, format!("there is no such run at {}: {op:?}", lock.as_str()));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a hold ends because its holder says that it is done.
fn completes(entry: &Entry, event: &Event, cause: Cause) -> bool {
    let says_so = |op: &Op| matches!(op, Op::ReleaseDone { key, .. } if *key == event.key);
    cause == Cause::Released && entry.ops.iter().any(says_so)
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Answer, Terms};

    use super::super::sample::{Asked, Row, acquire_on_terms, acquired, ended, journal, release_done};
    use super::*;

    /// The first holds, on these terms, and the second asks on them.
    fn found(delay_ms: u64, period_ms: Option<u64>, rows: Vec<Row>) -> String {
        let terms = Terms::new(delay_ms, 0, None, period_ms).unwrap();
        let asked: Vec<Asked> =
            [1, 2].map(|number| (acquire_on_terms(number, terms), Ok(Answer::Done))).into();
        let begun = (0, asked, vec![acquired(1, 1, false)]);
        let journal = journal(std::iter::once(begun).chain(rows).collect());
        check(&journal).into_iter().map(|violation| violation.what).collect()
    }

    fn granted(at_ms: u64) -> Row {
        (at_ms, vec![], vec![acquired(2, 2, true)])
    }

    #[test]
    fn a_grant_during_a_delay_is_found() {
        for cause in [Cause::Expired, Cause::SessionExpired, Cause::Forced] {
            let lost = (1_000, vec![], vec![ended(1, 1, cause)]);
            assert_eq!(found(500, None, vec![lost.clone(), granted(1_500)]), "");
            assert!(found(500, None, vec![lost, granted(1_499)]).contains("during a delay"), "{cause:?}");
        }
        let released = (1_000, vec![], vec![ended(1, 1, Cause::Released)]);
        assert_eq!(found(500, None, vec![released, granted(1_000)]), "");
    }

    #[test]
    fn a_run_that_is_made_again_within_its_period_is_found() {
        let done = (1_000, vec![release_done(1)], vec![ended(1, 1, Cause::Released)]);
        assert_eq!(found(0, Some(3_000), vec![done.clone(), granted(3_000)]), "");
        assert!(found(0, Some(3_000), vec![done, granted(2_999)]).contains("was done already"));
        let failed = (1_000, vec![], vec![ended(1, 1, Cause::Released)]);
        assert_eq!(found(0, Some(3_000), vec![failed, granted(1_000)]), "");
    }

    #[test]
    fn a_run_that_is_made_up_is_found() {
        let terms = Terms::new(0, 0, None, Some(3_000)).unwrap();
        let done = Rejection::AlreadyDone {
            owner: holdfast_core::Owner::default(),
            fence: holdfast_core::Fence(1),
            next_in_ms: 5,
            done_ms_ago: 5,
        };
        let refused = (10, vec![(acquire_on_terms(3, terms), Err(done))], vec![]);
        assert!(found(0, Some(3_000), vec![refused]).contains("no such run"));
    }
}
