//! What readers see.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence, SessionId};
use crate::lock::Lock;
use crate::name::{LockName, Metadata, Owner};
use crate::outcome::Grant;
use crate::several::Place;
use crate::share::Share;
use crate::table::LockTable;
use crate::time::{ClusterTime, Ttl};

/// Most waiters that a view lists by name.
pub const WAITERS_LISTED_MAX: usize = 100;

/// A holder, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// Public label.
    pub owner: Owner,
    /// The grant's number.
    pub fence: Fence,
    /// In force.
    pub ttl: Ttl,
    /// What is left of the lease, in milliseconds.
    pub expires_in_ms: u64,
    /// Since the grant, in milliseconds.
    pub held_ms: u64,
    /// How much of the lock it holds.
    pub share: Share,
    /// The session that keeps it; none if it has a lease of its own.
    pub session: Option<SessionId>,
    /// The holder's own.
    pub metadata: Metadata,
    /// As in [`Grant`].
    pub max_left_ms: Option<u64>,
    /// It was released, and goes once its least hold is over.
    pub is_releasing: bool,
}

/// A waiter, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterView {
    /// Public label.
    pub owner: Owner,
    /// Since it took its place, in milliseconds.
    pub waiting_ms: u64,
}

/// A lock, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// Its name.
    pub name: LockName,
    /// Those who hold it; none if it is free.
    pub holders: Vec<HolderView>,
    /// How many permits it has; none if nobody uses it so.
    pub limit: Option<u32>,
    /// The first [`WAITERS_LISTED_MAX`] of those who wait and whose client is there.
    pub queue: Vec<WaiterView>,
    /// How many wait and have their client there.
    pub queue_length: u64,
    /// The event counter that this is true at.
    pub seq: u64,
    /// For how long nobody is granted it, in milliseconds; none: there is no delay.
    pub delay_ms: Option<u64>,
}

/// One page of locks, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPage {
    /// At most as many as were asked for.
    pub locks: Vec<LockView>,
    /// Where the next page begins: after this name. None on the last page.
    pub next: Option<LockName>,
    /// The event counter that this is true at.
    pub seq: u64,
}

impl LockView {
    /// How many permits are held; 0 where there is no limit.
    pub fn permits_out(&self) -> u64 {
        self.holders.iter().map(|holder| u64::from(holder.share.permits())).sum()
    }
}

impl LockTable {
    /// One lock; a name that was never used is free.
    ///
    /// `now` is the leader's present cluster time; where it is behind the table's, the table's counts.
    pub fn view(&self, name: &LockName, now: ClusterTime) -> LockView {
        let now = now.max(self.now);
        match self.locks.get(name) {
            Some(lock) => self.view_of(name, lock, now),
            None => LockView {
                name: name.clone(),
                holders: Vec::new(),
                limit: None,
                queue: Vec::new(),
                queue_length: 0,
                seq: self.seq,
                delay_ms: None,
            },
        }
    }

    /// Locks that somebody holds or waits for, or that are in a delay, whose names begin with `prefix` and come after `after`.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize, now: ClusterTime) -> LockPage {
        let now = now.max(self.now);
        let from = match after {
            Some(name) if name >= prefix => Bound::Excluded(name),
            _ => Bound::Included(prefix),
        };
        let mut matching = self
            .locks
            .range::<(Bound<&str>, Bound<&str>), str>((from, Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(prefix))
            .filter(|(_, lock)| !lock.is_unused() || lock.is_delayed());
        let locks: Vec<_> =
            matching.by_ref().take(limit).map(|(name, lock)| self.view_of(name, lock, now)).collect();
        let next = matching.next().and_then(|_| locks.last()).map(|last| last.name.clone());
        LockPage { locks, next, seq: self.seq }
    }

    /// The fence of the one who holds all of the lock, if somebody does.
    pub fn sole_holder(&self, name: &LockName) -> Option<Fence> {
        let holders = &self.locks.get(name)?.holders;
        holders.first().filter(|hold| hold.share == Share::Exclusive).map(|hold| hold.fence)
    }

    /// How many locks are held, and how many attempts wait.
    pub fn counts(&self) -> (u64, u64) {
        let held = self.locks.len() - self.stalled.len() - self.resting.len();
        let waiting = self.timers.len() - self.deadlines - self.sessions.live().len();
        (held as u64, waiting as u64)
    }

