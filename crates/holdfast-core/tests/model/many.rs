//! The model's attempts at many locks: an attempt at each of them, and what they have in common.

use holdfast_core::{
    Acquire, AcquireMany, Answer, AttemptKey, Cause, Fence, Happening, Item, LockName, ManyGrant, Metadata,
    Outcome, Place, Rejection, Ttl,
};

use crate::cycles::Party;
use crate::naive::{Attempt, Naive, State, told};

/// So long an ending is remembered.
const KEPT_MS: u64 = 75_000;

impl Naive {
    /// The live attempts that this one belongs together with, itself included, in their order.
    pub(super) fn parts_of(&self, at: usize) -> Vec<usize> {
        let many = self.attempts[at].many;
        let live = (0..self.attempts.len()).filter(|other| self.attempts[*other].deadline().is_some());
        let mut parts: Vec<_> = live
            .filter(|other| *other == at || many.is_some() && self.attempts[*other].many == many)
            .collect();
        parts.sort_by_key(|part| self.attempts[*part].number);
        parts
    }

    pub(super) fn first_of(&self, at: usize) -> usize {
        self.parts_of(at)[0]
    }

    /// Ends what an attempt holds or waits for, one after the other.
    pub(super) fn end_all(&mut self, at: usize, cause: Cause) {
        let keys: Vec<_> = self.parts_of(at).iter().map(|part| self.attempts[*part].asked.key).collect();
        for key in keys {
            if let Some(at) = self.find_live(&key) {
                self.end(at, cause);
            }
        }
    }

    fn live_parts(&self, many: &AttemptKey) -> Vec<usize> {
        let is_first = |attempt: &Attempt| attempt.many == Some(*many) && attempt.deadline().is_some();
        self.attempts.iter().position(is_first).map(|at| self.parts_of(at)).unwrap_or_default()
    }

    pub(super) fn acquire_many(&mut self, new: &AcquireMany) -> Outcome {
        let known = self.live_parts(&new.key);
        if let Some(first) = known.first() {
            return if self.attempts[*first].holds() {
                self.repeat_held_many(new, &known)
            } else {
                self.repeat_queued_many(new, &known)
            };
        }
        for item in new.items.iter() {
            let (lock, key) = (&item.place.lock, &item.place.key);
            let refused = match self.find(key).map(|at| &self.attempts[at].state) {
                Some(State::Ended { cause, fence, .. }) => Some(told(*cause, *fence)),
                Some(_) => Some(Rejection::TokenConflict),
                None if self.is_used(lock) && self.limit(lock) != item.share.limit() => {
                    Some(Rejection::LimitConflict { limit: self.limit(lock) })
                }
                None => None,
            };
            if let Some(why) = refused {
                return Err(at(lock, why));
            }
        }
        self.acquire_many_anew(new)
    }

    fn acquire_many_anew(&mut self, new: &AcquireMany) -> Outcome {
        let is_free = |item: &Item| self.is_free_or_unused(&item.place.lock, item.share);
        let busy = new.items.iter().find(|item| !is_free(item)).map(|item| item.place.lock.clone());
        if let Some(lock) = busy.as_ref().filter(|_| new.wait.ms() == 0) {
            return Err(at(lock, self.held(lock)));
        }
        let wanted: Vec<_> = new.items.iter().map(|item| (&item.place.lock, item.share)).collect();
        if busy.is_some() && self.closes_a_cycle(&Party::of(&new.owner, None), &wanted) {
            return Err(Rejection::Deadlock { cycle: Vec::new() });
        }
        for Item { place, share } in new.items.iter() {
            let is_used = self.is_used(&place.lock);
            self.limits.retain(|(lock, _)| is_used || *lock != place.lock);
            if let (false, Some(limit)) = (is_used, share.limit()) {
                self.limits.push((place.lock.clone(), limit));
            }
            self.numbers += 1;
            let homes =
                if busy.is_some() || place == &new.items.first().place { vec![new.home] } else { vec![] };
            self.attempts.push(Attempt {
                number: self.numbers,
                asked: single(new, place),
                share: *share,
                many: Some(new.key),
                session: None,
                terms: holdfast_core::Terms::default(),
                homes,
                state: State::Waits { since: self.now, until: self.now + new.wait.ms() },
            });
            let at = self.attempts.len() - 1;
            match busy {
                None => self.grant(at, false, None),
                Some(_) => self.tell(at, Happening::Queued),
            }
        }
        if busy.is_some() {
            self.vouch(new.home.node, new.home.boot);
        }
        self.answer_many(new)
    }

