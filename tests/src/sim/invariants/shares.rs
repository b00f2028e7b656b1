//! Who uses each lock and with how much of it, and which limits may be in force: read off the journal, entry by entry.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{AttemptKey, Event, Happening, LockName, Op, Share};

use super::asked::{Wanted, wanted};
use crate::sim::journal::Entry;

/// Those who use one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    pub(crate) holders: Vec<(AttemptKey, u64, Share)>,
    /// In the order of their coming.
    pub(crate) waiting: Vec<(AttemptKey, Share)>,
    /// What may be in force; none for a lock whose users count no permits.
    limits: BTreeSet<Option<u32>>,
}

/// A new attempt that named a limit which cannot be in force.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) key: AttemptKey,
    pub(crate) named: Option<u32>,
}

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Shares<'a> {
    locks: BTreeMap<&'a LockName, Users>,
    asked: BTreeMap<AttemptKey, Share>,
    /// Of the entry that is being read: who used each lock before, and what may be in force since.
    before: BTreeMap<&'a LockName, Users>,
}

impl Users {
    /// Whether one more can hold so much beside those that hold, whatever limit is in force of those that may be.
    pub(crate) fn has_room_for(&self, share: Share) -> bool {
        self.fits(share, self.permits_min())
    }

    /// The same, for the highest limit that may be in force.
    pub(crate) fn may_have_room_for(&self, share: Share) -> bool {
        self.fits(share, self.permits_max())
    }

    fn fits(&self, share: Share, limit: u64) -> bool {
        match share {
            Share::Exclusive => self.holders.is_empty(),
            Share::Shared => self.holders.iter().all(|(.., held)| *held == Share::Shared),
            Share::Permits(permits) => {
                let is_counted = |held: &Share| matches!(held, Share::Permits(_));
                self.holders.iter().all(|(.., held)| is_counted(held))
                    && self.permits_out() + u64::from(permits.taken()) <= limit
            }
        }
    }

    pub(crate) fn permits_out(&self) -> u64 {
        self.holders.iter().map(|(.., held)| u64::from(held.permits())).sum()
    }

    fn permits_min(&self) -> u64 {
        self.limits.iter().map(|limit| u64::from(limit.unwrap_or(0))).min().unwrap_or(0)
    }

    pub(crate) fn permits_max(&self) -> u64 {
        self.limits.iter().map(|limit| u64::from(limit.unwrap_or(0))).max().unwrap_or(0)
    }

    fn keys(&self) -> impl Iterator<Item = AttemptKey> {
        let holders = self.holders.iter().map(|(key, ..)| *key);
        holders.chain(self.waiting.iter().map(|(key, _)| *key))
    }
}

impl<'a> Shares<'a> {
    pub(crate) fn of(&self, lock: &LockName) -> Option<&Users> {
        self.locks.get(lock)
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = (&'a LockName, &Users)> {
        self.locks.iter().map(|(lock, users)| (*lock, users))
    }

    pub(crate) fn share_of(&self, key: &AttemptKey) -> Share {
        self.asked.get(key).copied().unwrap_or_default()
    }

    /// An entry begins: until its end every limit that it names or sets may be in force.
    pub(crate) fn begin(&mut self, entry: &'a Entry) {
        self.before.clear();
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            for Wanted { lock, key, share, .. } in wanted(op) {
                self.note_wish(lock, key, share);
            }
            if let (Op::SetLimit { lock, limit }, Ok(_)) = (op, outcome) {
                self.touch(lock).limits.insert(Some(limit.get()));
            }
        }
        for event in &entry.events {
            self.touch(&event.lock);
        }
    }

    fn note_wish(&mut self, lock: &'a LockName, key: AttemptKey, share: Share) {
        let share = *self.asked.entry(key).or_insert(share);
        self.touch(lock).limits.insert(share.limit());
    }

    fn touch(&mut self, lock: &'a LockName) -> &mut Users {
        let users = self.locks.entry(lock).or_default();
        self.before.entry(lock).or_insert_with(|| users.clone());
        users
    }

    /// One event after the other. False if it ends a hold that is not there.
    pub(crate) fn take(&mut self, event: &'a Event) -> bool {
        let share = self.share_of(&event.key);
        let users = self.locks.entry(&event.lock).or_default();
        match event.what {
            Happening::Queued => users.waiting.push((event.key, share)),
            Happening::Left(_) => users.waiting.retain(|(key, _)| *key != event.key),
            Happening::Changed { .. } => {}
            Happening::Acquired { fence, .. } => {
                users.waiting.retain(|(key, _)| *key != event.key);
                users.holders.push((event.key, fence.0, share));
            }
            Happening::Ended { fence, cause, .. } => {
                let there = users.holders.len();
                users.holders.retain(|(key, held, _)| (*key, *held) != (event.key, fence.0));
                if cause == holdfast_core::Cause::Unclaimed {
                    users.waiting.push((event.key, share));
                }
                return users.holders.len() < there;
            }
        }
        true
    }

    /// The entry ends: what is in force now, and who came with another limit although somebody used the lock all along.
    pub(crate) fn end(&mut self, entry: &'a Entry) -> Vec<(&'a LockName, Conflict)> {
        let mut conflicts = Vec::new();
        for (lock, before) in std::mem::take(&mut self.before) {
            let set = limits_set(entry, lock);
            let users = self.locks.entry(lock).or_default();
            if users.keys().next().is_none() {
                self.locks.remove(lock);
                continue;
            }
            let is_steady = |key: &AttemptKey| !entry.events.iter().any(|event| has_gone(event, key));
            let is_used_all_along = before.keys().any(|key| is_steady(&key));
            if !is_used_all_along {
                continue; // Whatever was named or set may be in force.
            }
            users.limits = set.last().map_or_else(|| before.limits.clone(), |last| [*last].into());
            let allowed: BTreeSet<_> = before.limits.iter().copied().chain(set).collect();
            // Of many grants from the queue only the first says that it is one.
            let waited = |event: &Event| before.waiting.iter().any(|(key, _)| *key == event.key);
            let came = entry.events.iter().filter(|event| event.lock == *lock && has_come(event));
            let came = came.filter(|event| !waited(event));
            for key in came.map(|event| event.key) {
                let named = self.asked.get(&key).copied().unwrap_or_default().limit();
                if !allowed.contains(&named) {
                    conflicts.push((lock, Conflict { key, named }));
                }
            }
        }
        conflicts
    }
}

fn limits_set(entry: &Entry, lock: &LockName) -> Vec<Option<u32>> {
    let ops = entry.ops.iter().zip(&entry.outcomes).filter(|(_, outcome)| outcome.is_ok());
    let set = ops.filter_map(|(op, _)| match op {
        Op::SetLimit { lock: name, limit } if name == lock => Some(Some(limit.get())),
        _ => None,
    });
    set.collect()
}

fn has_come(event: &Event) -> bool {
    matches!(event.what, Happening::Queued | Happening::Acquired { from_queue: false, .. })
}

fn has_gone(event: &Event, key: &AttemptKey) -> bool {
    event.key == *key && matches!(event.what, Happening::Left(_) | Happening::Ended { .. })
}
