//! What comes of requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::share::{Mode, Share};

/// What a client knows of its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// A success.
    Ok(Answer),
    /// The service said no, and the request has changed nothing but what the code says.
    Refused(Refusal),
    /// It may or may not have been done, or be done yet: no answer, or one that says so.
    Unknown {
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
}

impl Outcome {
    /// Unknown, with a word on why.
    pub fn unknown(why: String) -> Self {
        Self::Unknown { why }
    }
}

/// A success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// To acquire and renew.
    Granted {
        /// Of the grant.
        fence: u64,
        /// In force.
        ttl_ms: u64,
        /// What is left of the lease.
        expires_in_ms: u64,
    },
    /// To release.
    Released {
        /// Of the hold; none for an attempt that was only queued.
        fence: Option<u64>,
    },
    /// To read.
    Seen {
        /// Who holds the lock.
        holders: Vec<Holder>,
        /// The owners of those who wait, first come first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        queue: Vec<Arc<str>>,
    },
    /// To a change of the limit.
    Limited {
        /// In force from now on.
        limit: u32,
    },
    /// To an end by force.
    Forced {
        /// Of the hold, which is over.
        fence: u64,
    },
}

/// A holder, as others are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Public label.
    pub owner: Arc<str>,
    /// Of the grant.
    pub fence: u64,
    /// What is left of the lease.
    pub expires_in_ms: u64,
    /// Alone or beside others; only reads tell.
    #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
    pub mode: Mode,
    /// How many permits it has; only reads tell, and only where the lock counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
}

impl Holder {
    pub(crate) fn share(&self) -> Share {
        Share::of(self.mode, self.permits)
    }
}

/// A no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Why.
    pub code: Code,
    /// With `held`: who is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// With `limit_conflict`: the limit in force; none if the lock is in use without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl From<Code> for Refusal {
    /// With nothing else to tell.
    fn from(code: Code) -> Self {
        Self { code, holder: None, limit: None }
    }
}

/// Why a request was refused: the codes of the HTTP API that promise that nothing was done, or what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The lock is busy and the attempt does not wait.
    Held,
    /// The wait ended without a grant; the attempt has left the queue.
    WaitTimeout,
    /// The hold of this attempt ended with its lease.
    LeaseExpired,
    /// The hold of this attempt was released.
    LeaseReleased,
    /// An operator ended the hold of this attempt.
    LeaseForced,
    /// The attempt does not hold the lock, as far as is remembered.
    NotHolder,
    /// The attempt is in use with other parameters.
    TokenConflict,
    /// The queue has no room.
    QueueFull,
    /// The lock is in use with another limit, or has less permits by now than the attempt waits for.
    LimitConflict,
    /// There is no limit to change.
    NoLimit,
    /// The wait would close a cycle of waits.
    Deadlock,
    /// There is nobody to hand over to; the holder keeps what it has.
    NoSuchCandidate,
    /// The session that was to keep the hold is over, and so is the hold.
    SessionExpired,
    /// Nobody leads; nothing was done.
    NoLeader,
    /// The cluster is short of disk space; nothing was done.
    NoSpace,
    /// The request did not arrive in time; nothing was done.
    RequestTimeout,
    /// The request is not valid; nothing was done.
    InvalidArgument,
}

impl Code {
    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::WaitTimeout => "wait_timeout",
            Self::LeaseExpired => "lease_expired",
            Self::LeaseReleased => "lease_released",
            Self::LeaseForced => "lease_forced",
            Self::NotHolder => "not_holder",
            Self::TokenConflict => "token_conflict",
            Self::QueueFull => "queue_full",
            Self::LimitConflict => "limit_conflict",
            Self::NoLimit => "no_limit",
            Self::Deadlock => "deadlock",
            Self::NoSuchCandidate => "no_such_candidate",
            Self::SessionExpired => "session_expired",
            Self::NoLeader => "no_leader",
            Self::NoSpace => "no_space",
            Self::RequestTimeout => "request_timeout",
            Self::InvalidArgument => "invalid_argument",
        }
    }

    /// Whether it tells that the attempt did not hold the lock at some moment of the call.
    pub fn denies_hold(self) -> bool {
        match self {
            Self::Held
            | Self::WaitTimeout
            | Self::LeaseExpired
            | Self::LeaseReleased
            | Self::LeaseForced
            | Self::NotHolder
            | Self::LimitConflict
            | Self::Deadlock
            | Self::SessionExpired => true,
            Self::TokenConflict
            | Self::QueueFull
            | Self::NoLimit
            | Self::NoSuchCandidate
            | Self::NoLeader
            | Self::NoSpace
            | Self::RequestTimeout
            | Self::InvalidArgument => false,
        }
    }
}
