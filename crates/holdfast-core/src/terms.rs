//! What an attempt may agree on beside its TTL: a delay after it, a least and a longest hold, once per period.
//!
//! Few attempts do. So what there is to it lies in a box, and all others pay a pointer for it.

use serde::{Deserialize, Serialize};

use crate::command::AcquireOnTerms;
use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence};
use crate::lease::{Asked, Lease, Term};
use crate::lock::{Hold, Ticket};
use crate::name::LockName;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::table::LockTable;
use crate::time::{ClusterTime, RangeError, Ttl, in_range_long};

/// Terms that no attempt can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// Of the delay.
    #[error("{0}")]
    Delay(RangeError),
    /// Of the least hold.
    #[error("{0}")]
    MinHold(RangeError),
    /// Of the longest hold.
    #[error("{0}")]
    MaxHold(RangeError),
    /// Of the period.
    #[error("{0}")]
    Period(RangeError),
    /// The least hold is longer than the longest.
    #[error("must be at most the longest hold, which is {max} milliseconds, got {given}")]
    MinBeyondMax {
        /// The least hold, in milliseconds.
        given: u64,
        /// The longest hold, in milliseconds.
        max: u64,
    },
}

/// What an attempt asks for beside its TTL. The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64, Option<u64>, Option<u64>)", into = "(u64, u64, Option<u64>, Option<u64>)")]
pub struct Terms {
    delay_ms: u64,
    min_hold_ms: u64,
    max_hold_ms: Option<u64>,
    period_ms: Option<u64>,
}

impl Terms {
    /// Longest delay, in milliseconds: five minutes.
    pub const DELAY_MS_MAX: u64 = 5 * 60 * 1000;
    /// Longest least hold, in milliseconds: as the longest TTL.
    pub const MIN_HOLD_MS_MAX: u64 = Ttl::MAX_MS as u64;
    /// Shortest longest hold, in milliseconds: as the shortest TTL.
    pub const MAX_HOLD_MS_MIN: u64 = Ttl::MIN_MS as u64;
    /// Longest longest hold, in milliseconds: 366 days.
    pub const MAX_HOLD_MS_MAX: u64 = Self::PERIOD_MS_MAX;
    /// Shortest period, in milliseconds.
    pub const PERIOD_MS_MIN: u64 = 1_000;
    /// Longest period, in milliseconds: 366 days.
    pub const PERIOD_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1000;

    /// Checks the ranges. 0 is no delay, and no least hold.
    ///
    /// # Errors
    /// The first span that is out of its range, or [`TermsError::MinBeyondMax`].
    pub fn new(
        delay_ms: u64,
        min_hold_ms: u64,
        max_hold_ms: Option<u64>,
        period_ms: Option<u64>,
    ) -> Result<Self, TermsError> {
        in_range_long(delay_ms, 0, Self::DELAY_MS_MAX).map_err(TermsError::Delay)?;
        in_range_long(min_hold_ms, 0, Self::MIN_HOLD_MS_MAX).map_err(TermsError::MinHold)?;
        if let Some(max) = max_hold_ms {
            in_range_long(max, Self::MAX_HOLD_MS_MIN, Self::MAX_HOLD_MS_MAX).map_err(TermsError::MaxHold)?;
            if min_hold_ms > max {
                return Err(TermsError::MinBeyondMax { given: min_hold_ms, max });
            }
        }
        if let Some(period) = period_ms {
            in_range_long(period, Self::PERIOD_MS_MIN, Self::PERIOD_MS_MAX).map_err(TermsError::Period)?;
        }
        Ok(Self { delay_ms, min_hold_ms, max_hold_ms, period_ms })
    }

    /// Whether they ask for nothing.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// For how long nobody is granted the lock after an ending that the holder did not want; 0: not at all.
    pub fn delay_ms(&self) -> u64 {
        self.delay_ms
    }

    /// How long after the grant a release takes effect at the earliest.
    pub fn min_hold_ms(&self) -> u64 {
        self.min_hold_ms
    }

    /// How long after the grant the hold is over at the latest; none: as long as it is renewed.
    pub fn max_hold_ms(&self) -> Option<u64> {
        self.max_hold_ms
    }

