//! What the naive model knows of terms: delays and completed runs, each written down beside the attempts until it is over.

use holdfast_core::{Answer, Cause, Fence, LockName, Outcome, Owner, Rejection, Terms};

use crate::naive::{Attempt, Naive, State};

/// Nobody is granted the lock before then.
pub(crate) struct Delay {
    lock: LockName,
    until: u64,
}

/// A run that was completed.
pub(crate) struct Done {
    lock: LockName,
    owner: Owner,
    fence: u64,
    at: u64,
    until: u64,
}

impl Done {
    pub(crate) fn told(&self, now: u64) -> Rejection {
        Rejection::AlreadyDone {
            owner: self.owner.clone(),
            fence: Fence(self.fence),
            next_in_ms: self.until - now,
            done_ms_ago: now - self.at,
        }
    }
}

/// What the model asks of terms.
pub(crate) trait Asked {
    /// A deadline, and no later than the longest hold allows.
    fn cut(&self, granted_at: u64, deadline: u64) -> u64;
}

impl Asked for Terms {
    fn cut(&self, granted_at: u64, deadline: u64) -> u64 {
        self.max_hold_ms().map_or(deadline, |max| deadline.min(granted_at + max))
    }
}

impl Naive {
    pub(super) fn delay_of(&self, lock: &LockName) -> Option<u64> {
        self.delays.iter().filter(|delay| delay.lock == *lock).map(|delay| delay.until).max()
    }

    pub(super) fn done_of(&self, lock: &LockName) -> Option<&Done> {
        self.done.iter().find(|done| done.lock == *lock)
    }

    pub(super) fn next_kept(&self) -> Option<u64> {
        let delays = self.delays.iter().filter_map(|delay| self.delay_of(&delay.lock));
        delays.chain(self.done.iter().map(|done| done.until)).min()
    }

    /// Ends the delay or period that is over first, if it is, and nothing else is before it. False if nothing was.
    pub(super) fn end_kept_before(&mut self, other: Option<u64>) -> bool {
        let Some(first) = self.next_kept().filter(|at| *at <= self.now) else { return false };
        if other.is_some_and(|other| other < first) {
            return false;
        }
        self.done.retain(|done| done.until > first);
        let mut over: Vec<_> = self.delays.iter().map(|delay| delay.lock.clone()).collect();
        over.sort_unstable();
        over.retain(|lock| self.delay_of(lock) == Some(first));
        match over.first() {
            Some(lock) => {
                self.delays.retain(|delay| delay.lock != *lock);
                self.hand_over(lock);
            }
            None => self.delays.retain(|delay| delay.until > first),
        }
        true
    }

    pub(super) fn note_delay(&mut self, lock: &LockName, terms: Terms, cause: Cause) {
        if [Cause::Expired, Cause::SessionExpired, Cause::Forced].contains(&cause) && terms.delay_ms() > 0 {
            self.delays.push(Delay { lock: lock.clone(), until: self.now + terms.delay_ms() });
        }
    }

    /// Of a hold, which may have been released before.
    pub(super) fn release_hold(&mut self, at: usize, done: bool) -> Answer {
        let Attempt { asked, terms, .. } = self.attempts[at].clone();
        let State::Holds(hold) = self.attempts[at].state.clone() else { panic!("it holds") };
        let least = hold.granted_at + terms.min_hold_ms();
        if let (true, false, Some(period)) = (done, hold.is_releasing, terms.period_ms()) {
            self.note_done(at, hold.granted_at + period);
        }
        let at = self.find_live(&asked.key).unwrap();
        if least <= self.now {
            self.end(at, Cause::Released);
        } else if !hold.is_releasing {
            let attempt = &mut self.attempts[at];
            attempt.homes.clear();
            attempt.session = None;
            let State::Holds(hold) = &mut attempt.state else { panic!("it holds") };
            (hold.deadline, hold.is_releasing, hold.back_to) = (least, true, None);
            self.hand_over(&asked.lock);
        }
        self.released(&asked.lock, Some(Fence(hold.fence)), least.saturating_sub(self.now))
    }

    pub(super) fn released(&self, lock: &LockName, fence: Option<Fence>, effective_in_ms: u64) -> Answer {
        let is_done = self.done_of(lock).is_some_and(|done| Some(Fence(done.fence)) == fence);
        match fence {
            Some(fence) if is_done || effective_in_ms > 0 => {
                Answer::ReleasedOnTerms { fence, effective_in_ms, is_done }
            }
            _ => Answer::Released { fence },
        }
    }

    fn note_done(&mut self, at: usize, until: u64) {
        let Attempt { asked, .. } = self.attempts[at].clone();
        let State::Holds(hold) = &self.attempts[at].state else { panic!("it holds") };
        let fence = hold.fence;
        if until <= self.now || self.done_of(&asked.lock).is_some_and(|done| done.until > until) {
            return;
        }
        self.done.retain(|done| done.lock != asked.lock);
        let (lock, owner, at) = (asked.lock.clone(), asked.owner, self.now);
        self.done.push(Done { lock, owner, fence, at, until });
        let waiting = self.waiters(&asked.lock).filter(|(_, waiter)| waiter.terms.period_ms().is_some());
        let mut told: Vec<_> = waiting.map(|(_, waiter)| (waiter.number, waiter.asked.key)).collect();
        told.sort_unstable();
        for (_, key) in told {
            self.conclude(self.find_live(&key).unwrap(), Cause::AlreadyDone);
        }
    }

    /// Of an attempt that is back in the queue.
    pub(super) fn has_nothing_to_do(&self, at: usize) -> bool {
        let Attempt { asked, terms, .. } = &self.attempts[at];
        terms.period_ms().is_some() && self.done_of(&asked.lock).is_some()
    }

    pub(super) fn is_free_or_unused(&self, lock: &LockName, share: holdfast_core::Share) -> bool {
        self.delay_of(lock).is_none() && (!self.is_used(lock) || self.is_free(lock, share))
    }

    /// Of a place that is named in a renewal of many.
    pub(super) fn check_not_releasing(&self, key: &holdfast_core::AttemptKey) -> Outcome {
        match self.find(key).is_some_and(|at| self.attempts[at].is_releasing()) {
            true => Err(Rejection::LeaseReleased),
            false => Ok(Answer::Done),
        }
    }
}

impl Attempt {
    pub(crate) fn is_releasing(&self) -> bool {
        matches!(&self.state, State::Holds(hold) if hold.is_releasing)
    }

    /// Its session's end alone can end it.
    pub(super) fn is_up_to_its_session(&self) -> bool {
        self.holds() && self.session.is_some() && self.terms.max_hold_ms().is_none()
    }

    pub(super) fn cause_at_deadline(&self) -> Cause {
        match &self.state {
            State::Holds(hold) if hold.is_releasing => Cause::Released,
            State::Holds(_) => Cause::Expired,
            _ => Cause::WaitTimeout,
        }
    }

    pub(crate) fn max_left_ms(&self, now: u64) -> Option<u64> {
        let State::Holds(hold) = &self.state else { return None };
        self.terms.max_hold_ms().map(|max| (hold.granted_at + max).saturating_sub(now))
    }
}
