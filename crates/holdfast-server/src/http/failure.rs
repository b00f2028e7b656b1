//! Errors: from what went wrong inside to the problem that the client gets. The table of codes is here.

use std::borrow::Cow;

use holdfast_api::{BODY_LEN_MAX, ErrorCode, HeldBy, InvalidArgument, Problem};
use holdfast_core::{HolderSummary, Rejection};
use holdfast_replica::handle::{CallFailure, Unanswered};
use holdfast_replica::members::{ChangeFailure, ChangeRefusal};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::answer::{Answer, body_of};

/// Content type of every error.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// Longest `Retry-After` that is ever given, in seconds: holds are released early more often than not.
pub(crate) const RETRY_AFTER_MAX_S: u64 = 60;

/// An error on its way to the client.
#[derive(Debug)]
pub(crate) struct Failure {
    code: ErrorCode,
    detail: Cow<'static, str>,
    /// Which of many locks it is about.
    name: Option<String>,
    extra: Extra,
}

#[derive(Debug)]
enum Extra {
    Nothing,
    /// None holds it where it is kept free for somebody who waits for other locks as well.
    HeldBy {
        holder: Option<HeldBy>,
        queue_length: u64,
    },
    Limit(u32),
    Cycle(Vec<String>),
    /// In the delay after a lost holder.
    Delayed {
        holder: Option<HeldBy>,
        queue_length: u64,
        delay_ms: u64,
    },
    AlreadyDone {
        owner: String,
        fence: u64,
        next_in_ms: u64,
        done_ms_ago: u64,
    },
    Allow(&'static str),
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), name: None, extra: Extra::Nothing }
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("This path takes: {allow}.");
        Self { extra: Extra::Allow(allow), ..Self::new(ErrorCode::MethodNotAllowed, detail) }
    }

    pub(crate) fn too_large() -> Self {
        let detail = format!("The request's body has more than {BODY_LEN_MAX} bytes.");
        Self::new(ErrorCode::TooLarge, detail)
    }

    pub(crate) fn bug() -> Self {
        Self::new(
            ErrorCode::Internal,
            "The request ran into a bug of the service. It may or may not have been done: repeat it with the same \
             token. The node's log has more under this request id.",
        )
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    pub(crate) fn into_answer(self, request_id: &HeaderValue) -> Answer {
        let mut problem = Problem::new(self.code, self.detail);
        problem.request_id = request_id.to_str().ok().map(Into::into);
        problem.name = self.name;
        let retry_after_s = match &self.extra {
            Extra::HeldBy { holder, .. } => {
                Some(retry_after_s(holder.as_ref().map_or(0, |holder| holder.expires_in_ms)))
            }
            Extra::Delayed { delay_ms, .. } => Some(retry_after_s(*delay_ms)),
            _ if self.code.status() == 503 => Some(1),
            _ => None,
        };
        let mut allow = None;
        match self.extra {
            Extra::Nothing => {}
            Extra::Allow(methods) => allow = Some(methods),
            Extra::Limit(limit) => problem.limit = Some(limit),
            Extra::Cycle(cycle) => problem.cycle = Some(cycle),
            Extra::Delayed { holder, queue_length, delay_ms } => {
                problem.holder = holder;
                problem.queue_length = Some(queue_length);
                problem.delay_ms = Some(delay_ms);
            }
            Extra::AlreadyDone { owner, fence, next_in_ms, done_ms_ago } => {
                problem.owner = Some(owner);
                problem.fence = Some(fence);
                problem.next_in_ms = Some(next_in_ms);
                problem.done_ms_ago = Some(done_ms_ago);
            }
            Extra::HeldBy { holder, queue_length } => {
                problem.holder = holder;
                problem.queue_length = Some(queue_length);
            }
        }
        let body = serde_json::to_vec(&problem).expect("a problem has text keys only");
        let mut answer = Response::new(body_of(body));
        *answer.status_mut() = status_of(self.code);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = allow {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        answer
    }
}

fn status_of(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).expect("the table of codes has valid statuses only")
}

