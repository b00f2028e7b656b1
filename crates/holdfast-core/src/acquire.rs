//! Acquire and renew.

use crate::command::Acquire;
use crate::ending::Cause;
use crate::homes::Homes;
use crate::ids::{AttemptKey, Home};
use crate::lease::{Asked, Lease};
use crate::lock::{Hold, Lock, QUEUE_LEN_MAX, Ticket, Waiter, Waiting};
use crate::name::{LockName, Metadata, Owner};
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::share::{Limit, Share};
use crate::table::LockTable;
use crate::terms::Terms;
use crate::time::Ttl;
use crate::waits::Party;

impl LockTable {
    pub(crate) fn acquire(
        &mut self,
        attempt: &Acquire,
        share: Share,
        asked: Asked,
        terms: Option<Terms>,
    ) -> Outcome {
        let lock = self.locks.get(&attempt.lock);
        if let Some(hold) = lock.and_then(|lock| lock.hold(&attempt.key)) {
            if hold.is_releasing() {
                return Err(Rejection::LeaseReleased);
            }
            let is_same_kind = share == hold.share && hold.is_kept_as(asked) && terms == hold.terms();
            if !is_same_kind || !is_same(attempt, &hold.owner, &hold.said()) {
                return Err(Rejection::TokenConflict);
            }
            return self.repeat_held(attempt);
        }
        if let Some(waiter) = self.waiter(&attempt.lock, &attempt.key) {
            // One that waits for other locks, too, is repeated as such.
            let is_same_kind =
                share == waiter.share && asked == waiter.asked && terms.as_ref() == waiter.terms.as_deref();
            let is_alone = self.many.of(&attempt.key).is_none();
            if !is_same_kind || !is_alone || !is_same(attempt, &waiter.owner, &[&waiter.metadata]) {
                return Err(Rejection::TokenConflict);
            }
            let ticket = waiter.ticket;
            return self.repeat_queued(attempt, ticket);
        }
        if let Some(ending) = self.endings.get(&attempt.key, self.now) {
            return Err(ending.rejection());
        }
        self.check_not_done(&attempt.lock, terms.as_ref())?;
        self.check_room_in(asked)?;
        let Some(lock) = lock else { return self.acquire_free(attempt, share, asked, terms) };
        if !planted(Bug::LimitConflictUnnoticed) {
            lock.check_limit(share)?;
        }
        // First come, first served: whoever waits goes before, also where there is room for this one.
        let passes = planted(Bug::ReaderPassesWriter) && share == Share::Shared;
        let nobody_can_wait = lock.holders.is_empty() && self.many.is_empty();
        let is_next = || nobody_can_wait || passes || self.present_waiters(lock).next().is_none();
        match lock.has_room_for(share) && is_next() {
            true => self.acquire_free(attempt, share, asked, terms),
            false => self.acquire_busy(attempt, share, asked, terms),
        }
    }

    /// The same grant again, its lease set to the TTL in force again.
    fn repeat_held(&mut self, attempt: &Acquire) -> Outcome {
        if planted(Bug::RepeatedAcquireGrantsAnew) {
            self.grant_anew(&attempt.lock, &attempt.key);
        }
        let is_same_call = |hold: &Hold| hold.home() == Some(attempt.home);
        let hold = self.locks.get(&attempt.lock).and_then(|lock| lock.hold(&attempt.key));
        let told = hold.is_some_and(is_same_call).then_some(attempt.home);
        Ok(self.extend(&attempt.lock, &attempt.key, None, told))
    }

