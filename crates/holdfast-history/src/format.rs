//! The lines of a history (docs/history-format.md).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::request::Request;

/// The version of the format that this crate writes. It reads the ones before, too: they have less in them.
pub const VERSION: u32 = 3;

/// The first line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Of the format.
    #[serde(rename = "holdfast_history")]
    pub version: u32,
    /// The one clock that every time in this history was read from. Histories that name the same clock can be compared.
    /// Null: each process has a clock of its own.
    pub clock: Option<String>,
    /// By how many millionths the clocks of the cluster's leaders may run faster or slower than those of the history.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_error_ppm: u32,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Header {
    /// Every process reads the clock of this name.
    pub fn of_one_clock(name: impl Into<String>) -> Self {
        Self { version: VERSION, clock: Some(name.into()), clock_error_ppm: 0, about: String::new() }
    }

    /// Every process has a clock of its own, and their times cannot be compared.
    pub fn of_many_clocks() -> Self {
        Self { version: VERSION, clock: None, clock_error_ppm: 0, about: String::new() }
    }
}

/// One line after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A client is about to send a request.
    Invoke(Invoke),
    /// A client has the answer, or has stopped waiting for it. An invocation without one has an unknown outcome.
    Complete(Complete),
    /// From here on something is being done to the cluster, or may still be felt.
    Fault(Mark),
    /// From here on nothing is, and a leader serves.
    Healthy(Mark),
    /// A word for whoever reads the history; it means nothing to the checks.
    Note(Mark),
}

/// A client is about to send a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// Of this operation; used once in the file.
    pub id: u64,
    /// The client. What one process does is told on one clock.
    pub process: Arc<str>,
    /// The process's monotonic time, in nanoseconds, before the request was sent.
    pub at_ns: u64,
    /// The node that was asked.
    pub node: Arc<str>,
    /// What was asked.
    pub request: Request,
}

/// A client has the answer, or has stopped waiting for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Of the operation.
    pub id: u64,
    /// The process's monotonic time, in nanoseconds, after the answer was there.
    pub at_ns: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// Something that happened at a time, told by nobody in particular.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// In nanoseconds, on the one clock of the history.
    pub at_ns: u64,
    /// What happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Answer, Code, Holder, Refusal};
    use crate::share::Mode;

    fn as_json(entry: &Entry) -> String {
        serde_json::to_string(entry).unwrap()
    }

    #[test]
    fn the_lines_are_those_of_the_document() {
        let document = include_str!("../../../docs/history-format.md");
        let acquire = Request::Acquire {
            lock: "db".into(),
            attempt: "c1-7".into(),
            owner: "c1-7".into(),
            ttl_ms: 1_000,
            wait_ms: 0,
            mode: Mode::Exclusive,
            limit: None,
            permits: None,
        };
        let shared = Request::Acquire {
            lock: "report".into(),
            attempt: "c1-8".into(),
            owner: "c1-8".into(),
            ttl_ms: 1_000,
            wait_ms: 500,
            mode: Mode::Shared,
            limit: None,
            permits: None,
        };
        let permits = Request::Acquire {
            lock: "imports".into(),
            attempt: "c1-9".into(),
            owner: "c1-9".into(),
            ttl_ms: 1_000,
            wait_ms: 500,
            mode: Mode::Exclusive,
            limit: Some(5),
            permits: Some(2),
        };
        let (process, node): (Arc<str>, Arc<str>) = ("c1".into(), "http://10.0.0.1:7101".into());
        let complete = |outcome| Entry::Complete(Complete { id: 1, at_ns: 2_100_000, outcome });
        let granted = Answer::Granted { fence: 42, ttl_ms: 1_000, expires_in_ms: 1_000 };
        let (mode, permits_of_one) = (Mode::Exclusive, Some(2));
        let holder = Holder { owner: "c2-3".into(), fence: 41, expires_in_ms: 310, mode, permits: None };
        let reader = Holder { mode: Mode::Shared, ..holder.clone() };
        let worker = Holder { permits: permits_of_one, ..holder.clone() };
        let held = Refusal { holder: Some(holder.clone()), ..Code::Held.into() };
        let conflict = Refusal { limit: Some(8), ..Code::LimitConflict.into() };
        let seen = |holder, queue: &[&str]| {
            let queue = queue.iter().map(|owner| (*owner).into()).collect();
            complete(Outcome::Ok(Answer::Seen { holders: vec![holder], queue }))
        };
        let invoke = |request| {
            let (process, node) = (process.clone(), node.clone());
            Entry::Invoke(Invoke { id: 1, process, at_ns: 1_000_000, node, request })
        };
        for entry in [
            invoke(acquire),
            invoke(shared),
            invoke(permits),
            invoke(Request::Limit { lock: "imports".into(), limit: 8 }),
            invoke(Request::Force { lock: "db".into(), fence: 41 }),
            complete(Outcome::Ok(granted)),
            seen(holder, &["c3-1"]),
            seen(reader, &[]),
            seen(worker, &[]),
            complete(Outcome::Ok(Answer::Limited { limit: 8 })),
            complete(Outcome::Ok(Answer::Forced { fence: 41 })),
            complete(Outcome::Refused(conflict)),
            complete(Outcome::Ok(Answer::Released { fence: Some(42) })),
            complete(Outcome::Refused(held)),
            complete(Outcome::Unknown { why: "the connection was closed".into() }),
            Entry::Fault(Mark { at_ns: 5_000_000, text: "node 2 is cut off".into() }),
        ] {
            assert!(document.contains(&as_json(&entry)), "docs/history-format.md lacks {}", as_json(&entry));
            assert_eq!(serde_json::from_str::<Entry>(&as_json(&entry)).unwrap(), entry);
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        for (line, name) in [
            (r#"{"event":{"seq":1}}"#, "event"),
            (
                r#"{"invoke":{"id":1,"process":"a","at_ns":1,"node":"n","request":{"campaign":{}}}}"#,
                "campaign",
            ),
            (
                r#"{"invoke":{"id":1,"process":"a","at_ns":1,"node":"n","request":{"read":{"lock":"a","mode":1}}}}"#,
                "mode",
            ),
            (r#"{"complete":{"id":1,"at_ns":1,"outcome":{"refused":{"code":"revoked"}}}}"#, "revoked"),
        ] {
            let error = serde_json::from_str::<Entry>(line).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }
}
