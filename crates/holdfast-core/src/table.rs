//! The state machine: all locks, and the one function that changes them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use imbl::OrdMap;

use crate::command::{Group, Op};
use crate::ending::{Cause, Ending, Endings};
use crate::event::{Event, Happening};
use crate::event_history::EventHistory;
use crate::ids::{AttemptKey, ClusterId, Fence, Home, NodeId, StorageId};
use crate::kept::KeptUntil;
use crate::lease::{Asked, Lease};
use crate::lock::{Hold, Lock, Ticket, Unclaimed, Waiter};
use crate::many::ManyBook;
use crate::name::{LockName, Owner};
use crate::node::Nodes;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::session::Sessions;
use crate::share::Share;
use crate::terms::Run;
use crate::time::ClusterTime;
use crate::timers::{Due, Timers};
use crate::waits::Waits;
use crate::wall_clock::WallClock;

/// What one entry of the log came to.
#[derive(Debug, Default)]
pub struct Applied {
    /// One for each operation, in order.
    pub outcomes: Vec<Outcome>,
    /// What happened, in order: also what was due by then and concerns none of the operations.
    pub events: Vec<Event>,
}

/// The replicated state: every lock that somebody holds or waits for, and what is remembered of the others.
///
/// [`LockTable::snapshot`] is the copy that costs nothing; a clone costs time and memory for every deadline.
#[derive(Clone, Debug, Default)]
pub struct LockTable {
    pub(crate) now: ClusterTime,
    pub(crate) cluster: Option<ClusterId>,
    /// The last fence that was handed out; 0 if none was.
    pub(crate) fence: u64,
    /// The last ticket that was handed out.
    pub(crate) ticket: u64,
    /// The number of the last event.
    pub(crate) seq: u64,
    pub(crate) locks: OrdMap<LockName, Arc<Lock>>,
    pub(crate) endings: Endings,
    pub(crate) nodes: Nodes,
    pub(crate) sessions: Sessions,
    pub(crate) history: EventHistory,
    pub(crate) wall_clock: WallClock,
    /// Derived.
    pub(crate) timers: Timers,
    /// Attempts at many locks.
    pub(crate) many: ManyBook,
    /// The attempts that wait, wherever. Derived.
    pub(crate) waits: Waits,
    /// Locks that are free although somebody waits: all of them absent, or the first for other locks as well. Derived.
    pub(crate) stalled: BTreeSet<LockName>,
    /// Locks with room for somebody, held or not, for which somebody waits who is there: whoever is first there keeps the
    /// others out, until he is absent. Derived.
    pub(crate) open: BTreeSet<LockName>,
    /// How many holds have a deadline of their own. Derived.
    pub(crate) deadlines: usize,
    /// When what locks keep is over. Derived.
    pub(crate) kept: KeptUntil,
    /// Locks that nobody holds or waits for, and that keep something. Derived.
    pub(crate) resting: BTreeSet<LockName>,
    /// Locks that have changed and are to be settled before the operation is done.
    pub(crate) unsettled: VecDeque<LockName>,
    /// Of the entry that is being applied.
    pub(crate) events: Vec<Event>,
}

impl LockTable {
    /// Applies one committed entry.
    ///
    /// Time first, then the operations: a lease that is over at `group.now` cannot take part in them.
    pub fn apply(&mut self, group: &Group) -> Applied {
        let before = self.now;
        self.now = self.now.max(group.now);
        self.end_what_is_due();
        if !self.open.is_empty() && self.nodes.has_one_lapsed(before, self.now) {
            self.settle_open();
        }
        self.endings.forget_old(self.now, |_, _| {});
        self.sessions.forget_old(self.now);
        let outcomes = group.ops.iter().map(|op| self.run(op)).collect();
        let events = std::mem::take(&mut self.events);
        events.iter().for_each(|event| self.history.push(event));
        Applied { outcomes, events }
    }

