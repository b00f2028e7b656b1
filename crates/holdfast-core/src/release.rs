//! Release, and the two ways in which a client that has gone gives up what it had.

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence, Home};
use crate::lock::{Hold, Unclaimed, Waiter};
use crate::name::LockName;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::table::LockTable;
use crate::terms::Run;

impl LockTable {
    /// Frees the lock for the attempt that holds it, or takes the attempt out of the queue.
    pub(crate) fn release(&mut self, lock: &LockName, key: &AttemptKey, run: Run) -> Outcome {
        if let Some(fence) = self.give_up(lock, key, Cause::Released) {
            return Ok(Answer::Released { fence });
        }
        if let Some(answer) = self.release_on_terms(lock, key, run) {
            return Ok(answer);
        }
        match self.endings.get(key, self.now) {
            Some(ending)
                if matches!(ending.rejection(), Rejection::LeaseReleased | Rejection::HandedOver) =>
            {
                Ok(self.released(lock, ending.fence(), 0))
            }
            Some(ending) => Err(ending.rejection()),
            None => Err(Rejection::NotHolder),
        }
    }

    /// The same of one of many locks: what was given up, as [`Self::give_up`] tells it.
    pub(crate) fn let_go(&mut self, lock: &LockName, key: &AttemptKey) -> Option<Option<Fence>> {
        self.give_up(lock, key, Cause::Released).or_else(|| {
            match self.release_on_terms(lock, key, Run::Open)? {
                Answer::ReleasedOnTerms { fence, .. } => Some(Some(fence)),
                Answer::Released { fence } => Some(fence),
                _ => None,
            }
        })
    }

    /// The client of a call has gone. The attempt keeps what it has as long as another of its calls may need it.
    pub(crate) fn abandon(&mut self, lock: &LockName, key: &AttemptKey, home: Home) -> Outcome {
        if let Some(many) = self.many.of(key).cloned() {
            self.abandon_many(&many, home);
            return Ok(Answer::Done);
        }
        let ticket = self.waits.ticket(key);
        let Some(record) = self.lock_mut(lock) else { return Ok(Answer::Done) };
        let is_given_up = match record.hold_mut(key) {
            Some(hold) => hold.is_given_up_by(home),
            None => ticket
                .and_then(|ticket| record.waiter_mut(ticket))
                .is_some_and(|waiter| waiter.homes.remove(home)),
        };
        if is_given_up || planted(Bug::AnyCallAbandons) {
            self.give_up(lock, key, Cause::Abandoned);
        } else {
            self.settle(lock); // The calls that are left may be at nodes that are not there.
        }
        Ok(Answer::Done)
    }

    /// What was given up: a hold's fence, or none for a place in the queue. None if the attempt has neither, or is to be
    /// released of a hold on terms: that is [`Self::release_on_terms`].
    pub(crate) fn give_up(
        &mut self,
        lock: &LockName,
        key: &AttemptKey,
        cause: Cause,
    ) -> Option<Option<Fence>> {
        let ticket = self.waits.ticket(key);
        let record = self.lock_mut(lock)?;
        if cause == Cause::Released && record.hold(key).is_some_and(|hold| hold.on_terms.is_some()) {
            return None;
        }
        let fence = if let Some(hold) = record.remove_hold(|hold| hold.key == *key || hold.is_taken_for(key))
        {
            let fence = hold.fence;
            self.note_end(lock, hold, cause);
            self.settle(lock);
            Some(fence)
        } else {
            let waiter = record.remove_waiter(ticket?)?;
            self.note_left(lock, waiter, cause);
            self.settle(lock);
            None
        };
        Some(fence)
    }

    /// Takes back a grant that nobody was told of; the attempt keeps its place and its wait.
    ///
    /// A call with the attempt's token may have been told of the grant after the leader had made up its mind: then it
    /// stays.
    pub(crate) fn unclaim(&mut self, lock: &LockName, fence: Fence) -> Outcome {
        let record = self.locks.get(lock);
        let is_it = |hold: &Hold| hold.fence == fence && hold.unclaimed.is_some();
        let hold = record.and_then(|record| record.holders.iter().find(|hold| is_it(hold)));
        let key = hold.ok_or(Rejection::NotHolder)?.key;
        match self.many.of(&key).cloned() {
            Some(many) => self.unclaim_many(&many),
            None => self.unclaim_one(lock, &key),
        }
        self.settle(lock);
        // Somebody has become absent.
        self.settle_open();
        Ok(Answer::Done)
    }

    fn unclaim_one(&mut self, lock: &LockName, key: &AttemptKey) {
        let record = self.lock_mut(lock).expect("the caller has seen the hold");
        let mut hold = record.remove_hold(|hold| hold.key == *key).expect("the caller has seen the hold");
        let Unclaimed { waiting, homes } = *hold.unclaimed.take().expect("only such a hold was taken out");
        for home in homes.iter() {
            self.nodes.mark_absent(home, self.now);
        }
        let waiter = Waiter {
            ticket: hold.ticket,
            key: hold.key,
            owner: hold.owner.clone(),
            asked: hold.asked(),
            waiting,
            share: hold.share,
            homes,
            metadata: hold.metadata.clone(),
            terms: hold.terms().map(Box::new),
        };
        self.note_end(lock, hold, Cause::Unclaimed);
        // Meanwhile its wait may have run out, the limit may have been lowered, and its run may have been made.
        let is_too_large = self.limit_of(lock).is_some_and(|limit| waiter.share.permits() > limit);
        if waiter.waiting.until <= self.now {
            self.note_left(lock, waiter, Cause::WaitTimeout);
        } else if is_too_large {
            self.note_left(lock, waiter, Cause::LimitChanged);
        } else if self.check_not_done(lock, waiter.terms.as_deref()).is_err() {
            self.note_left(lock, waiter, Cause::AlreadyDone);
        } else {
            self.put_back(lock, waiter);
        }
    }
}
