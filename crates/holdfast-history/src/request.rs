//! What clients ask.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A request, without its secret: an attempt has a public name of its own, the same in all its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Take the lock, or wait for it.
    Acquire {
        /// The lock.
        lock: Arc<str>,
        /// The attempt.
        attempt: Arc<str>,
        /// The public label. Where each attempt has its own, the queues that reads show tell more.
        owner: Arc<str>,
        /// Of the lease.
        ttl_ms: u64,
        /// How long to wait if it is busy.
        wait_ms: u64,
    },
    /// Set the lease to its TTL again.
    Renew {
        /// The lock.
        lock: Arc<str>,
        /// The attempt that holds it.
        attempt: Arc<str>,
        /// The new TTL; none keeps the one in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
    },
    /// Give the lock back, or leave its queue.
    Release {
        /// The lock.
        lock: Arc<str>,
        /// The attempt.
        attempt: Arc<str>,
    },
    /// Look at the lock, linearizably.
    Read {
        /// The lock.
        lock: Arc<str>,
    },
}

impl Request {
    /// The lock that it is about.
    pub fn lock(&self) -> &Arc<str> {
        match self {
            Self::Acquire { lock, .. }
            | Self::Renew { lock, .. }
            | Self::Release { lock, .. }
            | Self::Read { lock } => lock,
        }
    }

    /// The attempt that it belongs to; a read belongs to none.
    pub fn attempt(&self) -> Option<&Arc<str>> {
        match self {
            Self::Acquire { attempt, .. } | Self::Renew { attempt, .. } | Self::Release { attempt, .. } => {
                Some(attempt)
            }
            Self::Read { .. } => None,
        }
    }

    /// In one word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Read { .. } => "read",
        }
    }
}
