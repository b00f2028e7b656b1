//! The rules written a second time, as plainly as can be: lists of attempts and sessions, searched from end to end.
//!
//! Attempts at many locks are in `many.rs`, waits that close a cycle in `cycles.rs`.
//! Nothing here is shared with the implementation but the vocabulary of commands, outcomes and events.

use std::sync::Arc;

use holdfast_core::{
    Acquire, Answer, AttemptKey, Cause, ClusterId, ClusterTime, Event, Fence, Grant, Group, Happening,
    HolderSummary, Home, Intervention, LockName, Metadata, NodeId, Op, Outcome, Owner, Rejection, SessionId,
    Share, StorageId, Terms, Ttl,
};

use crate::cycles::Party;
use crate::sessions::Session;
use crate::terms::{Asked, Delay, Done};

const KEPT_MS: u64 = 75_000;
const VOUCHED_MS: u64 = 2_000;
/// So many calls of an attempt are remembered.
const HOMES: usize = 8;

#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) fence: u64,
    pub(crate) ttl: Ttl,
    pub(crate) deadline: u64,
    pub(crate) granted_at: u64,
    /// As the holder says it now.
    pub(crate) metadata: Metadata,
    /// From when until when it waits if nobody claims the grant.
    pub(crate) back_to: Option<(u64, u64)>,
    /// Released before its least hold.
    pub(crate) is_releasing: bool,
}

#[derive(Clone)]
pub(crate) enum State {
    Waits { since: u64, until: u64 },
    Holds(Hold),
    Ended { cause: Cause, fence: Option<Fence>, at: u64, successor: Option<Owner> },
}

#[derive(Clone)]
pub(crate) struct Attempt {
    /// In the order in which they came.
    pub(crate) number: u64,
    /// As it was first asked for.
    pub(crate) asked: Acquire,
    pub(crate) share: Share,
    /// The attempt at many locks that it is a part of.
    pub(crate) many: Option<AttemptKey>,
    /// What keeps it, if its lease is not its own.
    pub(crate) session: Option<SessionId>,
    pub(crate) terms: Terms,
    /// Where its clients may be: all that asked while it waited, the one that was told when it holds, none if there may
    /// be several of those.
    pub(super) homes: Vec<Home>,
    pub(crate) state: State,
}

struct Node {
    id: NodeId,
    boot: u32,
    vouched_until: u64,
}

#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) now: u64,
    pub(crate) fence: u64,
    pub(crate) seq: u64,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) numbers: u64,
    pub(crate) sessions: Vec<Session>,
    /// Of the locks that somebody uses with one.
    pub(super) limits: Vec<(LockName, u32)>,
    nodes: Vec<Node>,
    folders: Vec<(NodeId, StorageId)>,
    /// How attempts at many locks have ended, when the last of their locks was.
    pub(super) ends_of_many: Vec<(AttemptKey, Cause, Option<Fence>, u64)>,
    pub(crate) delays: Vec<Delay>,
    pub(crate) done: Vec<Done>,
    events: Vec<Event>,
    /// All that has ever happened, of the entry that is being applied, too.
    pub(crate) history: Vec<Event>,
    /// The operator who is at it.
    operator: Option<Arc<Intervention>>,
}

impl Naive {
    pub(crate) fn apply(&mut self, group: &Group) -> (Vec<Outcome>, Vec<Event>) {
        self.now = self.now.max(group.now.0);
        while self.end_first_due() {}
        // Somebody may have become absent meanwhile.
        self.hand_all_over();
        let outcomes = group.ops.iter().map(|op| self.run(op)).collect();
        (outcomes, std::mem::take(&mut self.events))
    }