    fn repeat_queued_many(&mut self, new: &AcquireMany, known: &[usize]) -> Outcome {
        let is_same = |item: &Item| {
            known.iter().any(|at| {
                let Attempt { asked, share, .. } = &self.attempts[*at];
                let is_ours = asked.key == item.place.key && *share == item.share;
                is_ours && asked.owner == new.owner && asked.ttl == new.ttl
            })
        };
        if !self.are_in_order(new, known) || !new.items.iter().all(is_same) {
            return Err(Rejection::TokenConflict);
        }
        for part in known {
            let attempt = &mut self.attempts[*part];
            if !attempt.homes.contains(&new.home) {
                attempt.homes.push(new.home);
            }
            if attempt.homes.len() > 8 {
                attempt.homes.remove(0);
            }
            if let State::Waits { until, .. } = &mut attempt.state {
                *until = self.now + new.wait.ms();
            }
        }
        let lock = self.attempts[known[0]].asked.lock.clone();
        self.vouch(new.home.node, new.home.boot);
        self.hand_over(&lock);
        self.answer_many(new)
    }

    fn repeat_held_many(&mut self, new: &AcquireMany, known: &[usize]) -> Outcome {
        for Item { place, share } in new.items.iter() {
            let found = self.find(&place.key).map(|at| &self.attempts[at]);
            let why = match found.map(|attempt| (attempt, &attempt.state)) {
                Some((attempt, State::Holds(hold))) if attempt.many == Some(new.key) => {
                    let is_ttl_known = [attempt.asked.ttl, hold.ttl].contains(&new.ttl);
                    let is_same = *share == attempt.share && attempt.asked.owner == new.owner && is_ttl_known;
                    (!is_same).then_some(Rejection::TokenConflict)
                }
                Some((_, State::Ended { cause, fence, .. })) => Some(told(*cause, *fence)),
                _ => Some(Rejection::TokenConflict),
            };
            if let Some(why) = why {
                return Err(at(&place.lock, why));
            }
        }
        if !self.are_in_order(new, known) {
            return Err(Rejection::TokenConflict);
        }
        self.answer_many(new)
    }

    fn are_in_order(&self, new: &AcquireMany, known: &[usize]) -> bool {
        let asked: Vec<_> = new.items.iter().map(|item| item.place.key).collect();
        asked == known.iter().map(|at| self.attempts[*at].asked.key).collect::<Vec<_>>()
    }

    /// What a live attempt is told.
    fn answer_many(&mut self, new: &AcquireMany) -> Outcome {
        let parts = self.live_parts(&new.key);
        let first = parts[0];
        if self.attempts[first].holds() {
            let is_only_call = self.attempts[first].homes == [new.home];
            for part in &parts {
                self.renew_at(*part, None);
            }
            if is_only_call {
                self.attempts[first].homes.push(new.home);
            }
            let places: Vec<_> = new.items.iter().map(|item| item.place.clone()).collect();
            return Ok(self.granted_many(&places));
        }
        if new.wait.ms() == 0 {
            self.end(first, Cause::WaitTimeout);
            let mut items = new.items.iter();
            let is_free = |item: &Item| self.is_free_or_unused(&item.place.lock, item.share);
            let busy = items.find(|item| !is_free(item)).map(|item| &item.place.lock);
            return Err(busy.map_or(Rejection::NotHolder, |lock| at(lock, self.held(lock))));
        }
        let ahead = |part: &usize| {
            let Attempt { asked, number, .. } = &self.attempts[*part];
            self.waiters(&asked.lock).filter(|(_, other)| other.number < *number).count() as u64
        };
        Ok(Answer::Queued { place: 1 + parts.iter().map(ahead).max().unwrap() })
    }

    fn granted_many(&self, places: &[Place]) -> Answer {
        let holds = places.iter().map(|place| {
            let State::Holds(hold) = &self.attempts[self.find_live(&place.key).unwrap()].state else {
                panic!("it is held")
            };
            (place.lock.clone(), hold)
        });
        Answer::GrantedMany(ManyGrant {
            fences: holds.clone().map(|(lock, hold)| (lock, Fence(hold.fence))).collect(),
            ttl: holds.clone().map(|(_, hold)| hold.ttl).min().unwrap(),
            expires_in_ms: holds.map(|(_, hold)| hold.deadline - self.now).min().unwrap(),
        })
    }

