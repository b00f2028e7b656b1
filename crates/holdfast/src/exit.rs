//! How the program ends: its exit statuses, and the messages that go with them.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use holdfast_client::api::ErrorCode;
use holdfast_client::{AlreadyDone, CallError, Refusal};

use crate::duration;

/// Something went wrong that has no status of its own.
pub(crate) const OTHER: u8 = 1;
/// The command line, the environment or a request cannot be used (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The cluster cannot be reached or has no leader (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// The lock is busy or the wait is over (`EX_TEMPFAIL`).
pub(crate) const BUSY: u8 = 75;
/// The lock is lost: expired, released, forced, or never held (`EX_PROTOCOL`).
pub(crate) const LOST: u8 = 76;

/// For the end of every help text.
pub(crate) const STATUSES_HELP: &str = "\
Exit status:
  0   done
  1   something else went wrong
  64  the command line or the request is not valid
  69  the cluster cannot be reached or has no leader
  75  the lock is busy, the wait for it is over or would close a cycle of waits, or it was done already (--once)
  76  the lock or the session is not held (any more): expired, released, forced, or another's";

/// An unhappy end: a status for programs, a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    /// What happened and what to do next.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new(OTHER, message)
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }

    /// A call of the API that gave no result.
    pub(crate) fn of_call(error: &CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::of_refusal(refusal),
            CallError::Unanswered(unanswered) => Self::unreachable(unanswered),
            CallError::Protocol(_) => Self::new(
                UNREACHABLE,
                format!("{error}. Do --endpoints (HOLDFAST_ENDPOINTS) name Holdfast nodes?"),
            ),
        }
    }

    pub(crate) fn unreachable(what: impl fmt::Display) -> Self {
        let advice = "Is the cluster up, and do --endpoints (HOLDFAST_ENDPOINTS) name its nodes?";
        Self::new(UNREACHABLE, format!("{what}. {advice}"))
    }

    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        let advice = match refusal.code {
            Some(ErrorCode::Held) => ". Wait for it with --wait 30s",
            Some(ErrorCode::WaitTimeout) => ". Try again, or give a longer --wait",
            Some(ErrorCode::LeaseExpired) => ". Acquire it again with a new token; a longer --ttl may help",
            Some(ErrorCode::Deadlock) => return Self::new(BUSY, deadlock(&refusal.cycle)),
            Some(ErrorCode::TokenConflict) => {
                ". Use a new token for another owner, TTL, session, metadata, delay, least or longest hold, or period"
            }
            _ => "",
        };
        let detail = refusal.detail.trim_end_matches('.');
        Self::new(refusal_status(refusal), format!("{detail} ({}){advice}", refusal.code_text))
    }
}

/// Somebody has done it in this period.
pub(crate) fn already_done(name: &str, done: &AlreadyDone) -> String {
    let AlreadyDone { owner, fence, done_ago, .. } = done;
    format!("{name:?} was done already by {owner:?} (fence {fence}), {} ago", duration::text_of(*done_ago))
}

/// The wait would never end by itself.
pub(crate) fn deadlock(cycle: &[String]) -> String {
    let names: Vec<_> = cycle.iter().map(|name| format!("{name:?}")).collect();
    let names = names.join(", ");
    format!(
        "the wait would close a cycle of waits: {names} (deadlock). Release what is held of them, and take them again"
    )
}

/// A word for whoever waits. If nobody takes it, the work goes on.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
}

fn refusal_status(refusal: &Refusal) -> u8 {
    match refusal.code {
        Some(
            ErrorCode::Held
            | ErrorCode::WaitTimeout
            | ErrorCode::QueueFull
            | ErrorCode::Deadlock
            | ErrorCode::AlreadyDone,
        ) => BUSY,
        Some(
            ErrorCode::LeaseExpired
            | ErrorCode::LeaseReleased
            | ErrorCode::LeaseForced
            | ErrorCode::NotHolder
            | ErrorCode::SessionExpired
            | ErrorCode::SessionNotFound
            | ErrorCode::SessionNotYours,
        ) => LOST,
        Some(ErrorCode::InvalidArgument | ErrorCode::TooLarge) => USAGE,
        _ => OTHER,
    }
}
