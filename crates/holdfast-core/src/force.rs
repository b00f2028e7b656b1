//! What an operator may do to those who hold a lock or wait for it.

use std::sync::Arc;

use crate::ending::{Cause, ENDING_KEPT_MS};
use crate::event::{Event, Happening, Intervention};
use crate::ids::Fence;
use crate::lock::Hold;
use crate::name::{LockName, Owner};
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::table::LockTable;

impl LockTable {
    /// Ends a hold, if it is this one that holds the lock.
    pub(crate) fn force_release(&mut self, name: &LockName, fence: Fence, by: &Intervention) -> Outcome {
        let first = self.events.len();
        let is_it = |hold: &&Hold| hold.fence == fence || planted(Bug::ForceIgnoresFence);
        let hold = self.locks.get(name).and_then(|lock| lock.holders.iter().find(is_it));
        match hold.map(|hold| hold.key) {
            Some(key) => drop(self.give_up(name, &key, Cause::Forced)),
            None if self.was_forced(name, |what| is_forced_end(what, fence), None) => {}
            None => return Err(Rejection::NotHolder),
        }
        self.explain(first, by);
        Ok(Answer::Released { fence: Some(fence) })
    }

    /// Takes all attempts of an owner out of the queue.
    pub(crate) fn force_leave(&mut self, name: &LockName, owner: &Owner, by: &Intervention) -> Outcome {
        let first = self.events.len();
        let waiters = self.locks.get(name).into_iter().flat_map(|lock| lock.waiters());
        let tickets: Vec<_> =
            waiters.filter(|waiter| waiter.owner == *owner).map(|waiter| waiter.ticket).collect();
        if tickets.is_empty() {
            let is_theirs = |what: &Happening| *what == Happening::Left(Cause::Forced);
            return match self.was_forced(name, is_theirs, Some((owner, by))) {
                true => Ok(Answer::Left { count: 0 }),
                false => Err(Rejection::NoSuchWaiter),
            };
        }
        let count = tickets.len() as u64;
        for ticket in tickets {
            let waiter = self.lock_mut(name).and_then(|lock| lock.remove_waiter(ticket));
            self.note_left(name, waiter.expect("it was there a moment ago"), Cause::Forced);
        }
        self.settle(name);
        self.explain(first, by);
        Ok(Answer::Left { count })
    }

    /// Whether the same was done a moment ago: this call is its repetition.
    fn was_forced(
        &self,
        name: &LockName,
        is_it: impl Fn(&Happening) -> bool,
        of: Option<(&Owner, &Intervention)>,
    ) -> bool {
        let is_recent = |event: &&Event| event.at.after(ENDING_KEPT_MS) > self.now;
        let is_of = |event: &Event| {
            of.is_none_or(|(owner, by)| event.owner == *owner && event.by.as_deref() == Some(by))
        };
        let kept = self.history.kept().iter().rev().take_while(is_recent);
        let mut events = self.events.iter().chain(kept).filter(|event| event.lock == *name);
        events.any(|event| is_it(&event.what) && is_of(event))
    }

    /// Tells who has done what has happened from this event on.
    fn explain(&mut self, first: usize, by: &Intervention) {
        let by = Arc::new(by.clone());
        for event in self.events[first..].iter_mut().filter(|event| is_forced(&event.what)) {
            event.by = Some(by.clone());
        }
    }
}

fn is_forced(what: &Happening) -> bool {
    matches!(what, Happening::Ended { cause: Cause::Forced, .. } | Happening::Left(Cause::Forced))
}

fn is_forced_end(what: &Happening, of: Fence) -> bool {
    matches!(what, Happening::Ended { cause: Cause::Forced, fence, .. } if *fence == of)
}