    /// The places that are meant; without any, how the attempt has ended.
    fn meant(
        &self,
        many: &AttemptKey,
        named: Option<Vec<Place>>,
    ) -> Result<Vec<Place>, Option<(Cause, Option<Fence>)>> {
        if let Some(places) = named {
            return Ok(places);
        }
        let parts = self.live_parts(many);
        if parts.is_empty() {
            let mut ends = self.ends_of_many.iter();
            let end = ends.find(|(key, _, _, at)| key == many && at + KEPT_MS > self.now);
            return Err(end.map(|(_, cause, fence, _)| (*cause, *fence)));
        }
        let place = |part: &usize| {
            let Acquire { lock, key, .. } = self.attempts[*part].asked.clone();
            Place { lock, key }
        };
        Ok(parts.iter().map(place).collect())
    }

    pub(super) fn renew_many(
        &mut self,
        many: &AttemptKey,
        named: Option<Vec<Place>>,
        ttl: Option<Ttl>,
    ) -> Outcome {
        let ended = |cause, fence: Option<Fence>| match fence {
            Some(_) => told(cause, fence),
            None => Rejection::NotHolder,
        };
        let places = match self.meant(many, named) {
            Ok(places) => places,
            Err(end) => return Err(end.map_or(Rejection::NotHolder, |(cause, fence)| ended(cause, fence))),
        };
        for place in &places {
            self.check_not_releasing(&place.key).map_err(|why| at(&place.lock, why))?;
        }
        for place in &places {
            match self.find(&place.key).map(|at| &self.attempts[at].state) {
                Some(State::Holds(_)) => {}
                Some(State::Ended { cause, fence, .. }) => {
                    return Err(at(&place.lock, ended(*cause, *fence)));
                }
                _ => return Err(at(&place.lock, Rejection::NotHolder)),
            }
        }
        for place in &places {
            self.renew_at(self.find_live(&place.key).unwrap(), ttl);
        }
        Ok(self.granted_many(&places))
    }

    pub(super) fn release_many(&mut self, many: &AttemptKey, named: Option<Vec<Place>>) -> Outcome {
        let places = match self.meant(many, named) {
            Ok(places) => places,
            Err(Some((cause, fence))) if told(cause, fence) == Rejection::LeaseReleased => {
                return Ok(Answer::ReleasedMany { fences: Vec::new() });
            }
            Err(end) => {
                return Err(end.map_or(Rejection::NotHolder, |(cause, fence)| told(cause, fence)));
            }
        };
        for place in &places {
            match self.find(&place.key).map(|at| &self.attempts[at].state) {
                Some(State::Ended { cause, fence, .. })
                    if told(*cause, *fence) != Rejection::LeaseReleased =>
                {
                    return Err(at(&place.lock, told(*cause, *fence)));
                }
                Some(_) => {}
                None => return Err(at(&place.lock, Rejection::NotHolder)),
            }
        }
        let mut fences = Vec::new();
        for place in places {
            let fence = match self.attempts[self.find(&place.key).unwrap()].state.clone() {
                State::Holds(hold) => Some(Fence(hold.fence)),
                State::Ended { fence, .. } => fence,
                State::Waits { .. } => None,
            };
            if let Some(at) = self.find_live(&place.key) {
                if self.attempts[at].holds() {
                    self.release_hold(at, false);
                } else {
                    self.end(at, Cause::Released);
                }
            }
            fences.push((place.lock, fence));
        }
        Ok(Answer::ReleasedMany { fences })
    }
}

/// What an attempt at many asks for at one of its locks.
fn single(new: &AcquireMany, place: &Place) -> Acquire {
    Acquire {
        lock: place.lock.clone(),
        key: place.key,
        owner: new.owner.clone(),
        ttl: new.ttl,
        wait: new.wait,
        metadata: Metadata::default(),
        home: new.home,
    }
}

fn at(lock: &LockName, why: Rejection) -> Rejection {
    Rejection::Of { lock: lock.clone(), why: Box::new(why) }
}
