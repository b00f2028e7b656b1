//! The stable error codes, in one table.

use serde::{Deserialize, Serialize};

/// What went wrong, for programs. Never renamed; new ones may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Malformed JSON, field, name, TTL and so on.
    InvalidArgument,
    /// No such path.
    NotFound,
    /// The path is there, but not with this method.
    MethodNotAllowed,
    /// The body is over its limit.
    TooLarge,
    /// The body was not sent in time.
    RequestTimeout,
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// The lock is busy and the attempt does not wait.
    Held,
    /// The wait ended without a grant; the attempt has left the queue.
    WaitTimeout,
    /// The hold of this token ended with its lease.
    LeaseExpired,
    /// The hold of this token was released.
    LeaseReleased,
    /// The hold of this token was ended by an operator.
    LeaseForced,
    /// This token does not hold the lock, as far as is remembered.
    NotHolder,
    /// The token is in use with other parameters.
    TokenConflict,
    /// The lock is in use with another limit, or without one.
    LimitConflict,
    /// Nobody uses the lock with a limit that could be changed.
    NoLimit,
    /// Nobody of that name waits to lead.
    NoSuchCandidate,
    /// The lock's queue has no room.
    QueueFull,
    /// The wait would close a cycle of waits.
    Deadlock,
    /// The session is over or was ended.
    SessionExpired,
    /// There is no such session, as far as is remembered.
    SessionNotFound,
    /// The session has another token.
    SessionNotYours,
    /// The session holds and waits for as much as one can.
    SessionFull,
    /// The run was completed in this period.
    AlreadyDone,
    /// No leader with a majority is known; nothing was done.
    NoLeader,
    /// The cluster is short of disk space; nothing was done.
    NoSpace,
    /// It may or may not have been done.
    UnknownOutcome,
    /// A bug of ours; it may or may not have been done.
    Internal,
    /// The change of members or leader would harm the cluster; nothing was done.
    Unsafe,
    /// Another change of members is under way; nothing was done.
    ChangeInProgress,
}

impl ErrorCode {
    /// Every code, for documentation and tests.
    pub const ALL: [Self; 29] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Held,
        Self::WaitTimeout,
        Self::LeaseExpired,
        Self::LeaseReleased,
        Self::LeaseForced,
        Self::NotHolder,
        Self::TokenConflict,
        Self::LimitConflict,
        Self::NoLimit,
        Self::NoSuchCandidate,
        Self::QueueFull,
        Self::Deadlock,
        Self::SessionExpired,
        Self::SessionNotFound,
        Self::SessionNotYours,
        Self::SessionFull,
        Self::AlreadyDone,
        Self::NoLeader,
        Self::NoSpace,
        Self::UnknownOutcome,
        Self::Internal,
        Self::Unsafe,
        Self::ChangeInProgress,
    ];

    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::Held => "held",
            Self::WaitTimeout => "wait_timeout",
            Self::LeaseExpired => "lease_expired",
            Self::LeaseReleased => "lease_released",
            Self::LeaseForced => "lease_forced",
            Self::NotHolder => "not_holder",
            Self::TokenConflict => "token_conflict",
            Self::LimitConflict => "limit_conflict",
            Self::NoLimit => "no_limit",
            Self::NoSuchCandidate => "no_such_candidate",
            Self::QueueFull => "queue_full",
            Self::Deadlock => "deadlock",
            Self::SessionExpired => "session_expired",
            Self::SessionNotFound => "session_not_found",
            Self::SessionNotYours => "session_not_yours",
            Self::SessionFull => "session_full",
            Self::AlreadyDone => "already_done",
            Self::NoLeader => "no_leader",
            Self::NoSpace => "no_space",
            Self::UnknownOutcome => "unknown_outcome",
            Self::Internal => "internal",
            Self::Unsafe => "unsafe",
            Self::ChangeInProgress => "change_in_progress",
        }
    }

    /// The HTTP status that it is sent with.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidArgument => 400,
            Self::NotFound | Self::SessionNotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::Held
            | Self::WaitTimeout
            | Self::LeaseExpired
            | Self::LeaseReleased
            | Self::LeaseForced
            | Self::NotHolder
            | Self::TokenConflict
            | Self::LimitConflict
            | Self::NoLimit
            | Self::NoSuchCandidate
            | Self::QueueFull
            | Self::Deadlock
            | Self::SessionExpired
            | Self::SessionNotYours
            | Self::SessionFull
            | Self::AlreadyDone
            | Self::Unsafe
            | Self::ChangeInProgress => 409,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Internal => 500,
            Self::NoLeader | Self::NoSpace => 503,
            Self::UnknownOutcome => 504,
        }
    }

    /// One line for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::InvalidArgument => "The request is not valid",
            Self::NotFound => "There is nothing at this path",
            Self::MethodNotAllowed => "This path does not take this method",
            Self::RequestTimeout => "The request was not sent in time",
            Self::TooLarge => "The request body is too large",
            Self::UnsupportedMediaType => "The request body must be JSON",
            Self::Held => "The lock is held",
            Self::WaitTimeout => "The wait ended without a grant",
            Self::LeaseExpired => "The lease of this token is over",
            Self::LeaseReleased => "The hold of this token was released",
            Self::LeaseForced => "The hold of this token was ended by an operator",
            Self::NotHolder => "This token does not hold the lock",
            Self::TokenConflict => "This token is in use with other parameters",
            Self::LimitConflict => "The lock is in use with another limit",
            Self::NoLimit => "The lock has no limit",
            Self::NoSuchCandidate => "No such candidate waits",
            Self::QueueFull => "The queue of the lock is full",
            Self::Deadlock => "The wait would close a cycle of waits",
            Self::SessionExpired => "The session is over",
            Self::SessionNotFound => "There is no such session",
            Self::SessionNotYours => "The session has another token",
            Self::SessionFull => "The session has no room",
            Self::AlreadyDone => "It was done already in this period",
            Self::NoLeader => "No leader with a majority is known",
            Self::NoSpace => "The cluster is short of disk space",
            Self::UnknownOutcome => "It is not known whether this was done",
            Self::Internal => "The service has a bug",
            Self::Unsafe => "The change would harm the cluster",
            Self::ChangeInProgress => "Another change of the members is under way",
        }
    }

    /// Whether the service promises that the request changed nothing.
    pub fn had_no_effect(self) -> bool {
        match self {
            Self::UnknownOutcome | Self::Internal | Self::WaitTimeout => false,
            Self::InvalidArgument
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::RequestTimeout
            | Self::TooLarge
            | Self::UnsupportedMediaType
            | Self::Held
            | Self::LeaseExpired
            | Self::LeaseReleased
            | Self::LeaseForced
            | Self::NotHolder
            | Self::TokenConflict
            | Self::LimitConflict
            | Self::NoLimit
            | Self::NoSuchCandidate
            | Self::QueueFull
            | Self::Deadlock
            | Self::SessionExpired
            | Self::SessionNotFound
            | Self::SessionNotYours
            | Self::SessionFull
            | Self::AlreadyDone
            | Self::NoLeader
            | Self::NoSpace
            | Self::Unsafe
            | Self::ChangeInProgress => true,
        }
    }

    /// Whether the same request may well succeed a little later.
    pub fn is_worth_repeating(self) -> bool {
        matches!(
            self,
            Self::NoLeader | Self::UnknownOutcome | Self::NoSpace | Self::QueueFull | Self::ChangeInProgress
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stands_in_json_as_its_text() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
