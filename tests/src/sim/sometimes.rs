//! What a run has sometimes seen: a simulation that never gets into the rare situations shows nothing about them.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Everything that the mixed profile has to come across.
pub const ALL: [&str; 53] = [
    "a grant from the queue after a failover",
    "a retry answered from memory",
    "a snapshot installed under load",
    "an expiry at the instant of a renewal",
    "a leader restored after a power cut",
    "a torn tail trimmed",
    "a claim revoked",
    "a leader deposed with proposals in flight",
    "a write waited for room on a full disk",
    "a node refused new attempts for want of space",
    "a snapshot built",
    "the log purged",
    "a node started from a snapshot",
    "all nodes down at once",
    "an unknown outcome that had been applied",
    "an unknown outcome that had not been applied",
    "a waiter came back through another node",
    "a client hung up while it waited",
    "a gone waiter was skipped",
    "an old request was refused",
    "a message arrived twice",
    "leadership handed over by a node that stops",
    "a node cut off while it led",
    "five nodes",
    "a pause longer than a lease",
    "several readers at once",
    "a reader queued behind a writer that waited for readers",
    "a large request was served while small ones waited behind it",
    "a limit changed under load",
    "a session ended with holds and waits",
    "a session expired with holds",
    "a session expired with waits",
    "a session waited for what it held itself",
    "a grant to a session from the queue",
    "many locks granted at once from their queues",
    "a free lock kept for one who waits for many",
    "many grants taken back at once",
    "a deadlock refused",
    "a deadlock refused to one who asks for many or in a session",
    "a hand-over past those in front",
    "a hand-over refused for want of the candidate",
    "a value proclaimed while others campaign",
    "a watcher went on at another node",
    "a watcher went on amid an entry",
    "a watcher was told what happened while it was away",
    "a hold ended by force",
    "a force that came too late was refused",
    "a wait ended by force",
    "a forced holder was told so",
    "a delay kept a free lock from those who wait",
    "an attempt was told of a delay",
    "a run was done already",
    "a longest hold cut a lease",
];

/// How often each was seen.
pub type Sightings = BTreeMap<&'static str, u64>;

thread_local! {
    static SEEN: RefCell<Sightings> = const { RefCell::new(Sightings::new()) };
}

/// Counts something.
pub(crate) fn saw(what: &'static str) {
    debug_assert!(ALL.contains(&what), "{what} is in the list");
    SEEN.with(|seen| *seen.borrow_mut().entry(what).or_default() += 1);
}

/// What was seen on this thread since the last time.
pub(crate) fn take() -> Sightings {
    SEEN.with(RefCell::take)
}
