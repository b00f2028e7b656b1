//! Hand-made entries for the invariants' own tests.

use holdfast_core::{
    Acquire, AttemptKey, Cause, ClusterTime, Event, Fence, Happening, Home, Limit, LockName, Metadata,
    NodeId, Op, Outcome, Owner, Share, Ttl, Wait,
};

use crate::sim::executor::MS;
use crate::sim::journal::{Entry, Journal};

pub(super) fn key(number: u8) -> AttemptKey {
    AttemptKey([number; 16])
}

fn lock() -> LockName {
    LockName::new("db").unwrap()
}

pub(super) fn home(node: u64) -> Home {
    Home { node: NodeId(node), boot: 1, call: 1 }
}

pub(super) fn home_of_start(boot: u32) -> Home {
    Home { boot, ..home(1) }
}

pub(super) fn acquire(number: u8, node: u64, ttl_ms: u64, wait_ms: u64) -> Op {
    Op::Acquire(attempt(number, node, ttl_ms, wait_ms))
}

fn attempt(number: u8, node: u64, ttl_ms: u64, wait_ms: u64) -> Acquire {
    Acquire {
        lock: lock(),
        key: key(number),
        owner: Owner::default(),
        ttl: Ttl::from_ms(ttl_ms).unwrap(),
        wait: Wait::from_ms(wait_ms).unwrap(),
        metadata: Metadata::default(),
        home: home(node),
    }
}

/// Some of the lock, at the first node, for a second, with all the patience of the tests.
pub(super) fn acquire_share(number: u8, share: Share) -> Op {
    let attempt = attempt(number, 1, 1_000, 9_000);
    match share {
        Share::Exclusive => Op::Acquire(attempt),
        Share::Shared | Share::Permits(_) => Op::AcquireShare(attempt, share),
    }
}

pub(super) fn set_limit(limit: u64) -> Op {
    Op::SetLimit { lock: lock(), limit: Limit::new(limit).unwrap() }
}

pub(super) fn release(number: u8) -> Op {
    Op::Release { lock: lock(), key: key(number) }
}

fn event(number: u8, what: Happening) -> Event {
    Event {
        seq: 0,
        at: ClusterTime(0),
        lock: lock(),
        owner: Owner::default(),
        key: key(number),
        home: Some(home(1)),
        share: Share::Exclusive,
        what,
        by: None,
    }
}

pub(super) fn queued(number: u8) -> Event {
    event(number, Happening::Queued)
}

pub(super) fn left(number: u8, cause: Cause) -> Event {
    event(number, Happening::Left(cause))
}

pub(super) fn acquired(number: u8, fence: u64, from_queue: bool) -> Event {
    let (fence, ttl, metadata) = (Fence(fence), Ttl::from_ms(1_000).unwrap(), Metadata::default());
    let expires_in_ms = ttl.ms();
    let waited_ms = from_queue.then_some(0);
    event(number, Happening::Acquired { fence, ttl, expires_in_ms, metadata, from_queue, waited_ms })
}

pub(super) fn ended(number: u8, fence: u64, cause: Cause) -> Event {
    event(number, Happening::Ended { fence: Fence(fence), cause, held_ms: 0 })
}

/// When, what was asked with what came of it, and what happened.
pub(super) type Row = (u64, Vec<(Op, Outcome)>, Vec<Event>);

/// A journal of entries at these times, in milliseconds of true and cluster time alike.
pub(super) fn journal(entries: Vec<Row>) -> Journal {
    let mut journal = Journal::default();
    for (index, (at_ms, ops, events)) in (1..).zip(entries) {
        let (ops, outcomes) = ops.into_iter().unzip();
        let (first_at, cluster_ms) = (at_ms * MS, at_ms);
        journal.entries.insert(index, Entry { index, term: 1, first_at, cluster_ms, ops, outcomes, events });
    }
    journal
}
