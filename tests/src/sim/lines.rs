//! What simulated clients write down: the history of a run, as they saw it.

use std::sync::{Arc, Mutex};

use holdfast_core::{AttemptKey, HolderSummary, LockName, Owner, Rejection, Share};
use holdfast_replica::world::NodeId;

use super::executor::Nanos;

/// What a client did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Acquire { wait_ms: u64 },
    Renew,
    Release,
    Read,
    SetLimit(u32),
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
    Refused(Rejection),
    WaitTimeout,
    /// Nothing was done.
    NotDone,
    /// It may or may not have been done.
    Unknown,
}

/// One line of the history; times are true ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) client: u64,
    pub(crate) node: NodeId,
    pub(crate) lock: u64,
    pub(crate) attempt: AttemptKey,
    /// What an acquire asks for; of no meaning elsewhere.
    pub(crate) share: Share,
    pub(crate) deed: Deed,
    pub(crate) ttl_ms: u64,
    pub(crate) invoked: Nanos,
    pub(crate) returned: Nanos,
    pub(crate) came: Came,
}

/// All that happened.
pub(crate) type History = Arc<Mutex<Vec<Line>>>;

/// The public name of an attempt: whose and which.
pub(crate) fn label(attempt: &AttemptKey) -> String {
    let number = |at: usize| u16::from_be_bytes([attempt.0[at], attempt.0[at + 1]]);
    format!("c{}-{}", number(0), number(2))
}

/// The name of a numbered lock.
pub(crate) fn name(lock: u64) -> LockName {
    LockName::new(&format!("lock-{lock}")).expect("a short name")
}
