//! What simulated clients write down: the history of a run, as they saw it.

use std::sync::{Arc, Mutex};

use holdfast_core::{AttemptKey, HolderSummary, LockName, Owner, Rejection, SessionRef, Share, Terms};
use holdfast_replica::world::NodeId;

use super::executor::Nanos;

/// What a client did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Acquire {
        wait_ms: u64,
    },
    Renew,
    Release,
    Read,
    SetLimit(u32),
    /// An operator ends the hold with this fence.
    ForceRelease(u64),
    /// An operator takes all waits of an owner out of the queue.
    ForceLeave,
    /// Says something else about the holder.
    Proclaim,
    /// Makes a candidate the next leader.
    HandOver,
    /// A line for each hold that the session is known to keep.
    RenewSession,
    /// A line for each attempt that the session may keep.
    EndSession,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The attempt holds the lock with this fence, for so many more milliseconds.
    Granted(u64, u64),
    Released(Option<u64>),
    /// Who holds the lock with how much of it, and the owners of those who wait.
    Seen(Vec<(HolderSummary, Share)>, Vec<Owner>),
    LimitSet,
    Forced,
    Refused(Rejection),
    WaitTimeout,
    /// Nothing was done.
    NotDone,
    /// It may or may not have been done.
    Unknown,
}

/// One line of the history; times are true ones. A call for many locks has a line for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) client: u64,
    pub(crate) node: NodeId,
    pub(crate) lock: u64,
    pub(crate) attempt: AttemptKey,
    /// The public label.
    pub(crate) owner: Owner,
    /// What keeps it, if it is no lease of its own.
    pub(crate) session: Option<SessionRef>,
    /// What an acquire asks for; of no meaning elsewhere.
    pub(crate) share: Share,
    pub(crate) deed: Deed,
    pub(crate) ttl_ms: u64,
    /// What an acquire asks for beside it.
    pub(crate) terms: Terms,
    pub(crate) invoked: Nanos,
    pub(crate) returned: Nanos,
    pub(crate) came: Came,
}

/// All that happened.
pub(crate) type History = Arc<Mutex<Vec<Line>>>;

/// The public name of an attempt: whose and which, and which of many.
pub(crate) fn label(attempt: &AttemptKey) -> String {
    let number = |at: usize| u16::from_be_bytes([attempt.0[at], attempt.0[at + 1]]);
    let whole = format!("c{}-{}", number(0), number(2));
    match attempt.0[4] {
        0 => whole,
        part => format!("{whole}.{part}"),
    }
}

/// Whether an attempt at a lock is part of one at many.
pub(crate) fn is_part(attempt: &AttemptKey) -> bool {
    attempt.0[4] != 0
}

/// The label that several attempts of a client share.
pub(crate) fn client_label(client: u64) -> Owner {
    Owner::new(&format!("c{client}")).expect("a short label")
}

/// The name of a numbered lock.
pub(crate) fn name(lock: u64) -> LockName {
    LockName::new(&format!("lock-{lock}")).expect("a short name")
}
