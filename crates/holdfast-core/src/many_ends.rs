//! Renew and release of many locks, and how a client that has gone gives them up.

use crate::ending::{Cause, Ending};
use crate::ids::{AttemptKey, Home};
use crate::lock::{Unclaimed, Waiter};
use crate::many::Many;
use crate::name::LockName;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::several::{Place, Several};
use crate::table::LockTable;
use crate::time::Ttl;

impl LockTable {
    /// Sets what is left of all the leases to the TTL: of those that are named, else of all that the attempt holds.
    pub(crate) fn renew_many(
        &mut self,
        key: &AttemptKey,
        named: Option<&Several<Place>>,
        ttl: Option<Ttl>,
    ) -> Outcome {
        let places = match self.concerned(key, named) {
            Some(places) => places,
            None => return Err(self.why_not_held(key)),
        };
        for Place { lock, key } in &places {
            self.check_not_releasing(lock, key).map_err(|rejection| rejection.at(lock))?;
        }
        if let Some(lost) = places.iter().find(|place| self.hold(place).is_none()) {
            return Err(self.why_not_held(&lost.key).at(&lost.lock));
        }
        self.extend_all(&places, ttl);
        self.granted_many(&places)
    }

    pub(crate) fn extend_all(&mut self, places: &[Place], ttl: Option<Ttl>) {
        let few = if planted(Bug::RenewalOfManyRenewsFirst) { 1 } else { places.len() };
        for Place { lock, key } in &places[..few] {
            self.extend(lock, key, ttl, None);
        }
    }

    /// Frees the locks, or takes the attempt out of all queues.
    pub(crate) fn release_many(&mut self, key: &AttemptKey, named: Option<&Several<Place>>) -> Outcome {
        let Some(places) = self.concerned(key, named) else {
            self.released_before(key)?;
            return Ok(Answer::ReleasedMany { fences: Vec::new() });
        };
        for place in &places {
            let is_there = self.hold(place).is_some() || self.waiter(&place.lock, &place.key).is_some();
            if !is_there {
                self.released_before(&place.key).map_err(|rejection| rejection.at(&place.lock))?;
            }
        }
        let released = |place: &Place| {
            let fence = match self.let_go(&place.lock, &place.key) {
                Some(fence) => fence,
                None => self.endings.get(&place.key, self.now).and_then(|ending| ending.fence()),
            };
            (place.lock.clone(), fence)
        };
        Ok(Answer::ReleasedMany { fences: places.iter().map(released).collect() })
    }

    /// Releasing again is a success.
    fn released_before(&self, key: &AttemptKey) -> Result<(), Rejection> {
        match self.endings.get(key, self.now).map(Ending::rejection) {
            Some(Rejection::LeaseReleased) => Ok(()),
            other => Err(other.unwrap_or(Rejection::NotHolder)),
        }
    }

    fn concerned(&self, key: &AttemptKey, named: Option<&Several<Place>>) -> Option<Vec<Place>> {
        match named {
            Some(places) => Some(places.iter().cloned().collect()),
            None => self.places_of_many(key).map(<[Place]>::to_vec),
        }
    }

    /// The client of a call has gone: see [`LockTable::abandon`].
    pub(crate) fn abandon_many(&mut self, many: &Many, home: Home) {
        let first = &many.places[0];
        if self.hold(first).is_some() {
            if self.hold_mut(first).is_given_up_by(home) {
                for Place { lock, key } in &many.places {
                    self.give_up(lock, key, Cause::Abandoned);
                }
            }
            return;
        }
        let is_last = |place: &Place| self.waiter_mut(place).homes.remove(home);
        if many.places.iter().map(is_last).fold(false, |is_last, too| is_last | too) {
            self.leave(first, Cause::Abandoned);
            self.settle(&first.lock);
        } else {
            // The calls that are left may be at nodes that are not there.
            many.places.iter().for_each(|place| self.settle(&place.lock));
        }
    }

    /// Takes back grants that nobody was told of; the attempt keeps its places and its wait.
    pub(crate) fn unclaim_many(&mut self, many: &Many) {
        let Some(unclaimed) = self.hold_mut(&many.places[0]).unclaimed.take() else { return };
        let Unclaimed { waiting, homes } = *unclaimed;
        for home in homes.iter() {
            self.nodes.mark_absent(home, self.now);
        }
        for place in &many.places {
            self.back_to_queue(&place.lock, &place.key, |hold| Waiter {
                ticket: hold.ticket,
                key: hold.key,
                owner: hold.owner.clone(),
                asked: hold.asked(),
                waiting,
                share: hold.share,
                homes: homes.clone(),
                metadata: hold.metadata.clone(),
                terms: None, // One of several is held without any.
            });
            self.unsettled.push_back(place.lock.clone());
        }
        // Meanwhile its wait may have run out, and a limit may have been lowered.
        if waiting.until <= self.now {
            self.leave(&many.places[0], Cause::WaitTimeout);
        } else if many.places.iter().any(|place| self.wants_too_much(place)) {
            self.leave(&many.places[0], Cause::LimitChanged);
        }
    }

    fn wants_too_much(&self, place: &Place) -> bool {
        let limit = self.limit_of(&place.lock);
        let waiter = self.waiter(&place.lock, &place.key);
        waiter.zip(limit).is_some_and(|(waiter, limit)| waiter.share.permits() > limit)
    }

    fn back_to_queue(
        &mut self,
        lock: &LockName,
        key: &AttemptKey,
        waiter_of: impl Fn(&crate::lock::Hold) -> Waiter,
    ) {
        let hold = self.lock_mut(lock).and_then(|lock| lock.remove_hold(|hold| hold.key == *key));
        let hold = hold.expect("all of them are held as long as none was claimed");
        let waiter = waiter_of(&hold);
        self.note_end(lock, hold, Cause::Unclaimed);
        self.put_back(lock, waiter);
    }
}
