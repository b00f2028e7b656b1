//! What an answer of the HTTP API means for the history.

use holdfast_api::{ErrorCode, ForceReleased, Grant, LimitSet, Lock, Problem, Released};
use holdfast_history::{Answer, Code, Holder, Mode, Outcome, Refusal, Request};
use serde::de::DeserializeOwned;

/// Reads an answer. What is not understood is unknown: the history must not say more than the client knows.
pub(super) fn outcome_of(request: &Request, status: u16, body: &[u8]) -> Outcome {
    if status != 200 {
        return refusal(status, body);
    }
    let answer = match request {
        Request::Acquire { .. } | Request::Renew { .. } => read(body).map(granted),
        Request::Release { .. } => {
            read(body).map(|released: Released| Answer::Released { fence: released.fence })
        }
        Request::Read { .. } => read(body).map(seen),
        Request::Limit { .. } => read(body).map(|set: LimitSet| Answer::Limited { limit: set.limit }),
        Request::Force { .. } => {
            read(body).map(|forced: ForceReleased| Answer::Forced { fence: forced.fence })
        }
    };
    answer.map_or_else(Outcome::unknown, Outcome::Ok)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("status 200 with something else: {error}"))
}

fn granted(grant: Grant) -> Answer {
    Answer::Granted { fence: grant.fence, ttl_ms: grant.ttl_ms, expires_in_ms: grant.expires_in_ms }
}

fn seen(lock: Lock) -> Answer {
    let holders = lock.holders.into_iter();
    let holders = holders.map(|holder| Holder {
        owner: holder.owner.into(),
        fence: holder.fence,
        expires_in_ms: holder.expires_in_ms,
        mode: mode(holder.mode),
        permits: holder.permits,
    });
    let queue = lock.queue.into_iter().map(|waiter| waiter.owner.into());
    Answer::Seen { holders: holders.collect(), queue: queue.collect() }
}

fn mode(mode: holdfast_api::Mode) -> Mode {
    match mode {
        holdfast_api::Mode::Exclusive => Mode::Exclusive,
        holdfast_api::Mode::Shared => Mode::Shared,
    }
}

fn refusal(status: u16, body: &[u8]) -> Outcome {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return Outcome::unknown(format!("status {status} without a known problem"));
    };
    let holder = problem.holder.map(|holder| Holder {
        owner: holder.owner.into(),
        fence: holder.fence,
        expires_in_ms: holder.expires_in_ms,
        mode: Mode::Exclusive,
        permits: None,
    });
    match code(problem.code) {
        Some(code) => Outcome::Refused(Refusal { code, holder, limit: problem.limit }),
        None => Outcome::unknown(problem.code.as_str().into()),
    }
}

/// None where nobody knows what was done.
fn code(code: ErrorCode) -> Option<Code> {
    match code {
        ErrorCode::Held => Some(Code::Held),
        ErrorCode::WaitTimeout => Some(Code::WaitTimeout),
        ErrorCode::LeaseExpired => Some(Code::LeaseExpired),
        ErrorCode::LeaseReleased => Some(Code::LeaseReleased),
        ErrorCode::LeaseForced => Some(Code::LeaseForced),
        ErrorCode::NotHolder => Some(Code::NotHolder),
        ErrorCode::TokenConflict => Some(Code::TokenConflict),
        ErrorCode::QueueFull => Some(Code::QueueFull),
        ErrorCode::NoLeader => Some(Code::NoLeader),
        ErrorCode::NoSpace => Some(Code::NoSpace),
        ErrorCode::RequestTimeout => Some(Code::RequestTimeout),
        ErrorCode::InvalidArgument
        | ErrorCode::NotFound
        | ErrorCode::MethodNotAllowed
        | ErrorCode::TooLarge
        | ErrorCode::UnsupportedMediaType
        // These clients have no sessions, hold one lock at a time and hand nothing over: it would be as wrong as any other
        // field.
        | ErrorCode::SessionNotFound
        | ErrorCode::SessionNotYours
| ErrorCode::SessionFull | ErrorCode::AlreadyDone | ErrorCode::Unsafe | ErrorCode::ChangeInProgress => Some(Code::InvalidArgument),
        ErrorCode::LimitConflict => Some(Code::LimitConflict),
        ErrorCode::NoLimit => Some(Code::NoLimit),
        ErrorCode::Deadlock => Some(Code::Deadlock),
        ErrorCode::NoSuchCandidate => Some(Code::NoSuchCandidate),
        ErrorCode::SessionExpired => Some(Code::SessionExpired),
        ErrorCode::UnknownOutcome | ErrorCode::Internal => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: ErrorCode) -> Vec<u8> {
        serde_json::to_vec(&Problem::new(code, "")).unwrap()
    }

    #[test]
    fn only_a_code_that_promises_it_makes_an_answer_a_refusal() {
        let read = Request::Read { lock: "a".into() };
        for error in ErrorCode::ALL {
            let outcome = outcome_of(&read, error.status(), &problem(error));
            let is_refused = matches!(outcome, Outcome::Refused(_));
            assert_eq!(is_refused, error.had_no_effect() || error == ErrorCode::WaitTimeout, "{error:?}");
        }
    }

    #[test]
    fn a_strangers_answer_is_unknown() {
        let read = Request::Read { lock: "a".into() };
        for (status, body) in [(200, "<html>"), (502, "Bad gateway"), (409, r#"{"code":"of_the_future"}"#)] {
            assert!(matches!(outcome_of(&read, status, body.as_bytes()), Outcome::Unknown { .. }), "{body}");
        }
    }
}
