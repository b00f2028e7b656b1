//! Acquire of many locks.

use crate::command::AcquireMany;
use crate::ending::{Cause, Ending};
use crate::homes::Homes;
use crate::lease::{Asked, Lease};
use crate::lock::{Hold, QUEUE_LEN_MAX, Waiter, Waiting};
use crate::many::Many;
use crate::name::Metadata;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::several::{Item, Place, Several};
use crate::table::LockTable;
use crate::waits::Party;

impl LockTable {
    pub(crate) fn acquire_many(&mut self, attempt: &AcquireMany) -> Outcome {
        if let Some(many) = self.many.get(&attempt.key).cloned() {
            return match self.waits.ticket(&many.places[0].key) {
                Some(_) => self.repeat_queued_many(attempt, &many),
                None => self.repeat_held_many(attempt, &many),
            };
        }
        for item in attempt.items.iter() {
            self.check_new(item).map_err(|rejection| rejection.at(&item.place.lock))?;
        }
        let Some(busy) = attempt.items.iter().find(|item| !self.is_free_for(item)) else {
            return self.acquire_many_free(attempt);
        };
        if attempt.wait.ms() == 0 {
            return Err(self.held(&busy.place.lock).at(&busy.place.lock));
        }
        self.acquire_many_busy(attempt)
    }

    /// Whether an attempt can be made with this token, and this share, at this lock.
    fn check_new(&self, item: &Item) -> Result<(), Rejection> {
        let Item { place: Place { lock: name, key }, share } = item;
        let lock = self.locks.get(name);
        if lock.is_some_and(|lock| lock.hold(key).is_some()) || self.waiter(name, key).is_some() {
            return Err(Rejection::TokenConflict); // It is used for this lock alone.
        }
        if let Some(ending) = self.endings.get(key, self.now) {
            return Err(ending.rejection());
        }
        lock.map_or(Ok(()), |lock| lock.check_limit(*share))
    }

    fn is_free_for(&self, item: &Item) -> bool {
        self.locks
            .get(&item.place.lock)
            .is_none_or(|lock| lock.has_room_for(item.share) && self.present_waiters(lock).next().is_none())
    }

    fn acquire_many_free(&mut self, attempt: &AcquireMany) -> Outcome {
        if !self.has_fences(attempt.items.iter().len()) {
            return Err(Rejection::FencesExhausted);
        }
        for (at, item) in attempt.items.iter().enumerate() {
            let hold = Hold {
                ticket: self.next_ticket(),
                key: item.place.key,
                owner: attempt.owner.clone(),
                fence: self.next_fence().expect("there are enough of them"),
                lease: Lease::begin(Asked::Ttl(attempt.ttl), self.now),
                asked_ttl: attempt.ttl,
                granted_at: self.now,
                unclaimed: None,
                share: item.share,
                told: (at == 0).then_some(attempt.home),
                metadata: Metadata::default(),
                asked_metadata: None,
                on_terms: None,
            };
            self.admit(&item.place.lock, hold, false, None);
        }
        let places = places_of(&attempt.items);
        let answer = self.granted_many(&places);
        self.many.insert(attempt.key, places);
        answer
    }

    fn acquire_many_busy(&mut self, attempt: &AcquireMany) -> Outcome {
        let is_full = |item: &&Item| {
            self.locks.get(&item.place.lock).is_some_and(|lock| lock.queue_len() >= QUEUE_LEN_MAX)
        };
        if let Some(full) = attempt.items.iter().find(is_full) {
            return Err(Rejection::QueueFull.at(&full.place.lock));
        }
        let wanted: Vec<_> = attempt.items.iter().map(|item| (&item.place.lock, item.share)).collect();
        self.check_cycle(Party::of(&attempt.owner, None), &wanted)?;
        self.many.insert(attempt.key, places_of(&attempt.items));
        for item in attempt.items.iter() {
            let waiter = Waiter {
                ticket: self.next_ticket(),
                key: item.place.key,
                owner: attempt.owner.clone(),
                asked: Asked::Ttl(attempt.ttl),
                waiting: Waiting { since: self.now, until: self.now.after(attempt.wait.ms()) },
                share: item.share,
                homes: Homes::of(attempt.home),
                metadata: Metadata::default(),
                terms: None,
            };
            self.note_queued(&item.place.lock, &waiter);
            self.put_back(&item.place.lock, waiter);
            self.file(&item.place.lock);
        }
        self.make_present(attempt.home);
        self.answer_many_waiter(attempt)
    }

