//! What clients were told, as the checks of `holdfast check` see it: the history that they write, and its verdict.

use std::sync::Arc;

use holdfast_core::{HolderSummary, Rejection};
use holdfast_history::format::{Complete, Entry, Header, Invoke, Mark};
use holdfast_history::{Answer, Code, History, Holder, Outcome, Refusal, Request};

use super::Violation;
use crate::sim::clients::{Came, Deed, Line, label, name};
use crate::sim::executor::Nanos;

/// The history's clock is the true one; those of the nodes run within 2.5 % of it.
const CLOCK_ERROR_PPM: u32 = 26_000;

pub(crate) fn check(lines: &[Line], doubled: &[Nanos]) -> Vec<Violation> {
    let history = match History::new(header(), entries(lines, doubled)) {
        Ok(history) => history,
        Err(error) => return vec![Violation::new("the history is one", error.to_string())],
    };
    let verdict = holdfast_history::check(&history);
    let found = verdict.violations.iter();
    found.map(|violation| Violation::new(violation.check.promise(), violation.what.clone())).collect()
}

fn header() -> Header {
    Header { clock_error_ppm: CLOCK_ERROR_PPM, ..Header::of_one_clock("simulated") }
}

/// The lines of the history, in the order in which things were written down.
fn entries(lines: &[Line], doubled: &[Nanos]) -> Vec<Entry> {
    let mut entries = vec![(0, Entry::Fault(Mark { at_ns: 0, text: "faults".into() }))];
    for (id, line) in (1..).zip(lines) {
        entries.push((line.invoked, Entry::Invoke(invoke(id, line))));
        if line.returned < Nanos::MAX {
            let is_doubled = doubled.iter().any(|at| (line.invoked..=line.returned).contains(at));
            let complete = Complete { id, at_ns: line.returned, outcome: outcome(line, is_doubled) };
            entries.push((line.returned, Entry::Complete(complete)));
        }
    }
    entries.sort_by_key(|(at, _)| *at);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn invoke(id: u64, line: &Line) -> Invoke {
    let (process, node) = (format!("c{}", line.client).into(), format!("node-{}", line.node).into());
    Invoke { id, process, at_ns: line.invoked, node, request: request(line) }
}

fn request(line: &Line) -> Request {
    let (lock, attempt): (Arc<str>, Arc<str>) =
        (name(line.lock).as_str().into(), label(&line.attempt).into());
    match line.deed {
        Deed::Acquire { wait_ms } => {
            Request::Acquire { lock, owner: attempt.clone(), attempt, ttl_ms: line.ttl_ms, wait_ms }
        }
        Deed::Renew => Request::Renew { lock, attempt, ttl_ms: None },
        Deed::Release => Request::Release { lock, attempt },
        Deed::Read => Request::Read { lock },
    }
}

fn outcome(line: &Line, is_doubled: bool) -> Outcome {
    match &line.came {
        Came::Granted(fence, expires_in_ms) => {
            Outcome::Ok(Answer::Granted { fence: *fence, ttl_ms: line.ttl_ms, expires_in_ms: *expires_in_ms })
        }
        Came::Released(fence) => Outcome::Ok(Answer::Released { fence: *fence }),
        Came::Seen(holders, queue) => Outcome::Ok(Answer::Seen {
            holders: holders.iter().map(holder).collect(),
            queue: queue.iter().map(|owner| owner.as_str().into()).collect(),
        }),
        Came::Refused(rejection) => refused(rejection),
        Came::WaitTimeout => code(Code::WaitTimeout),
        // The second copy may do what the first rightly says was not done.
        Came::NotDone if is_doubled => Outcome::unknown("a copy may be on its way".into()),
        Came::NotDone => code(Code::NoLeader),
        Came::Unknown => Outcome::unknown(String::new()),
    }
}

fn holder(summary: &HolderSummary) -> Holder {
    let HolderSummary { owner, fence, expires_in_ms } = summary;
    Holder { owner: owner.as_str().into(), fence: fence.0, expires_in_ms: *expires_in_ms }
}

fn code(code: Code) -> Outcome {
    Outcome::Refused(Refusal { code, holder: None })
}

fn refused(rejection: &Rejection) -> Outcome {
    match rejection {
        Rejection::Held { holder: summary, .. } => {
            Outcome::Refused(Refusal { code: Code::Held, holder: summary.as_ref().map(holder) })
        }
        Rejection::LeaseExpired => code(Code::LeaseExpired),
        Rejection::LeaseReleased => code(Code::LeaseReleased),
        Rejection::LeaseForced => code(Code::LeaseForced),
        Rejection::NotHolder => code(Code::NotHolder),
        Rejection::TokenConflict => code(Code::TokenConflict),
        Rejection::QueueFull => code(Code::QueueFull),
        Rejection::FencesExhausted
        | Rejection::ForeignStorage
        // Nobody here counts permits, or waits while he holds another lock.
        | Rejection::Deadlock { .. }
        | Rejection::Of { .. }
        | Rejection::LimitConflict { .. }
        | Rejection::NoLimit
        // Nor hands over, nor has a session.
        | Rejection::HandedOver
        | Rejection::NoSuchCandidate
        | Rejection::SessionExpired
        | Rejection::SessionNotFound
        | Rejection::SessionNotYours
        | Rejection::SessionFull => Outcome::unknown(rejection.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::AttemptKey;

    use super::*;
    use crate::sim::executor::MS;

    fn granted(attempt: u8, fence: u64, at_ms: u64) -> Line {
        Line {
            client: u64::from(attempt),
            node: 1,
            lock: 0,
            attempt: AttemptKey([attempt; 16]),
            deed: Deed::Acquire { wait_ms: 0 },
            ttl_ms: 1_000,
            invoked: at_ms * MS,
            returned: (at_ms + 1) * MS,
            came: Came::Granted(fence, 1_000),
        }
    }

    #[test]
    fn two_who_are_told_that_they_hold_the_same_lock_at_once_are_found() {
        assert_eq!(check(&[granted(1, 1, 10), granted(2, 2, 1_300)], &[]), []);
        assert!(!check(&[granted(1, 1, 10), granted(2, 2, 500)], &[]).is_empty());
    }
}