    fn run(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Acquire(attempt) => self.acquire(attempt, Share::Exclusive, None, Terms::default()),
            Op::AcquireShare(attempt, share) => self.acquire(attempt, *share, None, Terms::default()),
            Op::AcquireInSession(attempt, share, session) => {
                self.check_session(session)?;
                self.acquire(attempt, *share, Some(session.id), Terms::default())
            }
            Op::OpenSession { key, owner, ttl } => self.open_session(*key, owner, *ttl),
            Op::RenewSession(session) => self.renew_session(session),
            Op::EndSession(session) => self.end_session(session),
            Op::SetLimit { lock, limit } => self.set_limit(lock, limit.get()),
            Op::Proclaim { key, metadata, .. } => self.proclaim(key, metadata),
            Op::HandOver { lock, key, to } => self.hand_over_to(lock, key, to),
            Op::Renew { key, ttl, .. } => self.renew(key, *ttl),
            Op::Release { key, .. } => self.release(key, false),
            Op::Abandon { key, home, .. } => {
                self.abandon(key, *home);
                Ok(Answer::Done)
            }
            Op::AcquireMany(new) => self.acquire_many(new),
            Op::RenewMany { key, named, ttl } => {
                let named = named.as_ref().map(|places| places.iter().cloned().collect());
                self.renew_many(key, named, *ttl)
            }
            Op::ReleaseMany { key, named } => {
                let named = named.as_ref().map(|places| places.iter().cloned().collect());
                self.release_many(key, named)
            }
            Op::ForceRelease { .. } | Op::ForceLeave { .. } => self.intervene(op),
            Op::TellWallClock { .. } => Ok(Answer::Done), // Nobody is to behave otherwise.
            Op::AcquireOnTerms(new) => {
                new.session.map_or(Ok(()), |session| self.check_session(&session))?;
                self.acquire(&new.acquire, new.share, new.session.map(|session| session.id), new.terms)
            }
            Op::ReleaseDone { key, .. } => self.release(key, true),
            Op::Unclaim { lock, fence } => self.unclaim(lock, *fence),
            Op::Vouch { node, boot } => {
                self.vouch(*node, *boot);
                Ok(Answer::Done)
            }
            Op::Register { node, storage } => {
                if self.folder(*node).is_none() {
                    self.folders.push((*node, *storage));
                }
                let is_its_own = self.folder(*node) == Some(*storage);
                if is_its_own { Ok(Answer::Done) } else { Err(Rejection::ForeignStorage) }
            }
            Op::Found { cluster } => {
                self.cluster = self.cluster.or(Some(*cluster));
                Ok(Answer::Done)
            }
        }
    }

    fn intervene(&mut self, op: &Op) -> Outcome {
        match op {
            Op::ForceRelease { lock, fence, by } => {
                let held = self
                    .holders(lock)
                    .iter()
                    .find(|(_, hold)| hold.fence == fence.0)
                    .map(|(a, _)| a.asked.key);
                if let Some(key) = held {
                    self.operator = Some(Arc::new(by.clone()));
                    let at = self.find_live(&key).unwrap();
                    let locks = self.conclude(at, Cause::Forced);
                    self.operator = None;
                    self.hand_over_in_turn(locks);
                } else if !self.history.iter().any(|event| {
                    let is_end = matches!(event.what, Happening::Ended { cause: Cause::Forced, fence: ended, .. } if ended == *fence);
                    is_end && event.lock == *lock && event.at.0 + KEPT_MS > self.now
                }) {
                    return Err(Rejection::NotHolder);
                }
                Ok(Answer::Released { fence: Some(*fence) })
            }
            Op::ForceLeave { lock, owner, by } => {
                let theirs = self.waiters(lock).filter(|(_, waiter)| waiter.asked.owner == *owner);
                let keys: Vec<_> = theirs.map(|(_, waiter)| waiter.asked.key).collect();
                let is_again = |event: &Event| {
                    event.what == Happening::Left(Cause::Forced)
                        && (&event.lock, &event.owner, event.by.as_deref()) == (lock, owner, Some(by))
                        && event.at.0 + KEPT_MS > self.now
                };
                if keys.is_empty() {
                    let is_again = self.history.iter().any(is_again);
                    return if is_again {
                        Ok(Answer::Left { count: 0 })
                    } else {
                        Err(Rejection::NoSuchWaiter)
                    };
                }
                let mut locks = Vec::new();
                self.operator = Some(Arc::new(by.clone()));
                for key in &keys {
                    let at = self.find_live(key).unwrap();
                    locks.extend(self.conclude(at, Cause::Forced));
                }
                self.operator = None;
                self.hand_over_in_turn(locks);
                Ok(Answer::Left { count: keys.len() as u64 })
            }
            other => panic!("no intervention: {other:?}"),
        }
    }

    fn abandon(&mut self, key: &AttemptKey, home: Home) {
        let Some(at) = self.find_live(key) else { return };
        let at = self.first_of(at);
        if self.attempts[at].homes.contains(&home) {
            for part in self.parts_of(at) {
                self.attempts[part].homes.retain(|known| *known != home);
            }
            if self.attempts[at].homes.is_empty() {
                self.end_all(at, Cause::Abandoned);
            } else if self.attempts[at].deadline().is_some() && !self.attempts[at].holds() {
                // It may be there no more.
                for part in self.parts_of(at) {
                    self.hand_over(&self.attempts[part].asked.lock.clone());
                }
            }
        }
    }

    /// In order of (deadline, number). False if nothing is due.
    fn end_first_due(&mut self) -> bool {
        let attempt = self.first_due();
        let attempt_due = attempt.map(|at| &self.attempts[at]).map(|a| (a.deadline().unwrap(), a.number));
        let now = self.now;
        let session = self.first_due_session();
        if self.end_kept_before(session.into_iter().chain(attempt_due).map(|(at, _)| at).min()) {
            return true;
        }
        match (session, attempt) {
            (Some(due), _) if due.0 <= now && attempt_due.is_none_or(|attempt_due| due < attempt_due) => {
                self.close_session(SessionId(due.1), Cause::SessionExpired);
            }
            (_, Some(at)) if attempt_due.is_some_and(|(deadline, _)| deadline <= now) => {
                let cause = self.attempts[at].cause_at_deadline();
                self.end(at, cause);
            }
            _ => return false,
        }
        true
    }

    fn acquire(&mut self, new: &Acquire, share: Share, session: Option<SessionId>, terms: Terms) -> Outcome {
        self.attempts.retain(|attempt| attempt.asked.key != new.key || attempt.is_known(self.now));
        let Some(at) = self.find(&new.key) else { return self.acquire_anew(new, share, session, terms) };
        if self.attempts[at].is_releasing() {
            return Err(Rejection::LeaseReleased);
        }
        let known = &mut self.attempts[at];
        if let State::Ended { cause, fence, .. } = known.state {
            return Err(told(cause, fence));
        }
        let as_before = &known.asked;
        let (renewed_to, proclaimed) = match &known.state {
            State::Holds(hold) => (hold.ttl, &hold.metadata),
            _ => (as_before.ttl, &as_before.metadata),
        };
        let is_ttl_known = session.is_some() || new.ttl == as_before.ttl || new.ttl == renewed_to;
        let is_metadata_known = new.metadata == as_before.metadata || new.metadata == *proclaimed;
        let is_part_of_a_wait = known.many.is_some() && !known.holds();
        if share != known.share
            || is_part_of_a_wait
            || session != known.session
            || terms != known.terms
            || !is_ttl_known
            || !is_metadata_known
            || new.owner != as_before.owner
        {
            return Err(Rejection::TokenConflict);
        }
        if let State::Waits { until, .. } = &mut known.state {
            if !known.homes.contains(&new.home) {
                known.homes.push(new.home);
            }
            if known.homes.len() > HOMES {
                known.homes.remove(0);
            }
            *until = self.now + new.wait.ms();
            self.vouch(new.home.node, new.home.boot);
            self.hand_over(&new.lock);
        }
        self.answer(new)
    }

    fn acquire_anew(
        &mut self,
        new: &Acquire,
        share: Share,
        session: Option<SessionId>,
        terms: Terms,
    ) -> Outcome {
        if let Some(done) = self.done_of(&new.lock).filter(|_| terms.period_ms().is_some()) {
            return Err(done.told(self.now));
        }
        let is_used = self.is_used(&new.lock);
        if is_used && self.limit(&new.lock) != share.limit() {
            return Err(Rejection::LimitConflict { limit: self.limit(&new.lock) });
        }
        self.limits.retain(|(lock, _)| is_used || *lock != new.lock);
        if let (false, Some(limit)) = (is_used, share.limit()) {
            self.limits.push((new.lock.clone(), limit));
        }
        let is_free = self.is_free(&new.lock, share);
        if !is_free && new.wait.ms() == 0 {
            return Err(self.held(&new.lock));
        }
        if !is_free && self.closes_a_cycle(&Party::of(&new.owner, session), &[(&new.lock, share)]) {
            return Err(Rejection::Deadlock { cycle: Vec::new() });
        }
        self.numbers += 1;
        let state = State::Waits { since: self.now, until: self.now + new.wait.ms() };
        let homes = vec![new.home];
        let (number, asked) = (self.numbers, new.clone());
        self.attempts.push(Attempt { number, asked, share, many: None, session, terms, homes, state });
        let at = self.attempts.len() - 1;
        if is_free {
            self.grant(at, false, None);
        } else {
            self.tell(at, Happening::Queued);
            self.vouch(new.home.node, new.home.boot);
        }
        self.answer(new)
    }

    /// What a live attempt is told.
    fn answer(&mut self, new: &Acquire) -> Outcome {
        let at = self.find_live(&new.key).unwrap();
        if self.attempts[at].holds() {
            // A grant of many is given up as a whole: a call for one of them has been told of it for good.
            let is_only_call = self.attempts[at].homes == [new.home] && self.attempts[at].many.is_none();
            let answer = self.renew_at(at, None);
            if is_only_call {
                self.attempts[at].homes.push(new.home);
            }
            return Ok(answer);
        }
        if new.wait.ms() == 0 {
            self.end(at, Cause::WaitTimeout);
            let is_held = !self.holders(&new.lock).is_empty() || self.delay_of(&new.lock).is_some();
            return Err(if is_held { self.held(&new.lock) } else { Rejection::NotHolder });
        }
        let number = self.attempts[at].number;
        Ok(Answer::Queued {
            place: 1 + self.waiters(&new.lock).filter(|(_, w)| w.number < number).count() as u64,
        })
    }

    fn renew(&mut self, key: &AttemptKey, ttl: Option<Ttl>) -> Outcome {
        if self.find(key).is_some_and(|at| self.attempts[at].is_releasing()) {
            return Err(Rejection::LeaseReleased);
        }
        match self.find(key).map(|at| (at, &self.attempts[at].state)) {
            Some((at, State::Holds(_))) => Ok(self.renew_at(at, ttl)),
            Some((_, State::Ended { fence: None, .. })) => Err(Rejection::NotHolder),
            Some((_, State::Ended { cause, fence, .. })) => Err(told(*cause, *fence)),
            Some((_, State::Waits { .. })) | None => Err(Rejection::NotHolder),
        }
    }

    pub(super) fn renew_at(&mut self, at: usize, ttl: Option<Ttl>) -> Answer {
        let attempt = &mut self.attempts[at];
        let State::Holds(hold) = &mut attempt.state else { panic!("only a hold is renewed") };
        if attempt.session.is_none() {
            hold.ttl = ttl.unwrap_or(hold.ttl);
            hold.deadline = attempt.terms.cut(hold.granted_at, self.now + hold.ttl.ms());
        }
        let answer = Answer::Granted(attempt.grant(self.now));
        self.note_claimed(at);
        answer
    }

    /// Whoever did something about the hold, or another one of the same attempt, knows of its grant.
    pub(super) fn note_claimed(&mut self, at: usize) {
        for part in self.parts_of(at) {
            self.attempts[part].homes.clear();
            if let State::Holds(hold) = &mut self.attempts[part].state {
                hold.back_to = None;
            }
        }
    }

    fn proclaim(&mut self, key: &AttemptKey, metadata: &Metadata) -> Outcome {
        let is_his = |at: &usize| self.attempts[*at].holds() && !self.attempts[*at].is_releasing();
        let Some(at) = self.find(key).filter(is_his) else {
            return self.renew(key, None);
        };
        let attempt = &mut self.attempts[at];
        attempt.homes.clear();
        let State::Holds(hold) = &mut attempt.state else { panic!("it holds") };
        hold.back_to = None;
        if hold.metadata != *metadata {
            hold.metadata = metadata.clone();
            let fence = Fence(hold.fence);
            self.tell(at, Happening::Changed { fence, metadata: metadata.clone() });
        }
        Ok(Answer::Granted(self.attempts[at].grant(self.now)))
    }

    fn hand_over_to(&mut self, lock: &LockName, key: &AttemptKey, to: &Owner) -> Outcome {
        let is_his = |at: &usize| self.attempts[*at].holds() && !self.attempts[*at].is_releasing();
        let Some(at) = self.find(key).filter(is_his) else {
            return match self.find(key).map(|at| &self.attempts[at].state) {
                Some(State::Ended { successor: Some(known), fence, .. }) if known == to => {
                    Ok(Answer::Released { fence: *fence })
                }
                _ => self.renew(key, None),
            };
        };
        let is_alone = |attempt: &Attempt| attempt.share == Share::Exclusive;
        let waiting = self.present_waiters(lock);
        // Who waits for other locks, too, cannot be given this one alone.
        let can_lead = |waiter: &Attempt| is_alone(waiter) && waiter.many.is_none();
        let mut chosen = waiting.iter().filter(|(waiter, _)| can_lead(waiter) && waiter.asked.owner == *to);
        let next = chosen.next().map(|(waiter, _)| waiter.asked.key);
        let next = next.filter(|_| is_alone(&self.attempts[at])).ok_or(Rejection::NoSuchCandidate)?;
        self.conclude(at, Cause::HandedOver);
        let State::Ended { successor, fence, .. } = &mut self.attempts[at].state else { panic!("it ended") };
        *successor = Some(to.clone());
        let fence = *fence;
        self.grant_waiter(self.find_live(&next).unwrap(), true);
        Ok(Answer::Released { fence })
    }

    fn release(&mut self, key: &AttemptKey, done: bool) -> Outcome {
        if let Some(at) = self.find(key).filter(|at| self.attempts[*at].holds()) {
            return Ok(self.release_hold(at, done));
        }
        match self.find(key).map(|at| (at, self.attempts[at].state.clone())) {
            Some((_, State::Ended { cause, fence, .. })) => match told(cause, fence) {
                Rejection::LeaseReleased | Rejection::HandedOver => {
                    let lock = self.attempts[self.find(key).unwrap()].asked.lock.clone();
                    Ok(self.released(&lock, fence, 0))
                }
                other => Err(other),
            },
            Some((at, _)) => {
                self.end(at, Cause::Released);
                Ok(Answer::Released { fence: None })
            }
            None => Err(Rejection::NotHolder),
        }
    }

    fn unclaim(&mut self, lock: &LockName, fence: Fence) -> Outcome {
        let found = self.attempts.iter().position(|attempt| {
            attempt.asked.lock == *lock
                && matches!(&attempt.state, State::Holds(hold) if hold.fence == fence.0 && hold.back_to.is_some())
        });
        let at = found.ok_or(Rejection::NotHolder)?;
        let State::Holds(hold) = self.attempts[at].state.clone() else { panic!("it was a hold") };
        let (since, until) = hold.back_to.unwrap();
        for home in &self.attempts[at].homes {
            for node in self.nodes.iter_mut().filter(|node| node.id == home.node && node.boot == home.boot) {
                node.vouched_until = node.vouched_until.min(self.now);
            }
        }
        let parts = self.parts_of(at);
        let mut locks = vec![lock.clone()];
        let homes = self.attempts[at].homes.clone();
        for part in &parts {
            let State::Holds(hold) = self.attempts[*part].state.clone() else { panic!("it was a hold") };
            let (fence, held_ms) = (Fence(hold.fence), self.now - hold.granted_at);
            self.tell(*part, Happening::Ended { fence, cause: Cause::Unclaimed, held_ms });
            self.attempts[*part].state = State::Waits { since, until };
            self.attempts[*part].homes = homes.clone();
            locks.push(self.attempts[*part].asked.lock.clone());
        }
        let wants_too_much = parts
            .iter()
            .map(|part| &self.attempts[*part])
            .any(|part| self.limit(&part.asked.lock).is_some_and(|limit| part.share.permits() > limit));
        if until <= self.now {
            self.conclude(at, Cause::WaitTimeout);
        } else if wants_too_much {
            self.conclude(at, Cause::LimitChanged);
        } else if self.has_nothing_to_do(at) {
            self.conclude(at, Cause::AlreadyDone);
        }
        self.hand_over_in_turn(locks);
        self.hand_all_over();
        Ok(Answer::Done)
    }

    pub(super) fn vouch(&mut self, id: NodeId, boot: u32) {
        let vouched_until = self.now + VOUCHED_MS;
        match self.nodes.iter_mut().find(|node| node.id == id) {
            Some(node) if boot < node.boot => return,
            Some(node) => (node.boot, node.vouched_until) = (boot, vouched_until),
            None => self.nodes.push(Node { id, boot, vouched_until }),
        }
        self.hand_all_over();
    }

    fn set_limit(&mut self, lock: &LockName, limit: u32) -> Outcome {
        if !self.is_used(lock) || self.limit(lock).is_none() {
            return Err(Rejection::NoLimit);
        }
        self.limits.retain(|(name, _)| name != lock);
        self.limits.push((lock.clone(), limit));
        let mut too_large: Vec<_> = self.waiters(lock).filter(|(_, w)| w.share.permits() > limit).collect();
        too_large.sort_by_key(|(_, waiter)| waiter.number);
        let too_large: Vec<_> = too_large.iter().map(|(_, waiter)| waiter.asked.key).collect();
        let mut locks = vec![lock.clone()];
        for key in too_large {
            let at = self.find_live(&key).unwrap();
            locks.extend(self.conclude(at, Cause::LimitChanged));
        }
        self.hand_over_in_turn(locks);
        Ok(Answer::Done)
    }

    /// Ends an attempt for good and hands its lock on. Some ends are remembered.
    pub(super) fn end(&mut self, at: usize, cause: Cause) {
        let locks = self.conclude(at, cause);
        self.hand_over_in_turn(locks);
    }

    /// Ends a hold, or a wait with all its parts: gives the locks that are concerned.
    pub(crate) fn conclude(&mut self, at: usize, cause: Cause) -> Vec<LockName> {
        if self.attempts[at].holds() {
            return vec![self.conclude_hold(at, cause)];
        }
        let mut keys = vec![self.attempts[at].asked.key];
        let others = self.parts_of(at).into_iter().filter(|part| *part != at);
        keys.extend(others.map(|part| self.attempts[part].asked.key));
        if let (Some(many), Cause::Released | Cause::Forced) = (self.attempts[at].many, cause) {
            self.note_end_of(many, cause, None);
        }
        let mut locks = Vec::new();
        for key in keys {
            let at = self.find_live(&key).unwrap();
            locks.push(self.conclude_part(at, cause));
        }
        locks
    }

    fn conclude_hold(&mut self, at: usize, cause: Cause) -> LockName {
        let many = self.attempts[at].many;
        let State::Holds(hold) = &self.attempts[at].state else { panic!("it is a hold") };
        let fence = Some(Fence(hold.fence));
        let lock = self.conclude_part(at, cause);
        let Some(many) = many else { return lock };
        match self.attempts.iter().position(|other| other.many == Some(many) && other.holds()) {
            Some(rest) => self.note_claimed(rest),
            None => self.note_end_of(many, cause, fence),
        }
        lock
    }

    fn note_end_of(&mut self, many: AttemptKey, cause: Cause, fence: Option<Fence>) {
        self.ends_of_many.retain(|(key, ..)| *key != many);
        self.ends_of_many.push((many, cause, fence, self.now));
    }

    fn conclude_part(&mut self, at: usize, cause: Cause) -> LockName {
        let lock = self.attempts[at].asked.lock.clone();
        let fence = match &self.attempts[at].state {
            State::Holds(hold) => {
                let (fence, held_ms) = (Fence(hold.fence), self.now - hold.granted_at);
                self.tell(at, Happening::Ended { fence, cause, held_ms });
                self.note_delay(&lock, self.attempts[at].terms, cause);
                Some(fence)
            }
            _ => {
                self.tell(at, Happening::Left(cause));
                None
            }
        };
        self.attempts[at].state = State::Ended { cause, fence, at: self.now, successor: None };
        let is_remembered =
            matches!(cause, Cause::Released | Cause::Forced | Cause::SessionExpired | Cause::SessionEnded);
        if fence.is_none() && !is_remembered {
            self.attempts.remove(at);
        }
        lock
    }

    pub(crate) fn hand_over(&mut self, lock: &LockName) {
        self.hand_over_in_turn(vec![lock.clone()]);
    }

    /// The first who waits and is present gets what he wants if there is room for him, and then the next; whoever gets
    /// several locks makes room in other queues, which come afterwards.
    pub(super) fn hand_over_in_turn(&mut self, mut locks: Vec<LockName>) {
        while !locks.is_empty() {
            let lock = locks.remove(0);
            while let Some(next) = self.next_at(&lock) {
                let parts = self.parts_of(next);
                if !parts.iter().all(|part| self.next_at(&self.attempts[*part].asked.lock) == Some(*part)) {
                    break;
                }
                for (nth, part) in parts.iter().enumerate() {
                    if nth > 0 {
                        self.attempts[*part].homes.clear(); // The first one is claimed for all.
                    }
                    self.grant_waiter(*part, nth == 0);
                    if self.attempts[*part].many.is_some() {
                        locks.push(self.attempts[*part].asked.lock.clone());
                    }
                }
            }
        }
    }

    /// Who is present and first in the queue, if there is room for him.
    fn next_at(&self, lock: &LockName) -> Option<usize> {
        let present = self.waiters(lock).filter(|(_, waiter)| self.is_present(waiter));
        let (at, next) = present.min_by_key(|(_, waiter)| waiter.number)?;
        self.has_room(lock, next.share).then_some(at)
    }

    fn hand_all_over(&mut self) {
        let mut locks: Vec<_> = self.attempts.iter().map(|attempt| attempt.asked.lock.clone()).collect();
        locks.sort_unstable();
        locks.iter().for_each(|lock| self.hand_over(lock));
    }

    pub(crate) fn is_free(&self, lock: &LockName, share: Share) -> bool {
        self.has_room(lock, share) && self.present_waiters(lock).is_empty()
    }

    fn has_room(&self, lock: &LockName, share: Share) -> bool {
        if self.delay_of(lock).is_some() {
            return false;
        }
        let holders = self.holders(lock);
        match share {
            Share::Exclusive => holders.is_empty(),
            Share::Shared => holders.iter().all(|(holder, _)| holder.share == Share::Shared),
            Share::Permits(_) => {
                let out: u32 = holders.iter().map(|(holder, _)| holder.share.permits()).sum();
                out + share.permits() <= self.limit(lock).or(share.limit()).unwrap()
            }
        }
    }

    /// Whether anybody holds it or waits for it.
    pub(crate) fn is_used(&self, lock: &LockName) -> bool {
        self.attempts.iter().any(|attempt| attempt.asked.lock == *lock && attempt.deadline().is_some())
    }

    pub(crate) fn limit(&self, lock: &LockName) -> Option<u32> {
        self.limits.iter().find(|(name, _)| name == lock).map(|(_, limit)| *limit)
    }

    fn grant_waiter(&mut self, at: usize, from_queue: bool) {
        let State::Waits { since, .. } = self.attempts[at].state else { panic!("only a waiter is granted") };
        self.grant(at, from_queue, Some(self.now - since));
    }

    pub(super) fn grant(&mut self, at: usize, from_queue: bool, waited_ms: Option<u64>) {
        let State::Waits { since, until } = self.attempts[at].state else {
            panic!("only a waiter is granted")
        };
        self.fence += 1;
        let asked = &self.attempts[at].asked;
        let (asked_ttl, metadata) = (asked.ttl, asked.metadata.clone());
        let session = self.attempts[at].session.map(|session| self.session(session).unwrap());
        let terms = self.attempts[at].terms;
        let (ttl, deadline) =
            session.map_or((asked_ttl, self.now + asked_ttl.ms()), |session| (session.ttl, session.deadline));
        let deadline = terms.cut(self.now, deadline);
        let back_to = from_queue.then_some((since, until));
        let (granted_at, number) = (self.now, self.fence);
        self.attempts[at].state = State::Holds(Hold {
            fence: number,
            ttl,
            deadline,
            granted_at,
            metadata: metadata.clone(),
            back_to,
            is_releasing: false,
        });
        let (fence, expires_in_ms) = (Fence(number), deadline - self.now);
        let max_left_ms = terms.max_hold_ms();
        self.tell(
            at,
            Happening::Acquired { fence, ttl, expires_in_ms, metadata, from_queue, max_left_ms, waited_ms },
        );
    }

    pub(super) fn tell(&mut self, at: usize, what: Happening) {
        self.seq += 1;
        let Acquire { lock, owner, key, .. } = self.attempts[at].asked.clone();
        let is_beginning = matches!(what, Happening::Queued | Happening::Acquired { .. });
        let home = match self.attempts[at].homes[..] {
            [home] if is_beginning => Some(home),
            _ => None,
        };
        let (at_ms, share) = (ClusterTime(self.now), self.attempts[at].share);
        let event = Event {
            seq: self.seq,
            at: at_ms,
            lock,
            owner,
            key,
            home,
            share,
            what,
            by: self.operator.clone(),
        };
        self.events.push(event.clone());
        self.history.push(Event { home: None, ..event });
    }

    pub(crate) fn held(&self, lock: &LockName) -> Rejection {
        let holders = self.holders(lock);
        let holder = holders.first().map(|(holder, hold)| HolderSummary {
            owner: holder.asked.owner.clone(),
            fence: Fence(hold.fence),
            expires_in_ms: hold.deadline - self.now,
        });
        let queue_length = self.present_waiters(lock).len() as u64;
        match self.delay_of(lock) {
            Some(until) => Rejection::Delayed { holder, queue_length, delay_ms: until - self.now },
            None => Rejection::Held { holder, queue_length },
        }
    }

    pub(super) fn find(&self, key: &AttemptKey) -> Option<usize> {
        self.attempts.iter().position(|attempt| attempt.asked.key == *key && attempt.is_known(self.now))
    }

    pub(super) fn find_live(&self, key: &AttemptKey) -> Option<usize> {
        self.find(key).filter(|at| self.attempts[*at].deadline().is_some())
    }

    fn first_due(&self) -> Option<usize> {
        let live = (0..self.attempts.len()).filter(|at| {
            let attempt = &self.attempts[*at];
            attempt.deadline().is_some() && !attempt.is_up_to_its_session()
        });
        live.min_by_key(|at| (self.attempts[*at].deadline(), self.attempts[*at].number))
    }

    pub(super) fn is_present(&self, attempt: &Attempt) -> bool {
        let session = attempt.session.and_then(|session| self.session(session));
        let is_over = session.is_some_and(|session| session.deadline <= self.now);
        !is_over
            && attempt.homes.iter().any(|home| {
                let mut nodes = self.nodes.iter();
                nodes.any(|node| {
                    node.id == home.node && node.boot == home.boot && node.vouched_until > self.now
                })
            })
    }

    pub(super) fn waiters(&self, lock: &LockName) -> impl Iterator<Item = (usize, &Attempt)> {
        let waits = |attempt: &Attempt| matches!(attempt.state, State::Waits { .. });
        self.attempts.iter().enumerate().filter(move |(_, a)| a.asked.lock == *lock && waits(a))
    }
}