    /// The same grants again, all their leases set to the TTL in force again.
    fn repeat_held_many(&mut self, attempt: &AcquireMany, many: &Many) -> Outcome {
        for Item { place, share } in attempt.items.iter() {
            let Some(hold) = self.hold(place).filter(|_| many.places.contains(place)) else {
                let ended = self.endings.get(&place.key, self.now).map(Ending::rejection);
                return Err(ended.unwrap_or(Rejection::TokenConflict).at(&place.lock));
            };
            let is_known_ttl = hold.is_kept_as(Asked::Ttl(attempt.ttl));
            if *share != hold.share || attempt.owner != hold.owner || !is_known_ttl {
                return Err(Rejection::TokenConflict.at(&place.lock));
            }
        }
        if places_of(&attempt.items) != many.places {
            return Err(Rejection::TokenConflict);
        }
        let first = &many.places[0];
        let is_same_call = self.hold(first).is_some_and(|hold| hold.home() == Some(attempt.home));
        self.extend_all(&many.places, None);
        if is_same_call {
            self.hold_mut(first).told = Some(attempt.home);
        }
        self.granted_many(&places_of(&attempt.items))
    }

    /// The same places again, the wait set anew; the attempt is present where this call arrived.
    fn repeat_queued_many(&mut self, attempt: &AcquireMany, many: &Many) -> Outcome {
        let is_same = |Item { place, share }: &Item| {
            let waiter = self.waiter(&place.lock, &place.key);
            waiter.is_some_and(|waiter| {
                let asked = Asked::Ttl(attempt.ttl);
                (waiter.share, waiter.asked, &waiter.owner) == (*share, asked, &attempt.owner)
            })
        };
        // In the same order, too: the first of them is the one that calls wait for.
        if places_of(&attempt.items) != many.places || !attempt.items.iter().all(is_same) {
            return Err(Rejection::TokenConflict);
        }
        let until = self.now.after(attempt.wait.ms());
        for place in &many.places {
            let waiter = self.waiter_mut(place);
            waiter.homes.add(attempt.home);
            let former = std::mem::replace(&mut waiter.waiting.until, until);
            let ticket = waiter.ticket;
            if self.many.has_timer_at(&place.key) {
                self.timers.clear(former, ticket);
                self.timers.set(until, ticket, &place.lock);
            }
        }
        self.make_present(attempt.home);
        self.answer_many_waiter(attempt)
    }

    /// What an attempt that was queued a moment ago is told.
    fn answer_many_waiter(&mut self, attempt: &AcquireMany) -> Outcome {
        let places = places_of(&attempt.items);
        let first = &attempt.items.first().place;
        self.settle(&first.lock);
        if self.hold(first).is_some() {
            let hold = self.hold_mut(first);
            (hold.told, hold.unclaimed) = (hold.home(), None); // This call tells of it.
            return self.granted_many(&places);
        }
        if attempt.wait.ms() == 0 {
            return self.stop_waiting_for_many(attempt);
        }
        let place_of = |place: &Place| {
            let ticket = self.waits.ticket(&place.key)?;
            self.locks.get(&place.lock)?.place_of(ticket)
        };
        let ahead = places.iter().filter_map(place_of).max().expect("it waits, as it was not granted");
        Ok(Answer::Queued { place: ahead as u64 + 1 })
    }

    /// A repeated attempt that does not want to wait any more.
    fn stop_waiting_for_many(&mut self, attempt: &AcquireMany) -> Outcome {
        let first = &attempt.items.first().place;
        self.leave(first, Cause::WaitTimeout);
        self.settle(&first.lock);
        Err(match attempt.items.iter().find(|item| !self.is_free_for(item)) {
            Some(Item { place, .. }) => self.held(&place.lock).at(&place.lock),
            // See [`LockTable::stop_waiting`].
            None => Rejection::NotHolder,
        })
    }
}

fn places_of(items: &Several<Item>) -> Vec<Place> {
    items.iter().map(|item| item.place.clone()).collect()
}
