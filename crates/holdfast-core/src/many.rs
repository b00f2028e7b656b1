//! Attempts at many locks: all of them or none.
//!
//! In each of its locks such an attempt is one like any other, with the key that its token has there: it waits in the
//! queue, and what it is granted is a hold with a lease of its own. The record only keeps which of them belong together.
//! Its tickets follow one another, so that two such attempts stand in the same order in all queues: whichever is first in
//! one of them is never behind the other elsewhere, and no two wait for each other.
//!
//! The first lock stands for all of them where something is needed once: it has the timer of the wait, and its hold knows
//! the calls that were or may be told of the grant.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::ending::{Cause, Ending};
use crate::ids::{AttemptKey, Fence};
use crate::lock::{Hold, Lock, Waiter};
use crate::name::LockName;
use crate::outcome::{Answer, ManyGrant, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::several::Place;
use crate::table::LockTable;

/// The locks that an attempt waits for, or those that it still holds: one at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Many {
    pub(crate) places: Vec<Place>,
}

/// All attempts at many locks that wait or hold something.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManyBook {
    records: OrdMap<AttemptKey, Arc<Many>>,
    /// To which of them an attempt at a single lock belongs. Derived.
    of: BTreeMap<AttemptKey, AttemptKey>,
}

impl ManyBook {
    pub(crate) fn restore(records: OrdMap<AttemptKey, Arc<Many>>) -> Self {
        let of = records.iter().flat_map(|(key, many)| many.places.iter().map(|place| (place.key, *key)));
        Self { of: of.collect(), records }
    }

    pub(crate) fn records(&self) -> &OrdMap<AttemptKey, Arc<Many>> {
        &self.records
    }

    /// Whether each of them waits in all of its locks, or holds all of them, and no two have the same place.
    pub(crate) fn is_of(&self, locks: &OrdMap<LockName, Arc<Lock>>) -> bool {
        let is_hold =
            |place: &Place| locks.get(&place.lock).is_some_and(|lock| lock.hold(&place.key).is_some());
        let is_wait = |place: &Place| {
            locks.get(&place.lock).is_some_and(|lock| lock.waiters().any(|waiter| waiter.key == place.key))
        };
        let places = self.records.values().map(|many| many.places.len()).sum();
        self.of.len() == places
            && self.records.values().all(|many| {
                !many.places.is_empty()
                    && (many.places.iter().all(is_hold) || many.places.iter().all(is_wait))
            })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn get(&self, key: &AttemptKey) -> Option<&Arc<Many>> {
        self.records.get(key)
    }

    /// The attempt that an attempt at a single lock belongs to.
    pub(crate) fn of(&self, key: &AttemptKey) -> Option<&Arc<Many>> {
        self.records.get(self.of.get(key)?)
    }

    /// Whether its wait has a timer at this place: it has one in all.
    pub(crate) fn has_timer_at(&self, key: &AttemptKey) -> bool {
        self.of(key).is_none_or(|many| many.places[0].key == *key)
    }

    pub(crate) fn insert(&mut self, key: AttemptKey, places: Vec<Place>) {
        self.of.extend(places.iter().map(|place| (place.key, key)));
        self.records.insert(key, Arc::new(Many { places }));
    }

    fn remove_whole(&mut self, key: &AttemptKey) -> Option<(AttemptKey, Arc<Many>)> {
        let whole = *self.of.get(key)?;
        let many = self.records.remove(&whole)?;
        for place in &many.places {
            self.of.remove(&place.key);
        }
        Some((whole, many))
    }

    /// Takes one place out: the attempt that it belonged to, and what is left of it.
    fn remove_place(&mut self, key: &AttemptKey) -> Option<(AttemptKey, Option<Place>)> {
        let whole = self.of.remove(key)?;
        let many = Arc::make_mut(self.records.get_mut(&whole)?);
        many.places.retain(|place| place.key != *key);
        let first = many.places.first().cloned();
        if first.is_none() {
            self.records.remove(&whole);
        }
        Some((whole, first))
    }
}

impl LockTable {
    /// What whoever holds all of them is told.
    pub(crate) fn granted_many(&self, places: &[Place]) -> Outcome {
        let hold = |place| self.hold(place).expect("all of them are held");
        let terms = places.iter().map(|place| self.term_of(hold(place)));
        Ok(Answer::GrantedMany(ManyGrant {
            fences: places.iter().map(|place| (place.lock.clone(), hold(place).fence)).collect(),
            ttl: terms.clone().map(|term| term.ttl).min().expect("there is one at least"),
            expires_in_ms: terms.map(|term| term.left_ms(self.now)).min().unwrap_or(0),
        }))
    }

