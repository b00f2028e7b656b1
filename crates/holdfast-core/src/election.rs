//! What the holder of a lock can do while others campaign for it: say something else, and choose its successor.

use crate::ending::Cause;
use crate::event::Happening;
use crate::ids::{AttemptKey, Fence};
use crate::lock::{Hold, Lock, Ticket, Waiter};
use crate::name::{LockName, Metadata, Owner};
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::share::Share;
use crate::table::LockTable;

impl LockTable {
    /// Changes what the holder says about itself. The lease stays as it is.
    pub(crate) fn proclaim(&mut self, name: &LockName, key: &AttemptKey, metadata: &Metadata) -> Outcome {
        self.check_not_releasing(name, key)?;
        if planted(Bug::ProclaimRenews) && self.locks.get(name).is_some_and(|lock| lock.hold(key).is_some()) {
            drop(self.extend(name, key, None, None));
        }
        let Some(hold) = self.lock_mut(name).and_then(|lock| lock.hold_mut(key)) else {
            return Err(self.why_not_held(key));
        };
        // Whoever proclaims has been told of the grant, by whichever call.
        (hold.told, hold.unclaimed) = (None, None);
        let is_news = hold.metadata != *metadata;
        if is_news {
            hold.say(metadata.clone());
        }
        let hold = hold.clone();
        let grant = self.grant_of(&hold);
        if is_news {
            let what = Happening::Changed { fence: grant.fence, metadata: metadata.clone() };
            self.note_changed(name, (hold.owner, *key, hold.share), what);
        }
        Ok(Answer::Granted(grant))
    }

    /// Ends the hold and grants the lock to a candidate, in one step: nobody else comes in between, and where there is no
    /// candidate nothing changes.
    pub(crate) fn hand_over(&mut self, name: &LockName, key: &AttemptKey, to: &Owner) -> Outcome {
        self.check_not_releasing(name, key)?;
        let lock = self.locks.get(name);
        let Some((lock, hold)) = lock.and_then(|lock| Some((lock, lock.hold(key)?))) else {
            return self.repeat_hand_over(key, to);
        };
        let fence = hold.fence;
        let candidate = self.candidate(lock, hold, to).ok_or(Rejection::NoSuchCandidate)?;
        if self.fence >= Fence::MAX.0 {
            return Err(Rejection::FencesExhausted);
        }
        let candidate = self.take_waiter(name, candidate);
        if !planted(Bug::HandOverKeepsOldLeader) {
            let hold = self.lock_mut(name).and_then(|lock| lock.remove_hold(|hold| hold.key == *key));
            self.note_end(name, hold.expect("it was there a moment ago"), Cause::HandedOver);
            self.endings.note_successor(key, to);
        }
        self.grant_from_queue(name, candidate);
        self.settle(name);
        Ok(Answer::Released { fence: Some(fence) })
    }

    /// The first of the owner's attempts that can lead: who holds a lock beside others has nothing to hand over, and who
    /// waits for other locks, too, cannot be given this one alone.
    fn candidate(&self, lock: &Lock, hold: &Hold, to: &Owner) -> Option<Ticket> {
        let leads = |share: Share| share == Share::Exclusive;
        let can_lead = |waiter: &Waiter| leads(waiter.share) && self.many.of(&waiter.key).is_none();
        let mut candidates = self.present_waiters(lock).filter(|_| leads(hold.share));
        let is_chosen = |waiter: &Waiter| waiter.owner == *to || planted(Bug::HandOverToAnyCandidate);
        candidates.find(|waiter| can_lead(waiter) && is_chosen(waiter)).map(|waiter| waiter.ticket)
    }

    /// The same success again for a hand-over that has taken place, to the same owner.
    fn repeat_hand_over(&self, key: &AttemptKey, to: &Owner) -> Outcome {
        match self.endings.get(key, self.now) {
            Some(ending) if ending.successor.as_deref() == Some(to) => {
                Ok(Answer::Released { fence: ending.fence() })
            }
            _ => Err(self.why_not_held(key)),
        }
    }

    /// What an attempt that does not hold the lock is told. One that was only queued has never held it.
    pub(crate) fn why_not_held(&self, key: &AttemptKey) -> Rejection {
        let ended = self.endings.get(key, self.now).filter(|ending| ending.fence().is_some());
        ended.map_or(Rejection::NotHolder, |ending| ending.rejection())
    }
}