/// What the outside can see.
impl Naive {
    pub(crate) fn next_due(&self) -> Option<u64> {
        let due = self.first_due().and_then(|at| self.attempts[at].deadline());
        let lapse = self.nodes.iter().map(|node| node.vouched_until).filter(|until| *until > self.now).min();
        let has_open = self.attempts.iter().any(|waiter| {
            let lock = &waiter.asked.lock;
            let waits = matches!(waiter.state, State::Waits { .. });
            let is_open = !self.holders(lock).is_empty() || !self.present_waiters(lock).is_empty();
            waits && is_open && !self.is_full(lock)
        });
        let session = self.first_due_session().map(|(deadline, _)| deadline);
        due.into_iter().chain(session).chain(lapse.filter(|_| has_open)).chain(self.next_kept()).min()
    }

    /// Whether nobody can come in, whatever he wants.
    fn is_full(&self, lock: &LockName) -> bool {
        let holders = self.holders(lock);
        if self.delay_of(lock).is_some() {
            return true;
        }
        match self.limit(lock) {
            Some(limit) => holders.iter().map(|(holder, _)| holder.share.permits()).sum::<u32>() >= limit,
            None => holders.iter().any(|(holder, _)| holder.share == Share::Exclusive),
        }
    }

    pub(crate) fn attempt(&self, key: &AttemptKey) -> Option<&Attempt> {
        self.find(key).map(|at| &self.attempts[at])
    }

