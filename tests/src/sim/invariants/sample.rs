//! Hand-made entries for the invariants' own tests.

use holdfast_core::{
    Acquire, AcquireMany, AcquireOnTerms, Answer, AttemptKey, Cause, ClusterTime, Event, Fence, Grant,
    Happening, Home, Intervention, Item, Limit, LockName, Metadata, NodeId, Op, Outcome, Owner, Place,
    Rejection, SessionGrant, SessionId, SessionKey, SessionRef, Several, Share, Terms, Ttl, Wait,
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

pub(super) fn acquire_on_terms(number: u8, terms: Terms) -> Op {
    let acquire = attempt(number, 1, 1_000, 9_000);
    Op::AcquireOnTerms(Box::new(AcquireOnTerms { acquire, share: Share::Exclusive, session: None, terms }))
}

pub(super) fn release_done(number: u8) -> Asked {
    (Op::ReleaseDone { lock: lock(), key: key(number) }, Ok(Answer::Released { fence: Some(Fence(1)) }))
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

pub(super) fn done_by(by: Intervention, event: Event) -> Event {
    Event { by: Some(std::sync::Arc::new(by)), ..event }
}

pub(super) fn acquired(number: u8, fence: u64, from_queue: bool) -> Event {
    let (fence, ttl, metadata) = (Fence(fence), Ttl::from_ms(1_000).unwrap(), Metadata::default());
    let expires_in_ms = ttl.ms();
    let waited_ms = from_queue.then_some(0);
    let max_left_ms = None;
    event(
        number,
        Happening::Acquired { fence, ttl, expires_in_ms, metadata, from_queue, max_left_ms, waited_ms },
    )
}

pub(super) fn ended(number: u8, fence: u64, cause: Cause) -> Event {
    event(number, Happening::Ended { fence: Fence(fence), cause, held_ms: 0 })
}

/// An operation with what came of it.
pub(super) type Asked = (Op, Outcome);

const SESSION: SessionRef = SessionRef { id: SessionId(7), key: SessionKey([7; 16]) };

fn session(ttl_ms: u64) -> Outcome {
    let (id, owner, ttl) = (SESSION.id, Owner::default(), Ttl::from_ms(ttl_ms).unwrap());
    Ok(Answer::Session(SessionGrant { id, owner, ttl, expires_in_ms: ttl_ms }))
}

/// The only session of the tests.
pub(super) fn open_session(ttl_ms: u64) -> Asked {
    let (key, owner, ttl) = (SESSION.key, Owner::default(), Ttl::from_ms(ttl_ms).unwrap());
    (Op::OpenSession { key, owner, ttl }, session(ttl_ms))
}

pub(super) fn renew_session(ttl_ms: u64) -> Asked {
    (Op::RenewSession(SESSION), session(ttl_ms))
}

pub(super) fn end_session(released: u64) -> Asked {
    (Op::EndSession(SESSION), Ok(Answer::SessionEnded { released }))
}

pub(super) fn acquire_in_session(number: u8) -> Asked {
    (Op::AcquireInSession(attempt(number, 1, 1_000, 9_000), Share::Exclusive, SESSION), Ok(Answer::Done))
}

/// A lock of its own for each number.
pub(super) fn lock_of(number: u8) -> LockName {
    LockName::new(&format!("db-{number}")).unwrap()
}

/// At the lock of each number, with the key of that number.
pub(super) fn acquire_many(whole: u8, parts: &[u8]) -> Asked {
    let item = |number: &u8| Item {
        place: Place { lock: lock_of(*number), key: key(*number) },
        share: Share::Exclusive,
    };
    let many = AcquireMany {
        key: key(whole),
        items: Several::new(parts.iter().map(item).collect()).unwrap(),
        owner: owner(&whole.to_string()),
        ttl: Ttl::from_ms(1_000).unwrap(),
        wait: Wait::from_ms(9_000).unwrap(),
        home: home(1),
    };
    (Op::AcquireMany(many), Ok(Answer::Done))
}

pub(super) fn renew_many(whole: u8) -> Asked {
    (Op::RenewMany { key: key(whole), named: None, ttl: None }, Ok(Answer::Done))
}

/// Takes an event to the lock of this number.
pub(super) fn at_lock(number: u8, event: Event) -> Event {
    Event { lock: lock_of(number), ..event }
}

pub(super) fn queued_of(number: u8) -> Event {
    at_lock(number, queued(number))
}

pub(super) fn left_of(number: u8, cause: Cause) -> Event {
    at_lock(number, left(number, cause))
}

pub(super) fn acquired_of(number: u8, fence: u64) -> Event {
    at_lock(number, acquired(number, fence, true))
}

pub(super) fn ended_of(number: u8, fence: u64, cause: Cause) -> Event {
    at_lock(number, ended(number, fence, cause))
}

fn owner(text: &str) -> Owner {
    Owner::new(text).unwrap()
}

pub(super) fn campaign(number: u8, label: &str) -> Asked {
    let candidate = Acquire { owner: owner(label), ..attempt(number, 1, 1_000, 9_000) };
    (Op::Acquire(candidate), Ok(Answer::Done))
}

/// The same at another lock.
pub(super) fn acquire_at(lock: u8, number: u8, label: &str) -> Asked {
    let wish = Acquire { lock: lock_of(lock), owner: owner(label), ..attempt(number, 1, 9_000, 9_000) };
    (Op::Acquire(wish), Ok(Answer::Done))
}

/// The same, refused for a cycle of these locks.
pub(super) fn deadlock_at(lock: u8, number: u8, label: &str, cycle: &[u8]) -> Asked {
    let cycle = cycle.iter().map(|number| lock_of(*number)).collect();
    (acquire_at(lock, number, label).0, Err(Rejection::Deadlock { cycle }))
}

pub(super) fn hand_over(number: u8, to: &str) -> Asked {
    let op = Op::HandOver { lock: lock(), key: key(number), to: owner(to) };
    (op, Ok(Answer::Released { fence: Some(Fence(1)) }))
}

pub(super) fn no_candidate(number: u8, to: &str) -> Asked {
    (hand_over(number, to).0, Err(Rejection::NoSuchCandidate))
}

/// The first, who leads, says something, and is told to say something.
pub(super) fn proclaim(number: u8, said: &str, told: &str) -> Asked {
    let metadata = Metadata::new(said).unwrap();
    let grant = Grant {
        fence: Fence(1),
        owner: Owner::default(),
        ttl: Ttl::default(),
        expires_in_ms: 1_000,
        metadata: Metadata::new(told).unwrap(),
        max_left_ms: None,
    };
    (Op::Proclaim { lock: lock(), key: key(number), metadata }, Ok(Answer::Granted(grant)))
}

pub(super) fn changed(number: u8, fence: u64, said: &str) -> Event {
    event(number, Happening::Changed { fence: Fence(fence), metadata: Metadata::new(said).unwrap() })
}

/// When, what was asked with what came of it, and what happened.
pub(super) type Row = (u64, Vec<Asked>, Vec<Event>);

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