    /// For how long after the grant of a run that was completed there is no other; none: it is no such run.
    pub fn period_ms(&self) -> Option<u64> {
        self.period_ms
    }
}

type Spans = (u64, u64, Option<u64>, Option<u64>);

impl TryFrom<Spans> for Terms {
    type Error = TermsError;

    fn try_from((delay_ms, min_hold_ms, max_hold_ms, period_ms): Spans) -> Result<Self, TermsError> {
        Self::new(delay_ms, min_hold_ms, max_hold_ms, period_ms)
    }
}

impl From<Terms> for Spans {
    fn from(terms: Terms) -> Self {
        (terms.delay_ms, terms.min_hold_ms, terms.max_hold_ms, terms.period_ms)
    }
}

/// The terms of a hold, and what has come of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnTerms {
    pub(crate) terms: Terms,
    /// It was released before its least hold: it stays until then, and nobody can do anything with it any more.
    is_releasing: bool,
}

/// Whether whoever releases a hold has done what it was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Not for certain: somebody else may do it.
    Open,
    /// It is done.
    Done,
}

impl Hold {
    /// As a hold, or a place in a queue, keeps them: nothing where nothing is asked for.
    pub(crate) fn on(terms: Option<Terms>) -> Option<Box<OnTerms>> {
        terms.map(|terms| Box::new(OnTerms { terms, is_releasing: false }))
    }

    pub(crate) fn terms(&self) -> Option<Terms> {
        self.on_terms.as_ref().map(|on| on.terms)
    }

    pub(crate) fn is_releasing(&self) -> bool {
        self.on_terms.as_ref().is_some_and(|on| on.is_releasing)
    }

    /// When it is over at the latest.
    fn latest_end(&self) -> Option<ClusterTime> {
        self.terms()?.max_hold_ms().map(|ms| self.granted_at.after(ms))
    }

    pub(crate) fn max_left_ms(&self, now: ClusterTime) -> Option<u64> {
        self.latest_end().map(|end| end.since(now))
    }

    /// What is left of a span, for this hold.
    pub(crate) fn within_max(&self, term: Term) -> Term {
        let latest = self.latest_end().unwrap_or(term.deadline);
        Term { deadline: term.deadline.min(latest), ..term }
    }

    /// When it ends by itself, whatever becomes of its session.
    pub(crate) fn own_deadline(&self) -> Option<ClusterTime> {
        self.lease.own().map(|term| term.deadline).or_else(|| self.latest_end())
    }

    /// How it ends when its deadline has come.
    pub(crate) fn cause_at_deadline(&self) -> Cause {
        if self.is_releasing() { Cause::Released } else { Cause::Expired }
    }
}

impl LockTable {
    pub(crate) fn acquire_on_terms(&mut self, attempt: &AcquireOnTerms) -> Outcome {
        let AcquireOnTerms { acquire, share, session, terms } = attempt;
        let asked = match session {
            Some(session) => {
                self.check_session(session)?;
                Asked::Session(session.id)
            }
            None => Asked::Ttl(acquire.ttl),
        };
        self.acquire(acquire, *share, asked, Some(*terms).filter(|terms| !terms.is_plain()))
    }

    /// The span of a hold, whoever keeps it.
    pub(crate) fn term_of(&self, hold: &Hold) -> Term {
        hold.within_max(self.term(hold.lease))
    }

    /// Its holder has given a hold back, though it is still there: nothing more can be done with it.
    pub(crate) fn check_not_releasing(&self, name: &LockName, key: &AttemptKey) -> Result<(), Rejection> {
        let hold = self.locks.get(name).and_then(|lock| lock.hold(key));
        match hold.is_some_and(Hold::is_releasing) {
            true => Err(Rejection::LeaseReleased),
            false => Ok(()),
        }
    }