    pub(crate) fn home_of(&self, key: &AttemptKey) -> Option<Home> {
        self.find(key).and_then(|at| self.attempts[at].homes.last().copied())
    }

    /// In the order of their grants.
    pub(crate) fn holders(&self, lock: &LockName) -> Vec<(&Attempt, &Hold)> {
        let of_lock = self.attempts.iter().filter(|attempt| attempt.asked.lock == *lock);
        let mut holders: Vec<_> = of_lock
            .filter_map(|attempt| match &attempt.state {
                State::Holds(hold) => Some((attempt, hold)),
                _ => None,
            })
            .collect();
        holders.sort_by_key(|(_, hold)| hold.fence);
        holders
    }

    /// In order: who waits and is present, and since when.
    pub(crate) fn present_waiters(&self, lock: &LockName) -> Vec<(&Attempt, u64)> {
        let mut present: Vec<_> = self.waiters(lock).filter(|(_, w)| self.is_present(w)).collect();
        present.sort_by_key(|(_, waiter)| waiter.number);
        let since = |waiter: &Attempt| match waiter.state {
            State::Waits { since, .. } => since,
            _ => panic!("it waits"),
        };
        present.iter().map(|(_, waiter)| (*waiter, since(waiter))).collect()
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        let mut held: Vec<_> = self.attempts.iter().filter(|a| a.holds()).map(|a| &a.asked.lock).collect();
        held.sort_unstable();
        held.dedup();
        let is_counted =
            |at: &usize| matches!(self.attempts[*at].state, State::Waits { .. }) && self.first_of(*at) == *at;
        let waiting = (0..self.attempts.len()).filter(is_counted).count();
        (held.len() as u64, waiting as u64)
    }

