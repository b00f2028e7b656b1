//! What happened: told to whoever waits, in the order in which it happened.

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence, Home};
use crate::name::{LockName, Metadata, Owner};
use crate::time::Ttl;

/// One change of one lock, numbered by one replicated counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The same on every replica; goes up by one with each event.
    pub seq: u64,
    /// The lock.
    pub lock: LockName,
    /// Whose attempt it concerns.
    pub owner: Owner,
    /// Which attempt it concerns. Never shown to anyone.
    pub key: AttemptKey,
    /// Where the client of an attempt that has just queued up or got the lock is connected; none if it may be several
    /// places.
    pub home: Option<Home>,
    /// What happened to it.
    pub what: Happening,
}

/// What can happen to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
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