    fn run(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Acquire(attempt) => self.acquire(attempt, Share::Exclusive, Asked::Ttl(attempt.ttl), None),
            Op::AcquireShare(attempt, share) => self.acquire(attempt, *share, Asked::Ttl(attempt.ttl), None),
            Op::AcquireInSession(attempt, share, session) => self.acquire_in(session, attempt, *share),
            Op::OpenSession { key, owner, ttl } => self.open_session(*key, owner, *ttl),
            Op::RenewSession(session) => self.renew_session(session),
            Op::EndSession(session) => self.end_session(session),
            Op::SetLimit { lock, limit } => self.set_limit(lock, *limit),
            Op::Proclaim { lock, key, metadata } => self.proclaim(lock, key, metadata),
            Op::HandOver { lock, key, to } => self.hand_over(lock, key, to),
            Op::Renew { lock, key, ttl } => self.renew(lock, key, *ttl),
            Op::Release { lock, key } => self.release(lock, key, Run::Open),
            Op::Abandon { lock, key, home } => self.abandon(lock, key, *home),
            Op::Unclaim { lock, fence } => self.unclaim(lock, *fence),
            Op::Vouch { node, boot } => {
                self.vouch(*node, *boot);
                Ok(Answer::Done)
            }
            Op::Register { node, storage } => self.register(*node, *storage),
            Op::Found { cluster } => {
                self.cluster.get_or_insert(*cluster);
                Ok(Answer::Done)
            }
            Op::AcquireMany(attempt) => self.acquire_many(attempt),
            Op::RenewMany { key, named, ttl } => self.renew_many(key, named.as_ref(), *ttl),
            Op::ReleaseMany { key, named } => self.release_many(key, named.as_ref()),
            Op::ForceRelease { lock, fence, by } => self.force_release(lock, *fence, by),
            Op::ForceLeave { lock, owner, by } => self.force_leave(lock, owner, by),
            Op::TellWallClock { unix_ms } => {
                self.wall_clock.note(self.now, *unix_ms);
                Ok(Answer::Done)
            }
            Op::AcquireOnTerms(attempt) => self.acquire_on_terms(attempt),
            Op::ReleaseDone { lock, key } => self.release(lock, key, Run::Done),
        }
    }

    /// Cluster time of the last entry.
    pub fn now(&self) -> ClusterTime {
        self.now
    }

    /// When the leader has to speak next, even if nobody asks for anything.
    pub fn next_due(&self) -> Option<ClusterTime> {
        let lapse = if self.open.is_empty() { None } else { self.nodes.next_lapse(self.now) };
        self.timers.next_due().into_iter().chain(lapse).chain(self.kept.next_due()).min()
    }

    /// Whether time has to go on: some lease, wait, session, delay or period is running.
    pub fn is_busy(&self) -> bool {
        self.timers.len() > 0 || self.kept.next_due().is_some()
    }

    /// Whether nothing is running but periods of completed runs, which are long.
    pub fn is_in_no_hurry(&self) -> bool {
        self.timers.len() == 0 && self.kept.has_no_delay()
    }

    /// The identity that the cluster was given when it was born.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The folder that a node has registered.
    pub fn storage_of(&self, node: NodeId) -> Option<StorageId> {
        self.nodes.storage(node)
    }

    /// The last fence that was handed out; 0 if none was.
    pub fn last_fence(&self) -> u64 {
        self.fence
    }

    /// The number of the last event.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// What the clock on the wall showed then, in milliseconds since 1970, for people only; none if no leader has told.
    pub fn wall_clock(&self, at: ClusterTime) -> Option<u64> {
        self.wall_clock.at(at)
    }

    /// Whether this grant is in force.
    pub fn is_held_by(&self, lock: &LockName, fence: Fence) -> bool {
        self.locks.get(lock).is_some_and(|lock| lock.holders.iter().any(|hold| hold.fence == fence))
    }

    /// The calls of which one may still claim this grant from the queue; none once one has.
    pub fn unclaimed_calls(&self, lock: &LockName, fence: Fence) -> impl Iterator<Item = Home> {
        let hold = self.locks.get(lock).and_then(|lock| lock.holders.iter().find(|hold| hold.fence == fence));
        let unclaimed = hold.and_then(|hold| hold.unclaimed.as_ref());
        unclaimed.into_iter().flat_map(|unclaimed| unclaimed.homes.iter())
    }

    /// How many permits a lock has, while somebody uses it so.
    pub fn limit_of(&self, lock: &LockName) -> Option<u32> {
        self.locks.get(lock)?.limit
    }

    fn register(&mut self, node: NodeId, storage: StorageId) -> Outcome {
        if self.nodes.register(node, storage) { Ok(Answer::Done) } else { Err(Rejection::ForeignStorage) }
    }

    fn vouch(&mut self, node: NodeId, boot: u32) {
        if self.nodes.vouch(node, boot, self.now) {
            self.revive_stalled();
        }
    }

    /// Somebody has become present: all locks with room for somebody look again.
    pub(crate) fn revive_stalled(&mut self) {
        let stalled = std::mem::take(&mut self.stalled);
        self.open.extend(stalled);
        self.settle_open();
    }

    /// Somebody has become absent: locks with room for somebody who waits look again.
    pub(crate) fn settle_open(&mut self) {
        for lock in std::mem::take(&mut self.open) {
            self.settle(&lock);
        }
    }

    /// Ends whatever is due, in order of (deadline, ticket).
    fn end_what_is_due(&mut self) {
        while let Some(due) = self.next_over() {
            let (ticket, lock) = match due {
                Due::Attempt(ticket, lock) => (ticket, lock),
                Due::Session(session) => {
                    self.close_session(session, Cause::SessionExpired);
                    continue;
                }
            };
            let Some(record) = self.lock_mut(&lock) else { continue };
            if let Some(hold) = record.remove_hold(|hold| hold.ticket == ticket) {
                let cause = hold.cause_at_deadline();
                self.note_end(&lock, hold, cause);
                if planted(Bug::ExpiryEndsAllShares) {
                    self.expire_all(&lock);
                }
                self.settle(&lock);
            } else if planted(Bug::WaitDeadlineIgnored) {
                continue;
            } else if let Some(waiter) = record.remove_waiter(ticket) {
                self.note_left(&lock, waiter, Cause::WaitTimeout);
                self.settle(&lock);
            }
        }
    }

    /// What is due next. What locks keep comes first at its time, so that it keeps nobody out any longer.
    fn next_over(&mut self) -> Option<Due> {
        while let Some(at) = self.kept.next_due().filter(|at| *at <= self.now) {
            if self.timers.next_due().is_some_and(|due| due < at) {
                break;
            }
            self.end_first_kept();
        }
        self.timers.pop_due(self.now)
    }

    pub(crate) fn lock_mut(&mut self, lock: &LockName) -> Option<&mut Lock> {
        self.locks.get_mut(lock).map(Arc::make_mut)
    }

    /// Gives a lock that has room to the first who waits and is present, and drops the record of one that nobody wants.
    ///
    /// Who was granted many locks has left the other queues, too: they come after this one. Each grant makes a queue
    /// shorter, so there is an end to it.
    pub(crate) fn settle(&mut self, name: &LockName) {
        self.let_in(name);
        while let Some(name) = self.unsettled.pop_front() {
            self.let_in(&name);
        }
    }

    fn let_in(&mut self, name: &LockName) {
        while let Some((next, key)) = self.next_in_turn(name) {
            if let Some(many) = self.many.of(&key).cloned() {
                if !self.grant_many_from_queue(&many) {
                    break;
                }
                continue;
            }
            let waiter = self.take_waiter(name, next);
            if planted(Bug::WaiterGrantedTwice) && waiter.goes_on_waiting(self.now) {
                self.put_back(name, waiter.clone());
            }
            if !self.grant_from_queue(name, waiter) {
                break;
            }
        }
        self.file(name);
    }

    /// Who gets the lock now: the first who waits and is present, if there is room for him; nobody goes before him.
    fn next_in_turn(&self, name: &LockName) -> Option<(Ticket, AttemptKey)> {
        let lock = self.locks.get(name).filter(|lock| !lock.is_full())?;
        let mut waiters = self.present_waiters(lock);
        let next = if planted(Bug::QueueServedLastFirst) {
            waiters.last()
        } else if planted(Bug::SmallRequestsServedFirst) {
            waiters.find(|next| lock.has_room_for(next.share))
        } else {
            waiters.next()
        };
        let next = next.filter(|next| lock.has_room_for(next.share))?;
        self.is_in_turn_elsewhere(&next.key).then_some((next.ticket, next.key))
    }

    /// The attempt's place in the queue of the lock, if it waits there.
    pub(crate) fn waiter(&self, name: &LockName, key: &AttemptKey) -> Option<&Waiter> {
        let ticket = self.waits.ticket(key)?;
        self.locks.get(name)?.waiter(ticket)
    }

    /// Those who wait for the lock and whose client is there, in their order.
    pub(crate) fn present_waiters<'a>(&'a self, lock: &'a Lock) -> impl Iterator<Item = &'a Waiter> {
        lock.waiters().filter(|waiter| self.is_there(waiter))
    }

    /// Whether the client of somebody who waits is there.
    ///
    /// Of a session that is over, and will be ended before this entry is, nobody is.
    pub(crate) fn is_there(&self, waiter: &Waiter) -> bool {
        let mut homes = waiter.homes.iter();
        let is_present = homes.any(|home| self.nodes.is_present(home, self.now));
        (is_present || planted(Bug::GoneWaitersNeverSkipped)) && !self.is_overdue(waiter.asked)
    }

    /// Takes a waiter that is there out of the queue, to grant it the lock.
    pub(crate) fn take_waiter(&mut self, name: &LockName, ticket: Ticket) -> Waiter {
        let record = self.lock_mut(name).expect("the waiter waits for it");
        let waiter = record.remove_waiter(ticket).expect("the waiter was there a moment ago");
        self.strike_off(name, &waiter);
        waiter
    }

    /// False if there are no fences left: the waiter stays where it was.
    pub(crate) fn grant_from_queue(&mut self, name: &LockName, waiter: Waiter) -> bool {
        let Some(fence) = self.next_fence() else {
            self.put_back(name, waiter);
            return false;
        };
        self.admit_waiter(name, waiter, fence, true);
        true
    }

    /// `is_told_of`: whether this is the grant that the attempt's node claims.
    pub(crate) fn admit_waiter(&mut self, name: &LockName, waiter: Waiter, fence: Fence, is_told_of: bool) {
        let begin = if planted(Bug::LeaseBeginsWithTheWait) { waiter.waiting.since } else { self.now };
        let lease = Lease::begin(waiter.asked, begin);
        let hold = Hold {
            ticket: waiter.ticket,
            key: waiter.key,
            owner: waiter.owner,
            fence,
            lease,
            asked_ttl: self.term(lease).ttl,
            granted_at: self.now,
            unclaimed: is_told_of
                .then(|| Box::new(Unclaimed { waiting: waiter.waiting, homes: waiter.homes })),
            share: waiter.share,
            told: None,
            metadata: waiter.metadata,
            asked_metadata: None,
            on_terms: Hold::on(waiter.terms.as_deref().copied()),
        };
        let waited_ms = self.now.since(waiter.waiting.since);
        self.admit(name, hold, is_told_of, Some(waited_ms));
    }

    pub(crate) fn put_back(&mut self, name: &LockName, waiter: Waiter) {
        if self.many.has_timer_at(&waiter.key) {
            self.timers.set(waiter.waiting.until, waiter.ticket, name);
        }
        self.waits.insert(name, &waiter, &self.many);
        self.sessions.add_wait(waiter.asked.session(), waiter.ticket, name);
        let lock = self.lock_entry(name);
        lock.limit = lock.limit.or(waiter.share.limit());
        lock.enqueue(waiter);
    }

    pub(crate) fn lock_entry(&mut self, name: &LockName) -> &mut Lock {
        Arc::make_mut(self.locks.entry(name.clone()).or_default())
    }

    /// Gives a lock that has room to a new hold, and tells of it. `waited_ms`: see [`Happening::Acquired`].
    pub(crate) fn admit(
        &mut self,
        name: &LockName,
        mut hold: Hold,
        from_queue: bool,
        waited_ms: Option<u64>,
    ) {
        if let Some(own) = hold.lease.own() {
            hold.lease = hold.within_max(own).into();
        }
        self.set_deadline(hold.own_deadline(), hold.ticket, name);
        self.sessions.add_hold(hold.lease.session(), hold.ticket, name);
        let term = self.term_of(&hold);
        let what = Happening::Acquired {
            fence: hold.fence,
            ttl: term.ttl,
            expires_in_ms: term.left_ms(self.now),
            metadata: hold.metadata.clone(),
            from_queue,
            max_left_ms: hold.max_left_ms(self.now),
            waited_ms,
        };
        let event = self.event(name, (hold.owner.clone(), hold.key, hold.share), hold.home(), what);
        self.events.push(event);
        let lock = self.lock_entry(name);
        lock.limit = lock.limit.or(hold.share.limit());
        lock.add_hold(hold);
        self.file(name);
    }

    /// Keeps the indexes true after a change of a lock.
    pub(crate) fn file(&mut self, name: &LockName) {
        let Some(lock) = self.locks.get(name) else { return };
        let (is_unused, is_free) = (lock.is_unused(), lock.holders.is_empty());
        // Only where many locks are waited for, one of them can be free and somebody there.
        let is_waited_for = || !self.many.is_empty() && self.present_waiters(lock).next().is_some();
        let is_open = lock.queue.is_some() && !lock.is_full() && (!is_free || is_waited_for());
        let is_resting = is_unused && lock.kept.is_some();
        if is_resting && lock.limit.is_some() {
            self.lock_entry(name).limit = None; // Whoever comes next names it anew.
        } else if is_unused && !is_resting {
            self.locks.remove(name);
        }
        set_in(&mut self.resting, name, is_resting);
        set_in(&mut self.stalled, name, is_free && !is_unused);
        set_in(&mut self.open, name, is_open);
    }

    pub(crate) fn next_fence(&mut self) -> Option<Fence> {
        if self.fence >= Fence::MAX.0 {
            return None;
        }
        self.fence += 1;
        Some(Fence(self.fence))
    }

    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    /// Remembers and tells that a hold, already taken out of its lock, has ended.
    pub(crate) fn note_end(&mut self, name: &LockName, hold: Hold, cause: Cause) {
        self.clear_deadline(hold.own_deadline(), hold.ticket);
        self.note_delay(name, &hold, cause);
        self.sessions.remove(hold.lease.session(), hold.ticket);
        let held_ms = self.now.since(hold.granted_at);
        let ending = Ending::new(cause, Some(hold.fence), self.now);
        if cause != Cause::Unclaimed {
            self.endings.remember(hold.key, ending.clone());
            self.drop_place(&hold.key, ending);
        }
        let what = Happening::Ended { fence: hold.fence, cause, held_ms };
        let event = self.event(name, (hold.owner, hold.key, hold.share), None, what);
        self.events.push(event);
    }

    /// Tells that a waiter, already taken out of its queue, has left.
    pub(crate) fn note_left(&mut self, name: &LockName, waiter: Waiter, cause: Cause) {
        self.strike_off(name, &waiter);
        if cause.is_remembered_of_waiters() {
            let ending = Ending::new(cause, None, self.now);
            self.endings.remember(waiter.key, ending);
        }
        let who = (waiter.owner, waiter.key, waiter.share);
        let event = self.event(name, who, None, Happening::Left(cause));
        self.events.push(event);
        self.leave_with(&waiter.key, cause);
    }

    /// Takes a waiter that is out of its queue out of the indexes.
    fn strike_off(&mut self, name: &LockName, waiter: &Waiter) {
        self.timers.clear(waiter.waiting.until, waiter.ticket);
        self.waits.remove(name, waiter);
        self.sessions.remove(waiter.asked.session(), waiter.ticket);
    }

    pub(crate) fn note_queued(&mut self, name: &LockName, waiter: &Waiter) {
        let home = waiter.homes.sole();
        let who = (waiter.owner.clone(), waiter.key, waiter.share);
        let event = self.event(name, who, home, Happening::Queued);
        self.events.push(event);
    }

    /// Tells that a holder says something else about itself.
    pub(crate) fn note_changed(&mut self, name: &LockName, who: (Owner, AttemptKey, Share), what: Happening) {
        let event = self.event(name, who, None, what);
        self.events.push(event);
    }

    fn event(
        &mut self,
        lock: &LockName,
        (owner, key, share): (Owner, AttemptKey, Share),
        home: Option<Home>,
        what: Happening,
    ) -> Event {
        self.seq += 1;
        Event { seq: self.seq, at: self.now, lock: lock.clone(), owner, key, home, share, what, by: None }
    }
}

/// Puts a name into a set, or takes it out.
fn set_in(names: &mut BTreeSet<LockName>, name: &LockName, is_in: bool) {
    if !is_in {
        names.remove(name);
    } else if !names.contains(name) {
        names.insert(name.clone());
    }
}