    /// Releases what the attempt holds, if it holds it on terms. None if it does not.
    pub(crate) fn release_on_terms(&mut self, name: &LockName, key: &AttemptKey, run: Run) -> Option<Answer> {
        let hold = self.locks.get(name)?.hold(key)?;
        let (fence, is_first) = (hold.fence, !hold.is_releasing());
        let left_ms = hold.granted_at.after(hold.terms()?.min_hold_ms()).since(self.now);
        if is_first && run == Run::Done && !planted(Bug::DoneNotNoted) {
            self.note_done(name, key);
        }
        if left_ms == 0 {
            let hold = self.lock_mut(name).and_then(|lock| lock.remove_hold(|hold| hold.key == *key));
            self.note_end(name, hold.expect("it was there a moment ago"), Cause::Released);
        } else if is_first {
            self.keep_until_least(name, key);
        }
        self.settle(name);
        Some(self.released(name, Some(fence), left_ms))
    }

    /// The hold is its holder's no more, and stays until its least hold is over: without its session, too.
    fn keep_until_least(&mut self, name: &LockName, key: &AttemptKey) {
        let hold =
            self.locks.get(name).and_then(|lock| lock.hold(key)).expect("the caller has seen the hold");
        let (former, session, ticket) = (hold.own_deadline(), hold.lease.session(), hold.ticket);
        let ttl = self.term(hold.lease).ttl;
        let hold = self.lock_mut(name).and_then(|lock| lock.hold_mut(key)).expect("it is there");
        let on_terms = hold.on_terms.as_mut().expect("only a hold on terms has a least hold");
        on_terms.is_releasing = true;
        let deadline = hold.granted_at.after(on_terms.terms.min_hold_ms());
        hold.lease = Lease::Own { ttl, deadline };
        (hold.told, hold.unclaimed) = (None, None);
        self.sessions.remove(session, ticket);
        self.clear_deadline(former, ticket);
        self.set_deadline(Some(deadline), ticket, name);
    }

    /// A hold ends by itself at this time.
    pub(crate) fn set_deadline(&mut self, at: Option<ClusterTime>, ticket: Ticket, name: &LockName) {
        if let Some(at) = at {
            self.timers.set(at, ticket, name);
            self.deadlines += 1;
        }
    }

    pub(crate) fn clear_deadline(&mut self, at: Option<ClusterTime>, ticket: Ticket) {
        if let Some(at) = at {
            self.timers.clear(at, ticket);
            self.deadlines -= 1;
        }
    }

    /// What whoever has released an attempt is told.
    pub(crate) fn released(&self, name: &LockName, fence: Option<Fence>, effective_in_ms: u64) -> Answer {
        let is_done = fence.is_some_and(|fence| self.is_done_by(name, fence));
        match fence {
            Some(fence) if is_done || effective_in_ms > 0 => {
                Answer::ReleasedOnTerms { fence, effective_in_ms, is_done }
            }
            _ => Answer::Released { fence },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_outside_their_ranges_are_refused() {
        let day = Terms::MIN_HOLD_MS_MAX;
        assert_eq!(Terms::new(300_000, day, Some(day), Some(1_000)).unwrap().min_hold_ms(), day);
        assert!(matches!(Terms::new(300_001, 0, None, None), Err(TermsError::Delay(_))));
        assert!(matches!(Terms::new(0, day + 1, None, None), Err(TermsError::MinHold(_))));
        assert!(matches!(Terms::new(0, 0, Some(99), None), Err(TermsError::MaxHold(_))));
        assert!(matches!(Terms::new(0, 0, None, Some(999)), Err(TermsError::Period(_))));
        assert!(matches!(Terms::new(0, 0, None, Some(31_622_400_001)), Err(TermsError::Period(_))));
        let beyond = TermsError::MinBeyondMax { given: 201, max: 200 };
        assert_eq!(Terms::new(0, 201, Some(200), None), Err(beyond));
        assert!(Terms::new(0, 0, None, None).unwrap().is_plain());
    }

    /// Nearly every lock is held without any, by one holder, and without a queue.
    #[test]
    fn plain_holds_pay_a_pointer_for_the_terms_of_others() {
        assert_eq!(size_of::<Option<Box<OnTerms>>>(), 8);
        assert!(size_of::<Hold>() <= 144, "{}", size_of::<Hold>());
        assert!(size_of::<crate::lock::Lock>() <= 48, "{}", size_of::<crate::lock::Lock>());
    }
}
