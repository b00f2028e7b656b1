//! What clients ask.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::share::{Mode, Share};

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
        /// Alone or beside others.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// How many permits the lock has; none if it counts none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        /// How many of them to take; one if a limit is named and this is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permits: Option<u32>,
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
    /// Change how many permits the lock has.
    Limit {
        /// The lock.
        lock: Arc<str>,
        /// How many.
        limit: u32,
    },
    /// End this hold of the lock, as an operator does.
    Force {
        /// The lock.
        lock: Arc<str>,
        /// Of the hold.
        fence: u64,
    },
}

impl Request {
    /// The lock that it is about.
    pub fn lock(&self) -> &Arc<str> {
        match self {
            Self::Acquire { lock, .. }
            | Self::Renew { lock, .. }
            | Self::Release { lock, .. }
            | Self::Read { lock }
            | Self::Limit { lock, .. }
            | Self::Force { lock, .. } => lock,
        }
    }

    /// The attempt that it belongs to; reads, limits and what an operator forces belong to none.
    pub fn attempt(&self) -> Option<&Arc<str>> {
        match self {
            Self::Acquire { attempt, .. } | Self::Renew { attempt, .. } | Self::Release { attempt, .. } => {
                Some(attempt)
            }
            Self::Read { .. } | Self::Limit { .. } | Self::Force { .. } => None,
        }
    }

    /// In one word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Read { .. } => "read",
            Self::Limit { .. } => "limit",
            Self::Force { .. } => "force",
        }
    }

    /// How much of the lock an acquire asks for.
    pub(crate) fn share(&self) -> Option<Share> {
        match *self {
            Self::Acquire { mode, limit, permits, .. } => {
                Some(Share::of(mode, limit.map(|_| permits.unwrap_or(1))))
            }
            _ => None,
        }
    }

    /// The limit that an acquire names.
    pub(crate) fn limit_named(&self) -> Option<u32> {
        match *self {
            Self::Acquire { limit, .. } => limit,
            _ => None,
        }
    }
}