fn retry_after_s(expires_in_ms: u64) -> u64 {
    expires_in_ms.div_ceil(1000).clamp(1, RETRY_AFTER_MAX_S)
}

/// The code for everything that a replica may say instead of a success.
fn code_of(failure: &CallFailure) -> ErrorCode {
    match failure {
        CallFailure::Rejected(rejection) => match innermost(rejection) {
            Rejection::Of { .. } => ErrorCode::Internal,
            Rejection::Deadlock { .. } => ErrorCode::Deadlock,
            Rejection::Held { .. } => ErrorCode::Held,
            Rejection::LeaseExpired => ErrorCode::LeaseExpired,
            Rejection::LeaseReleased | Rejection::HandedOver => ErrorCode::LeaseReleased,
            Rejection::LeaseForced => ErrorCode::LeaseForced,
            Rejection::NotHolder | Rejection::NoSuchWaiter => ErrorCode::NotHolder,
            Rejection::TokenConflict => ErrorCode::TokenConflict,
            Rejection::LimitConflict { .. } => ErrorCode::LimitConflict,
            Rejection::NoLimit => ErrorCode::NoLimit,
            Rejection::NoSuchCandidate => ErrorCode::NoSuchCandidate,
            Rejection::QueueFull => ErrorCode::QueueFull,
            Rejection::SessionExpired => ErrorCode::SessionExpired,
            Rejection::SessionNotFound => ErrorCode::SessionNotFound,
            Rejection::SessionNotYours => ErrorCode::SessionNotYours,
            Rejection::SessionFull => ErrorCode::SessionFull,
            Rejection::Delayed { .. } => ErrorCode::Held,
            Rejection::AlreadyDone { .. } => ErrorCode::AlreadyDone,
            Rejection::FencesExhausted | Rejection::ForeignStorage => ErrorCode::Internal,
        },
        CallFailure::Unanswered(unanswered) => match unanswered {
            Unanswered::NoLeader(_) | Unanswered::Closing => ErrorCode::NoLeader,
            Unanswered::UnknownOutcome(_) => ErrorCode::UnknownOutcome,
            Unanswered::NoSpace(_) => ErrorCode::NoSpace,
        },
    }
}

/// What was said, without the lock that it was said of.
fn innermost(rejection: &Rejection) -> &Rejection {
    match rejection {
        Rejection::Of { why, .. } => why,
        other => other,
    }
}

/// What to do about it; nothing where the code says it all.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Held => "Try again later, or ask with wait_ms to be queued.",
        ErrorCode::LeaseExpired => {
            "Somebody else may hold the lock by now. Acquire it anew with a new token."
        }
        ErrorCode::LeaseReleased | ErrorCode::LeaseForced => "To hold the lock again, use a new token.",
        ErrorCode::NotHolder => "It never did, or it is so long ago that it is forgotten.",
        ErrorCode::TokenConflict => {
            "Repeat it with the same owner, ttl_ms or session, metadata or value, mode, limit, permits, delay_ms, min_hold_ms, max_hold_ms and once, or use a new token."
        }
        ErrorCode::NoSuchCandidate => "The leader goes on leading.",
        ErrorCode::AlreadyDone => "There is nothing to do until then.",
        ErrorCode::Deadlock => {
            "Nothing was done. Release what is held of these locks, and take them again, all in one call if you can."
        }
        ErrorCode::NoLimit => "It is set by the first acquire that names one.",
        ErrorCode::SessionExpired => {
            "It holds nothing and waits for nothing any more. Open another one with a new token."
        }
        ErrorCode::SessionNotFound => "It never was, or it is so long ago that it is forgotten.",
        ErrorCode::SessionNotYours => "Show the token that it was opened with.",
        ErrorCode::SessionFull => {
            "One session holds and waits for at most 10000 locks. Release some, or open another one."
        }
        ErrorCode::Unsafe => "Nothing was done.",
        ErrorCode::ChangeInProgress => "Nothing was done; try again once it is over.",
        ErrorCode::QueueFull | ErrorCode::NoSpace => "Nothing was done; try again later.",
        ErrorCode::NoLeader => "Nothing was done; it is safe to repeat. No lock is lost by this.",
        ErrorCode::UnknownOutcome => {
            "It may or may not have been done: repeat it with the same token. No lock is lost by this."
        }
        _ => "",
    }
}

