//! How calls fail.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use holdfast_api::{ErrorCode, HeldBy};
use serde::Deserialize;

use crate::terms::AlreadyDone;

/// The service refused a request, for a reason that will not go away by asking again.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code; none if this version of the client does not know it.
    pub code: Option<ErrorCode>,
    /// The stable code as the service wrote it.
    pub code_text: String,
    /// What happened and what to do, for people.
    pub detail: String,
    /// With `held`: who is in the way.
    pub holder: Option<HeldBy>,
    /// With `held`: how many wait.
    pub queue_length: Option<u64>,
    /// With `deadlock`: the locks of the cycle.
    pub cycle: Vec<String>,
    /// With `held`, in the delay after a lost holder: what is left of it.
    pub delay: Option<Duration>,
    /// With `already_done`: the run that was completed.
    pub already_done: Option<AlreadyDone>,
    /// The answer as the service sent it.
    pub json: Bytes,
}

impl Refusal {
    /// Whether it was refused with this code.
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == Some(code)
    }

    /// Reads an `application/problem+json` body; none if it is something else.
    pub(crate) fn read(status: u16, json: &Bytes) -> Option<Box<Self>> {
        let problem: LenientProblem = serde_json::from_slice(json).ok()?;
        Some(Box::new(Self {
            status,
            already_done: problem.already_done(),
            delay: problem.delay_ms.map(Duration::from_millis),
            code: ErrorCode::ALL.into_iter().find(|code| code.as_str() == problem.code),
            code_text: problem.code,
            detail: problem.detail,
            holder: problem.holder.and_then(|holder| serde_json::from_value(holder).ok()),
            queue_length: problem.queue_length,
            cycle: problem.cycle,
            json: json.clone(),
        }))
    }

    /// A refusal by the client itself, before anything was sent.
    pub(crate) fn invalid_argument(detail: impl Into<String>) -> Box<Self> {
        let problem = holdfast_api::Problem::new(ErrorCode::InvalidArgument, detail);
        Box::new(Self {
            status: problem.status,
            code: Some(problem.code),
            code_text: problem.code.as_str().into(),
            json: serde_json::to_vec(&problem).expect("a problem has string keys only").into(),
            detail: problem.detail,
            holder: None,
            queue_length: None,
            cycle: Vec::new(),
            delay: None,
            already_done: None,
        })
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({} {}: {})", self.status, self.code_text, self.detail)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code_text)
    }
}

/// A problem as a newer service may write it: any code, more fields.
#[derive(Deserialize)]
struct LenientProblem {
    code: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    holder: Option<serde_json::Value>,
    #[serde(default)]
    queue_length: Option<u64>,
    #[serde(default)]
    cycle: Vec<String>,
    delay_ms: Option<u64>,
    owner: Option<String>,
    fence: Option<u64>,
    next_in_ms: Option<u64>,
    done_ms_ago: Option<u64>,
}

impl LenientProblem {
    fn already_done(&self) -> Option<AlreadyDone> {
        Some(AlreadyDone {
            owner: self.owner.clone()?,
            fence: self.fence?,
            next_in: Duration::from_millis(self.next_in_ms?),
            done_ago: Duration::from_millis(self.done_ms_ago.unwrap_or(0)),
        })
    }
}

/// No node gave an answer that settles the request, for as long as the call was allowed to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Whether the service can have done what was asked. Asking again with the same token is safe either way.
    pub may_have_happened: bool,
    /// Each endpoint that was asked, and what it last said, or why it said nothing.
    pub said: Vec<(String, String)>,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.may_have_happened {
            true => "It may have been done; repeating it with the same token is safe",
            false => "Nothing was done",
        };
        let said: Vec<_> = self.said.iter().map(|(endpoint, why)| format!("{endpoint}: {why}")).collect();
        let said = if said.is_empty() { "the time was over".into() } else { said.join("; ") };
        write!(f, "no endpoint gave a usable answer ({said}). {effect}")
    }
}

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The service said no.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The service could not be reached, or had no leader, until the call's time was over.
    #[error("{0}")]
    Unanswered(Unanswered),
    /// What answers there is no Holdfast, or one that this client does not understand.
    #[error("unexpected answer: {0}")]
    Protocol(String),
}

impl CallError {
    /// Whether the service refused with this code.
    pub fn is_refused_with(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is(code))
    }
}