    /// The same place again, its wait set anew; the attempt is present where this call arrived.
    fn repeat_queued(&mut self, attempt: &Acquire, ticket: Ticket) -> Outcome {
        let until = self.now.after(attempt.wait.ms());
        let waiter = self
            .lock_mut(&attempt.lock)
            .and_then(|lock| lock.waiter_mut(ticket))
            .expect("the caller has seen the waiter");
        let former = std::mem::replace(&mut waiter.waiting.until, until);
        waiter.homes.add(attempt.home);
        let asked = waiter.asked;
        if planted(Bug::SessionExtendedByWaiter) {
            self.extend_session_of(asked);
        }
        self.timers.clear(former, ticket);
        self.timers.set(until, ticket, &attempt.lock);
        self.make_present(attempt.home);
        self.answer_waiter(attempt, ticket)
    }

    fn acquire_free(
        &mut self,
        attempt: &Acquire,
        share: Share,
        asked: Asked,
        terms: Option<Terms>,
    ) -> Outcome {
        let fence = self.next_fence().ok_or(Rejection::FencesExhausted)?;
        let lease = Lease::begin(asked, self.now);
        let hold = Hold {
            ticket: self.next_ticket(),
            key: attempt.key,
            owner: attempt.owner.clone(),
            fence,
            lease,
            asked_ttl: self.term(lease).ttl,
            granted_at: self.now,
            unclaimed: None,
            share,
            told: Some(attempt.home),
            metadata: attempt.metadata.clone(),
            asked_metadata: None,
            on_terms: Hold::on(terms),
        };
        let grant = self.grant_of(&hold);
        self.admit(&attempt.lock, hold, false, None);
        Ok(Answer::Granted(grant))
    }

    fn acquire_busy(
        &mut self,
        attempt: &Acquire,
        share: Share,
        asked: Asked,
        terms: Option<Terms>,
    ) -> Outcome {
        let lock = self.locks.get(&attempt.lock).expect("a busy lock has a record");
        if attempt.wait.ms() == 0 {
            return Err(self.held(&attempt.lock));
        }
        if lock.queue_len() >= QUEUE_LEN_MAX {
            return Err(Rejection::QueueFull);
        }
        self.check_cycle(Party::of(&attempt.owner, asked.session()), &[(&attempt.lock, share)])?;
        let ticket = self.next_ticket();
        let waiter = Waiter {
            ticket,
            key: attempt.key,
            owner: attempt.owner.clone(),
            asked,
            waiting: Waiting { since: self.now, until: self.now.after(attempt.wait.ms()) },
            share,
            homes: Homes::of(attempt.home),
            metadata: attempt.metadata.clone(),
            terms: terms.map(Box::new),
        };
        self.note_queued(&attempt.lock, &waiter);
        self.put_back(&attempt.lock, waiter);
        self.make_present(attempt.home);
        self.answer_waiter(attempt, ticket)
    }

    /// A call from a node is as good as its word that it lives.
    pub(crate) fn make_present(&mut self, home: Home) {
        if self.nodes.vouch(home.node, home.boot, self.now) {
            self.revive_stalled();
        }
    }

    /// What an attempt that was queued a moment ago is told: revived locks may have granted it meanwhile.
    fn answer_waiter(&mut self, attempt: &Acquire, ticket: Ticket) -> Outcome {
        self.settle(&attempt.lock);
        let record = self.lock_mut(&attempt.lock).expect("somebody holds the lock or waits for it");
        if let Some(hold) = record.hold_mut(&attempt.key) {
            (hold.told, hold.unclaimed) = (hold.home(), None); // This call tells of it.
            let hold = hold.clone();
            return Ok(Answer::Granted(self.grant_of(&hold)));
        }
        let ahead = record.place_of(ticket).expect("it waits, as it was not granted");
        if attempt.wait.ms() == 0 {
            return self.stop_waiting(&attempt.lock, ticket);
        }
        Ok(Answer::Queued { place: ahead as u64 + 1 })
    }