    pub(crate) fn folder(&self, node: NodeId) -> Option<StorageId> {
        self.folders.iter().find(|(id, _)| *id == node).map(|(_, folder)| *folder)
    }
}

impl Attempt {
    pub(crate) fn holds(&self) -> bool {
        matches!(self.state, State::Holds(_))
    }

    /// None once it has ended.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match &self.state {
            State::Waits { until, .. } => Some(*until),
            State::Holds(hold) => Some(hold.deadline),
            State::Ended { .. } => None,
        }
    }

    fn is_known(&self, now: u64) -> bool {
        !matches!(self.state, State::Ended { at, .. } if at + KEPT_MS <= now)
    }

    pub(crate) fn grant(&self, now: u64) -> Grant {
        let State::Holds(hold) = &self.state else { panic!("only a hold has a grant") };
        Grant {
            fence: Fence(hold.fence),
            owner: self.asked.owner.clone(),
            ttl: hold.ttl,
            expires_in_ms: hold.deadline - now,
            metadata: hold.metadata.clone(),
            max_left_ms: self.max_left_ms(now),
        }
    }
}

pub(crate) fn told(cause: Cause, fence: Option<Fence>) -> Rejection {
    match cause {
        Cause::SessionExpired | Cause::SessionEnded if fence.is_none() => Rejection::SessionExpired,
        Cause::Expired | Cause::SessionExpired => Rejection::LeaseExpired,
        Cause::Forced => Rejection::LeaseForced,
        Cause::HandedOver => Rejection::HandedOver,
        _ => Rejection::LeaseReleased,
    }
}