impl From<CallFailure> for Failure {
    fn from(failure: CallFailure) -> Self {
        let code = code_of(&failure);
        let detail = sentence(&failure.to_string(), advice(code));
        let CallFailure::Rejected(rejection) = failure else { return Self::new(code, detail) };
        let name = match &rejection {
            Rejection::Of { lock, .. } => Some(lock.as_str().to_owned()),
            _ => None,
        };
        let extra = match innermost(&rejection) {
            Rejection::Held { holder, queue_length } => {
                Extra::HeldBy { holder: holder.as_ref().map(held_by), queue_length: *queue_length }
            }
            Rejection::Delayed { holder, queue_length, delay_ms } => Extra::Delayed {
                holder: holder.as_ref().map(held_by),
                queue_length: *queue_length,
                delay_ms: *delay_ms,
            },
            Rejection::AlreadyDone { owner, fence, next_in_ms, done_ms_ago } => Extra::AlreadyDone {
                owner: owner.as_str().into(),
                fence: fence.0,
                next_in_ms: *next_in_ms,
                done_ms_ago: *done_ms_ago,
            },
            Rejection::LimitConflict { limit: Some(limit) } => Extra::Limit(*limit),
            Rejection::Deadlock { cycle } => {
                Extra::Cycle(cycle.iter().map(|lock| lock.as_str().to_owned()).collect())
            }
            _ => Extra::Nothing,
        };
        Self { name, extra, ..Self::new(code, detail) }
    }
}

impl From<ChangeFailure> for Failure {
    fn from(failure: ChangeFailure) -> Self {
        let code = match failure {
            ChangeFailure::Unanswered(unanswered) => return unanswered.into(),
            ChangeFailure::Refused(ChangeRefusal::Unsafe(_)) => ErrorCode::Unsafe,
            ChangeFailure::Refused(ChangeRefusal::InProgress) => ErrorCode::ChangeInProgress,
            ChangeFailure::Refused(ChangeRefusal::NoSuchMember(_)) => ErrorCode::NotFound,
            ChangeFailure::Refused(ChangeRefusal::Invalid(_)) => ErrorCode::InvalidArgument,
        };
        Self::new(code, sentence(&failure.to_string(), advice(code)))
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        CallFailure::from(unanswered).into()
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        CallFailure::from(rejection).into()
    }
}

impl From<InvalidArgument> for Failure {
    fn from(error: InvalidArgument) -> Self {
        Self::new(ErrorCode::InvalidArgument, error.to_string())
    }
}

fn held_by(holder: &HolderSummary) -> HeldBy {
    HeldBy { owner: holder.owner.as_str().into(), fence: holder.fence.0, expires_in_ms: holder.expires_in_ms }
}

/// `text` as a sentence, followed by another.
fn sentence(text: &str, next: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    let mut sentence: String = first.into_iter().chain(letters).chain(['.']).collect();
    if !next.is_empty() {
        sentence.push(' ');
        sentence.push_str(next);
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_whole_seconds_from_1_to_60() {
        assert_eq!([0, 1, 1_000, 1_001, 86_400_000].map(retry_after_s), [1, 1, 1, 2, 60]);
    }

    #[test]
    fn a_lost_majority_never_looks_like_a_lost_lock() {
        for unanswered in [
            Unanswered::NoLeader("none".into()),
            Unanswered::Closing,
            Unanswered::UnknownOutcome("cut".into()),
            Unanswered::NoSpace("full".into()),
        ] {
            assert!(Failure::from(unanswered).code().status() >= 503);
        }
    }

    #[test]
    fn a_detail_says_what_happened_and_what_to_do() {
        let failure = Failure::from(Rejection::LeaseExpired);
        assert_eq!(
            failure.detail,
            "The lease of this token is over. Somebody else may hold the lock by now. Acquire it anew with a new token."
        );
    }
}
