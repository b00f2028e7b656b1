//! Errors on the wire: `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};

use crate::answer::HeldBy;
use crate::code::ErrorCode;

/// The body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// A URI that names the kind of problem: `urn:holdfast:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// One line for people, the same for every problem of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
    /// For programs.
    pub code: ErrorCode,
    /// Identifies the request in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// With `held`: who is in the way. Left out if the lock is kept free for somebody who waits for other locks as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub holder: Option<HeldBy>,
    /// With `held`: how many wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub queue_length: Option<u64>,
    /// With `limit_conflict`: the limit in force. Left out if the lock is in use without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u32>,
    /// Of a call about many locks: the one that it failed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// With `deadlock`: the lock that was asked for, the one that whoever is in the way there waits for, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cycle: Option<Vec<String>>,
    /// With `held`, in the delay after a lost holder: what is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delay_ms: Option<u64>,
    /// With `already_done`: who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner: Option<String>,
    /// With `already_done`: the number of that grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fence: Option<u64>,
    /// With `already_done`: when the next run can be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_in_ms: Option<u64>,
    /// With `already_done`: how long ago it was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub done_ms_ago: Option<u64>,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:holdfast:problem:{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code,
            request_id: None,
            holder: None,
            queue_length: None,
            limit: None,
            name: None,
            cycle: None,
            delay_ms: None,
            owner: None,
            fence: None,
            next_in_ms: None,
            done_ms_ago: None,
        }
    }
}