    /// For each lock that somebody holds or waits for: how many hold it, and how many wait for it, there or not.
    pub fn crowds(&self) -> impl Iterator<Item = (&LockName, u64, u64)> {
        let used = self.locks.iter().filter(|(_, lock)| !lock.is_unused());
        used.map(|(name, lock)| (name, lock.holders.len() as u64, lock.queue_len() as u64))
    }

    /// What is left of the hold's own lease at the leader's time `now`, and its TTL, in milliseconds; none if the attempt
    /// does not hold the lock, or a session keeps it.
    pub fn lease_left(&self, place: &Place, now: ClusterTime) -> Option<(u64, Ttl)> {
        let own = self.hold(place)?.lease.own()?;
        Some((own.deadline.since(now.max(self.now)), own.ttl))
    }

    fn view_of(&self, name: &LockName, lock: &Lock, now: ClusterTime) -> LockView {
        let mut present = self.present_waiters(lock);
        let queue: Vec<_> = present
            .by_ref()
            .take(WAITERS_LISTED_MAX)
            .map(|waiter| WaiterView {
                owner: waiter.owner.clone(),
                waiting_ms: now.since(waiter.waiting.since),
            })
            .collect();
        let queue_length = (queue.len() + present.count()) as u64;
        let holders = lock
            .holders
            .iter()
            .map(|hold| {
                let term = self.term_of(hold);
                HolderView {
                    owner: hold.owner.clone(),
                    fence: hold.fence,
                    ttl: term.ttl,
                    expires_in_ms: term.left_ms(now),
                    held_ms: now.since(hold.granted_at),
                    share: hold.share,
                    session: hold.lease.session(),
                    metadata: hold.metadata.clone(),
                    max_left_ms: hold.max_left_ms(now),
                    is_releasing: hold.is_releasing(),
                }
            })
            .collect();
        let delay_ms = lock.delayed_until().map(|until| until.since(now)).filter(|left| *left > 0);
        LockView {
            name: name.clone(),
            holders,
            limit: lock.limit,
            queue,
            queue_length,
            seq: self.seq,
            delay_ms,
        }
    }
}

/// How an attempt stands, as whoever knows its token may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It waits; `place` 1 is the next in turn.
    Queued {
        /// How many are in front of it, itself included.
        place: u64,
    },
    /// It holds the lock.
    Held {
        /// The grant's number.
        fence: Fence,
        /// What is left of the lease, in milliseconds.
        expires_in_ms: u64,
    },
    /// It has ended.
    Ended {
        /// How.
        cause: Cause,
        /// None if it has only waited.
        fence: Option<Fence>,
        /// How long ago, in milliseconds.
        ago_ms: u64,
    },
    /// Nothing is known of it (any more).
    Unknown,
}

impl LockTable {
    /// How an attempt stands; `now` as for [`LockTable::view`].
    pub fn look_up(&self, name: &LockName, key: &AttemptKey, now: ClusterTime) -> Lookup {
        let now = now.max(self.now);
        let lock = self.locks.get(name);
        if let Some(hold) = lock.and_then(|lock| lock.hold(key)) {
            if hold.is_releasing() {
                // It keeps others out for a while, and is its holder's no more.
                return Lookup::Ended { cause: Cause::Released, fence: Some(hold.fence), ago_ms: 0 };
            }
            let expires_in_ms = self.term_of(hold).left_ms(now);
            return Lookup::Held { fence: hold.fence, expires_in_ms };
        }
        let ticket = self.waits.ticket(key);
        if let Some(ahead) = ticket.and_then(|ticket| lock?.place_of(ticket)) {
            return Lookup::Queued { place: ahead as u64 + 1 };
        }
        self.endings.get(key, now).map_or(Lookup::Unknown, |ending| Lookup::Ended {
            cause: ending.cause,
            fence: ending.fence(),
            ago_ms: now.since(ending.at),
        })
    }
}

/// How an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds the lock.
    Held(Grant),
    /// It waits for the lock.
    Queued,
    /// It ended that way.
    Ended(Cause),
    /// Nothing is known of it (any more).
    Unknown,
}

impl LockTable {
    /// How an attempt stands in what has been applied.
    pub fn standing(&self, name: &LockName, key: &AttemptKey) -> Standing {
        let lock = self.locks.get(name);
        if let Some(hold) = lock.and_then(|lock| lock.hold(key)) {
            return match hold.is_releasing() {
                true => Standing::Ended(Cause::Released),
                false => Standing::Held(self.grant_of(hold)),
            };
        }
        if self.waiter(name, key).is_some() {
            return Standing::Queued;
        }
        self.endings.get(key, self.now).map_or(Standing::Unknown, |ending| Standing::Ended(ending.cause))
    }
}
