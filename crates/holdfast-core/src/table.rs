//! The state machine: all locks, and the one function that changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use crate::command::{Group, Op};
use crate::ending::{Cause, Ending, Endings};
use crate::event::{Event, Happening};
use crate::ids::{AttemptKey, ClusterId, Fence, Home, NodeId, StorageId};
use crate::lock::{Hold, Lock, Ticket, Unclaimed, Waiter};
use crate::name::LockName;
use crate::node::Nodes;
use crate::outcome::{Answer, Outcome, Rejection};
use crate::planted::{Bug, planted};
use crate::share::Share;
use crate::time::ClusterTime;
use crate::timers::Timers;

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
    /// Derived.
    pub(crate) timers: Timers,
    /// The attempts that wait, wherever. Derived.
    pub(crate) waiting: BTreeMap<AttemptKey, Ticket>,
    /// Locks that are free although somebody waits, all of them absent. Derived.
    pub(crate) stalled: BTreeSet<LockName>,
    /// Locks that are held, with room for somebody, and for which somebody waits: whoever is first there keeps the others
    /// out, until he is absent. Derived.
    pub(crate) open: BTreeSet<LockName>,
    /// How many holds there are. Derived.
    pub(crate) holds: usize,
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
        self.endings.forget_old(self.now);
        let outcomes = group.ops.iter().map(|op| self.run(op)).collect();
        Applied { outcomes, events: std::mem::take(&mut self.events) }
    }

    fn run(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Acquire(attempt) => self.acquire(attempt, Share::Exclusive),
            Op::AcquireShare(attempt, share) => self.acquire(attempt, *share),
            Op::SetLimit { lock, limit } => self.set_limit(lock, *limit),
            Op::Renew { lock, key, ttl } => self.renew(lock, key, *ttl),
            Op::Release { lock, key } => self.release(lock, key),
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
        }
    }

    /// Cluster time of the last entry.
    pub fn now(&self) -> ClusterTime {
        self.now
    }

    /// When the leader has to speak next, even if nobody asks for anything.
    pub fn next_due(&self) -> Option<ClusterTime> {
        let lapse = if self.open.is_empty() { None } else { self.nodes.next_lapse(self.now) };
        self.timers.next_due().into_iter().chain(lapse).min()
    }

    /// Whether time has to go on: some lease or wait is running.
    pub fn is_busy(&self) -> bool {
        self.timers.len() > 0
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

    /// Somebody has become present: free locks that had only absent waiters look again.
    pub(crate) fn revive_stalled(&mut self) {
        for lock in std::mem::take(&mut self.stalled) {
            self.settle(&lock);
        }
        self.settle_open();
    }

    /// Somebody has become present or absent: locks with room for somebody look again.
    fn settle_open(&mut self) {
        for lock in std::mem::take(&mut self.open) {
            self.settle(&lock);
        }
    }

    /// Ends whatever is due, in order of (deadline, ticket).
    fn end_what_is_due(&mut self) {
        while let Some((ticket, lock)) = self.timers.pop_due(self.now) {
            let Some(record) = self.lock_mut(&lock) else { continue };
            if let Some(hold) = record.remove_hold(|hold| hold.ticket == ticket) {
                self.note_end(&lock, hold, Cause::Expired);
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

    pub(crate) fn lock_mut(&mut self, lock: &LockName) -> Option<&mut Lock> {
        self.locks.get_mut(lock).map(Arc::make_mut)
    }

    /// Gives a lock that has room to the first who waits and is present, and drops the record of one that nobody wants.
    pub(crate) fn settle(&mut self, name: &LockName) {
        while let Some(next) = self.next_in_turn(name) {
            let record = self.lock_mut(name).expect("the lock was there a moment ago");
            let waiter = record.remove_waiter(next).expect("the waiter was there a moment ago");
            self.timers.clear(waiter.waiting.until, waiter.ticket);
            self.waiting.remove(&waiter.key);
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
    fn next_in_turn(&self, name: &LockName) -> Option<Ticket> {
        let lock = self.locks.get(name).filter(|lock| !lock.is_full())?;
        let mut waiters = self.present_waiters(lock);
        let next = if planted(Bug::QueueServedLastFirst) {
            waiters.last()
        } else if planted(Bug::SmallRequestsServedFirst) {
            waiters.find(|next| lock.has_room_for(next.share))
        } else {
            waiters.next()
        };
        next.filter(|next| lock.has_room_for(next.share)).map(|next| next.ticket)
    }

    /// The attempt's place in the queue of the lock, if it waits there.
    pub(crate) fn waiter(&self, name: &LockName, key: &AttemptKey) -> Option<&Waiter> {
        let ticket = self.waiting.get(key)?;
        self.locks.get(name)?.waiter(*ticket)
    }

    /// Those who wait for the lock and whose client is there, in their order.
    pub(crate) fn present_waiters<'a>(&'a self, lock: &'a Lock) -> impl Iterator<Item = &'a Waiter> {
        lock.waiters().filter(|waiter| {
            let mut homes = waiter.homes.iter();
            homes.any(|home| self.nodes.is_present(home, self.now)) || planted(Bug::GoneWaitersNeverSkipped)
        })
    }

    /// False if there are no fences left: the waiter stays where it was.
    fn grant_from_queue(&mut self, name: &LockName, waiter: Waiter) -> bool {
        let Some(fence) = self.next_fence() else {
            self.put_back(name, waiter);
            return false;
        };
        let begin = if planted(Bug::LeaseBeginsWithTheWait) { waiter.waiting.since } else { self.now };
        let hold = Hold {
            ticket: waiter.ticket,
            key: waiter.key,
            owner: waiter.owner,
            fence,
            lease: crate::lease::Lease::begin(begin, waiter.ttl),
            asked_ttl: waiter.ttl,
            granted_at: self.now,
            unclaimed: Some(Box::new(Unclaimed { waiting: waiter.waiting, homes: waiter.homes })),
            share: waiter.share,
            told: None,
            metadata: waiter.metadata,
        };
        self.admit(name, hold, true);
        true
    }

    pub(crate) fn put_back(&mut self, name: &LockName, waiter: Waiter) {
        self.timers.set(waiter.waiting.until, waiter.ticket, name);
        self.waiting.insert(waiter.key, waiter.ticket);
        let lock = self.lock_entry(name);
        lock.limit = lock.limit.or(waiter.share.limit());
        lock.enqueue(waiter);
    }

    pub(crate) fn lock_entry(&mut self, name: &LockName) -> &mut Lock {
        Arc::make_mut(self.locks.entry(name.clone()).or_default())
    }

    /// Gives a lock that has room to a new hold, and tells of it.
    pub(crate) fn admit(&mut self, name: &LockName, hold: Hold, from_queue: bool) {
        self.timers.set(hold.lease.deadline, hold.ticket, name);
        let what = Happening::Acquired {
            fence: hold.fence,
            ttl: hold.lease.ttl,
            metadata: hold.metadata.clone(),
            from_queue,
        };
        let event = self.event(name, hold.owner.clone(), hold.key, hold.home(), what);
        self.events.push(event);
        let lock = self.lock_entry(name);
        lock.limit = lock.limit.or(hold.share.limit());
        lock.add_hold(hold);
        self.holds += 1;
        self.file(name);
    }

    /// Keeps the indexes true after a change of a lock.
    pub(crate) fn file(&mut self, name: &LockName) {
        let Some(lock) = self.locks.get(name) else { return };
        let (is_unused, is_free) = (lock.is_unused(), lock.holders.is_empty());
        let is_open = !is_free && lock.queue.is_some() && !lock.is_full();
        if is_unused {
            self.locks.remove(name);
        }
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
        self.timers.clear(hold.lease.deadline, hold.ticket);
        self.holds -= 1;
        let held_ms = self.now.since(hold.granted_at);
        let ending = Ending { cause, fence: Some(hold.fence), at: self.now };
        if cause != Cause::Unclaimed {
            self.endings.remember(hold.key, ending);
        }
        let what = Happening::Ended { fence: hold.fence, cause, held_ms };
        let event = self.event(name, hold.owner, hold.key, None, what);
        self.events.push(event);
    }

    /// Tells that a waiter, already taken out of its queue, has left.
    pub(crate) fn note_left(&mut self, name: &LockName, waiter: Waiter, cause: Cause) {
        self.timers.clear(waiter.waiting.until, waiter.ticket);
        self.waiting.remove(&waiter.key);
        if cause == Cause::Released {
            let ending = Ending { cause, fence: None, at: self.now };
            self.endings.remember(waiter.key, ending);
        }
        let event = self.event(name, waiter.owner, waiter.key, None, Happening::Left(cause));
        self.events.push(event);
    }

    pub(crate) fn note_queued(&mut self, name: &LockName, waiter: &Waiter) {
        let home = waiter.homes.sole();
        let event = self.event(name, waiter.owner.clone(), waiter.key, home, Happening::Queued);
        self.events.push(event);
    }

    fn event(
        &mut self,
        lock: &LockName,
        owner: crate::name::Owner,
        key: AttemptKey,
        home: Option<Home>,
        what: Happening,
    ) -> Event {
        self.seq += 1;
        Event { seq: self.seq, lock: lock.clone(), owner, key, home, what }
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
