//! What happened: told to whoever waits or watches, in the order in which it happened.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence, Home};
use crate::name::{LockName, Metadata, Owner, Reason};
use crate::share::Share;
use crate::time::{ClusterTime, Ttl};

/// One change of one lock, numbered by one replicated counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The same on every replica; goes up by one with each event.
    pub seq: u64,
    /// When it happened.
    pub at: ClusterTime,
    /// The lock.
    pub lock: LockName,
    /// Whose attempt it concerns.
    pub owner: Owner,
    /// Which attempt it concerns. Never shown to anyone.
    pub key: AttemptKey,
    /// Where the client of an attempt that has just queued up or got the lock is connected; none if it may be several
    /// places.
    pub home: Option<Home>,
    /// How much of the lock it holds, held or waits for.
    pub share: Share,
    /// What happened to it.
    pub what: Happening,
    /// Of an operator's doing.
    pub by: Option<Arc<Intervention>>,
}

impl Event {
    /// What it is called among those who watch.
    pub fn kind(&self) -> &'static str {
        match &self.what {
            Happening::Queued => "queued",
            Happening::Left(_) => "left",
            Happening::Acquired { .. } => "acquired",
            Happening::Changed { .. } => "changed",
            Happening::Ended { cause, .. } => match cause {
                Cause::Expired | Cause::SessionExpired => "expired",
                Cause::Forced => "forced",
                Cause::HandedOver => "handed_over",
                _ => "released",
            },
        }
    }

    /// Why something ended; none where nothing did.
    pub fn cause(&self) -> Option<Cause> {
        match &self.what {
            Happening::Left(cause) | Happening::Ended { cause, .. } => Some(*cause),
            Happening::Queued | Happening::Acquired { .. } | Happening::Changed { .. } => None,
        }
    }

    /// How long a new hold had waited; none where there is none, or it did not wait.
    pub fn waited_ms(&self) -> Option<u64> {
        match self.what {
            Happening::Acquired { waited_ms, .. } => waited_ms,
            Happening::Queued | Happening::Left(_) | Happening::Ended { .. } | Happening::Changed { .. } => {
                None
            }
        }
    }

    /// Of the hold that it is about; none where it is about a wait.
    pub fn fence(&self) -> Option<Fence> {
        match &self.what {
            Happening::Acquired { fence, .. }
            | Happening::Ended { fence, .. }
            | Happening::Changed { fence, .. } => Some(*fence),
            Happening::Queued | Happening::Left(_) => None,
        }
    }
}

impl Happening {
    /// How many more hold the lock now, and how many more wait for it.
    pub fn change(&self) -> Change {
        let (holders, waiters) = match self {
            Self::Queued => (0, 1),
            Self::Left(_) => (0, -1),
            Self::Acquired { waited_ms: None, .. } => (1, 0),
            Self::Acquired { waited_ms: Some(_), .. } => (1, -1),
            Self::Ended { cause: Cause::Unclaimed, .. } => (-1, 1),
            Self::Ended { .. } => (-1, 0),
            Self::Changed { .. } => (0, 0),
        };
        Change { holders, waiters }
    }
}

/// What one event does to the numbers of those who hold a lock and of those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Added to the holders.
    pub holders: i64,
    /// Added to those who wait.
    pub waiters: i64,
}

/// An operator's doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervention {
    /// Who.
    pub by: Owner,
    /// Why.
    pub reason: Reason,
}

/// What can happen to an attempt. The order of the variants is the encoding: append, never insert or reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// It took its place in the queue.
    Queued,
    /// It left the queue without a grant.
    Left(Cause),
    /// It got the lock.
    Acquired {
        /// The grant's number.
        fence: Fence,
        /// In force.
        ttl: Ttl,
        /// What is left of the lease, in milliseconds: the TTL, or what is left of the session.
        expires_in_ms: u64,
        /// The holder's own.
        metadata: Metadata,
        /// True if it had waited: its node has to claim the grant before it tells the client. Of many that are granted at
        /// once, this is the first.
        from_queue: bool,
        /// As in [`crate::Grant`].
        max_left_ms: Option<u64>,
        /// How long it had waited in the queue, in milliseconds of cluster time; none if it did not wait. After
        /// [`Cause::Unclaimed`], since the attempt took its place.
        waited_ms: Option<u64>,
    },
    /// Its hold ended. After [`Cause::Unclaimed`] the attempt is back in the queue, at its place.
    Ended {
        /// The grant's number.
        fence: Fence,
        /// How it ended.
        cause: Cause,
        /// How long it had been held, in milliseconds of cluster time.
        held_ms: u64,
    },
    /// Its holder says something else about itself.
    Changed {
        /// The grant's number.
        fence: Fence,
        /// What it says from now on.
        metadata: Metadata,
    },
}