    /// A repeated attempt that does not want to wait any more.
    fn stop_waiting(&mut self, name: &LockName, ticket: Ticket) -> Outcome {
        let record = self.lock_mut(name).expect("the attempt waits for it");
        let waiter = record.remove_waiter(ticket).expect("the attempt waits");
        self.note_left(name, waiter, Cause::WaitTimeout);
        self.settle(name);
        Err(match self.locks.get(name).filter(|lock| !lock.holders.is_empty() || lock.is_delayed()) {
            Some(_) => self.held(name),
            // Free, and still not granted: this is a late call from a former start of its node, or fences have run out.
            None => Rejection::NotHolder,
        })
    }

    pub(crate) fn renew(&mut self, lock: &LockName, key: &AttemptKey, ttl: Option<Ttl>) -> Outcome {
        if planted(Bug::RenewalRevivesExpiredLease) {
            self.revive(lock, key, Cause::Expired);
        }
        if planted(Bug::ForcedHoldRenewed) {
            self.revive(lock, key, Cause::Forced);
        }
        match self.locks.get(lock).and_then(|lock| lock.hold(key)) {
            None => return Err(self.why_not_held(key)),
            Some(hold) if hold.is_releasing() => return Err(Rejection::LeaseReleased),
            Some(_) => {}
        }
        // Whoever renews has been told, by whichever call.
        Ok(self.extend(lock, key, ttl, None))
    }

    /// `told`: see [`Hold::told`].
    pub(crate) fn extend(
        &mut self,
        lock: &LockName,
        key: &AttemptKey,
        ttl: Option<Ttl>,
        told: Option<Home>,
    ) -> Answer {
        let now = self.now;
        let hold =
            self.lock_mut(lock).and_then(|lock| lock.hold_mut(key)).expect("the caller has seen the hold");
        (hold.told, hold.unclaimed) = (told, None);
        let Some(former) = hold.lease.own() else {
            let hold = hold.clone(); // Its session is renewed by its own calls alone.
            return Answer::Granted(self.grant_of(&hold));
        };
        let renewed = former.renewed(now, ttl);
        let term = if planted(Bug::MaxHoldPassedByRenewal) { renewed } else { hold.within_max(renewed) };
        hold.lease = term.into();
        let (ticket, grant) = (hold.ticket, hold.grant(term, now));
        self.timers.clear(former.deadline, ticket);
        self.timers.set(term.deadline, ticket, lock);
        self.claim_with(key);
        Answer::Granted(grant)
    }

    /// Changes how many permits a lock has. Who waits for more than there are now is told so.
    pub(crate) fn set_limit(&mut self, name: &LockName, limit: Limit) -> Outcome {
        let counts = |lock: &&mut Lock| lock.limit.is_some();
        let lock = self.lock_mut(name).filter(counts).ok_or(Rejection::NoLimit)?;
        lock.limit = Some(limit.get());
        let too_large: Vec<_> = lock
            .waiters()
            .filter(|waiter| waiter.share.permits() > limit.get())
            .map(|waiter| waiter.ticket)
            .collect();
        for ticket in too_large {
            let waiter = self.lock_mut(name).and_then(|lock| lock.remove_waiter(ticket));
            self.note_left(name, waiter.expect("it was there a moment ago"), Cause::LimitChanged);
        }
        self.settle(name);
        Ok(Answer::Done)
    }

    pub(crate) fn held(&self, name: &LockName) -> Rejection {
        let lock = self.locks.get(name);
        let holder = lock.and_then(|lock| lock.holders.first());
        let holder = holder.map(|hold| hold.summary(self.term_of(hold), self.now));
        let queue_length = lock.map_or(0, |lock| self.present_waiters(lock).count()) as u64;
        match lock.and_then(|lock| lock.delayed_until()) {
            Some(until) => Rejection::Delayed { holder, queue_length, delay_ms: until.since(self.now) },
            None => Rejection::Held { holder, queue_length },
        }
    }
}

/// `metadata`: what the attempt may name. A holder that has proclaimed something else may repeat either.
fn is_same(attempt: &Acquire, owner: &Owner, metadata: &[&Metadata]) -> bool {
    attempt.owner == *owner && metadata.contains(&&attempt.metadata)
}