    /// Whether a waiter that is first in one queue is first, with room, in all the others that it has to be.
    pub(crate) fn is_in_turn_elsewhere(&self, key: &AttemptKey) -> bool {
        let is_next_at = |place: &Place| {
            self.locks.get(&place.lock).is_some_and(|lock| {
                let next = self.present_waiters(lock).next();
                next.is_some_and(|next| next.key == place.key && lock.has_room_for(next.share))
            })
        };
        self.many.of(key).is_none_or(|many| many.places.iter().all(is_next_at))
    }

    /// Grants an attempt all that it has waited for. False if there are not enough fences left: it stays where it was.
    pub(crate) fn grant_many_from_queue(&mut self, many: &Many) -> bool {
        if !self.has_fences(many.places.len()) {
            return false;
        }
        for (at, place) in many.places.iter().enumerate() {
            let waiter = self.take_place(place);
            if planted(Bug::ManyGrantedInHalf) && at > 0 {
                self.many.remove_place(&place.key);
                self.note_left(&place.lock, waiter, Cause::WaitTimeout);
                continue;
            }
            let fence = self.next_fence().expect("there are enough of them");
            self.admit_waiter(&place.lock, waiter, fence, at == 0);
            self.unsettled.push_back(place.lock.clone());
        }
        true
    }

    pub(crate) fn has_fences(&self, count: usize) -> bool {
        self.fence + count as u64 <= Fence::MAX.0
    }

    /// One of its places is left: the others are left with it.
    pub(crate) fn leave_with(&mut self, key: &AttemptKey, cause: Cause) {
        let Some((whole, many)) = self.many.remove_whole(key) else { return };
        for place in many.places.iter().filter(|place| place.key != *key) {
            let waiter = self.take_place(place);
            self.note_left(&place.lock, waiter, cause);
            self.unsettled.push_back(place.lock.clone());
        }
        if matches!(cause, Cause::Released | Cause::Forced) {
            self.endings.remember(whole, Ending::new(cause, None, self.now));
        }
    }

    /// One of the holds has ended: the attempt goes on with the others. Whoever has made that happen knows of the grant.
    pub(crate) fn drop_place(&mut self, key: &AttemptKey, ending: Ending) {
        match self.many.remove_place(key) {
            Some((_, Some(first))) => self.note_claimed(&first),
            Some((whole, None)) => self.endings.remember(whole, ending),
            None => {}
        }
    }

    /// One of the holds was renewed by itself: there is nothing left to be taken back.
    pub(crate) fn claim_with(&mut self, key: &AttemptKey) {
        if let Some(first) = self.many.of(key).map(|many| many.places[0].clone()) {
            self.note_claimed(&first);
        }
    }

    fn note_claimed(&mut self, first: &Place) {
        let hold = self.hold_mut(first);
        (hold.told, hold.unclaimed) = (None, None);
    }

    /// Takes an attempt out of the queue, by one of its places.
    pub(crate) fn leave(&mut self, place: &Place, cause: Cause) {
        let waiter = self.take_place(place);
        self.note_left(&place.lock, waiter, cause);
    }

    fn take_place(&mut self, place: &Place) -> Waiter {
        let ticket = self.waits.ticket(&place.key).expect("the attempt waits");
        self.take_waiter(&place.lock, ticket)
    }

    pub(crate) fn hold(&self, place: &Place) -> Option<&Hold> {
        self.locks.get(&place.lock)?.hold(&place.key)
    }

    pub(crate) fn hold_mut(&mut self, place: &Place) -> &mut Hold {
        let hold = self.lock_mut(&place.lock).and_then(|lock| lock.hold_mut(&place.key));
        hold.expect("the caller has seen the hold")
    }

    pub(crate) fn waiter_mut(&mut self, place: &Place) -> &mut Waiter {
        let ticket = self.waits.ticket(&place.key);
        let lock = self.lock_mut(&place.lock);
        lock.and_then(|lock| lock.waiter_mut(ticket?)).expect("the caller has seen the waiter")
    }

    /// The locks that an attempt holds, or waits for.
    pub fn places_of_many(&self, key: &AttemptKey) -> Option<&[Place]> {
        self.many.get(key).map(|many| many.places.as_slice())
    }
}

impl Rejection {
    /// The same, of one of many locks.
    pub(crate) fn at(self, lock: &LockName) -> Self {
        Self::Of { lock: lock.clone(), why: Box::new(self) }
    }
}
