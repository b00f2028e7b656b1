//! Release, and the two ways in which a client that has gone gives up what it had.

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence, Home};
use crate::lock::Waiter;
use crate::name::LockName;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::table::LockTable;

impl LockTable {
    /// Frees the lock for the attempt that holds it, or takes the attempt out of the queue.
    pub(crate) fn release(&mut self, lock: &LockName, key: &AttemptKey) -> Outcome {
        if let Some(fence) = self.give_up(lock, key, Cause::Released) {
            return Ok(Answer::Released { fence });
        }
        match self.endings.get(key, self.now) {
            Some(ending) if ending.rejection() == Rejection::LeaseReleased => {
                Ok(Answer::Released { fence: ending.fence })
            }
            Some(ending) => Err(ending.rejection()),
            None => Err(Rejection::NotHolder),
        }
    }

    /// The client of a call has gone. A newer call of the same attempt keeps what it has.
    pub(crate) fn abandon(&mut self, lock: &LockName, key: &AttemptKey, home: Home) -> Outcome {
        let owns = |owner: Home| owner == home || planted(Bug::AnyCallAbandons);
        let holds = self.locks.get(lock).and_then(|r| r.hold(key)).is_some_and(|hold| owns(hold.home));
        let waits = self.waiter(lock, key).is_some_and(|waiter| owns(waiter.home));
        if holds || waits {
            self.give_up(lock, key, Cause::Abandoned);
        }
        Ok(Answer::Done)
    }

    /// What was given up: a hold's fence, or none for a place in the queue. None if the attempt has neither.
    fn give_up(&mut self, lock: &LockName, key: &AttemptKey, cause: Cause) -> Option<Option<Fence>> {
        let ticket = self.waiting.get(key).copied();
        let record = self.lock_mut(lock)?;
        let fence = if let Some(hold) = record.remove_hold(|hold| hold.key == *key || hold.is_taken_for(key)) {
            let fence = hold.fence;
            self.note_end(lock, hold, cause);
            self.settle(lock);
            Some(fence)
        } else {
            let waiter = record.remove_waiter(ticket?)?;
            self.note_left(lock, waiter, cause);
            self.file(lock);
            None
        };
        Some(fence)
    }

    /// Takes back a grant that nobody was told of; the attempt keeps its place and its wait.
    ///
    /// A call with the attempt's token may have been told of the grant after the leader had made up its mind: then it
    /// stays.
    pub(crate) fn unclaim(&mut self, lock: &LockName, fence: Fence) -> Outcome {
        let record = self.lock_mut(lock).ok_or(Rejection::NotHolder)?;
        let mut hold = record
            .remove_hold(|hold| hold.fence == fence && hold.unclaimed.is_some())
            .ok_or(Rejection::NotHolder)?;
        let waiting = *hold.unclaimed.take().expect("only such a hold was taken out");
        let waiter = Waiter {
            ticket: hold.ticket,
            key: hold.key,
            owner: hold.owner.clone(),
            ttl: hold.asked_ttl,
            waiting,
            home: hold.home,
            metadata: hold.metadata.clone(),
        };
        self.nodes.mark_absent(hold.home, self.now);
        self.note_end(lock, hold, Cause::Unclaimed);
        if waiter.waiting.until > self.now {
            self.put_back(lock, waiter);
        } else {
            self.note_left(lock, waiter, Cause::WaitTimeout);
        }
        self.settle(lock);
        Ok(Answer::Done)
    }
}
