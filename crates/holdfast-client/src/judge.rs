//! What an answer means: whether it settles the request, or another try may.

use bytes::Bytes;
use holdfast_api::ErrorCode;
use serde::de::DeserializeOwned;

use crate::error::Refusal;
use crate::transport::{Incoming, NoAnswer};

/// An exchange that gave no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The same request may well succeed elsewhere or a little later.
    Passing { may_have_happened: bool, why: String },
    /// Whoever answered does not speak our language; another endpoint may.
    Strange(String),
    /// The service said no.
    Refused(Box<Refusal>),
}

/// Reads the answer to a request whose success is a `T`. Unknown fields and wrong content types do not matter.
pub(crate) fn judge<T: DeserializeOwned>(
    exchange: Result<Incoming, NoAnswer>,
) -> Result<(T, Bytes), Failure> {
    let Incoming { status, body } = exchange
        .map_err(|none| Failure::Passing { may_have_happened: none.may_have_happened, why: none.why })?;
    if status == 200 {
        return match serde_json::from_slice(&body) {
            Ok(value) => Ok((value, body)),
            Err(error) => Err(Failure::Strange(format!("status 200 with something else ({error})"))),
        };
    }
    Err(match Refusal::read(status, &body) {
        Some(refusal) => judge_problem(refusal),
        None => judge_stranger(status),
    })
}

fn judge_problem(refusal: Box<Refusal>) -> Failure {
    // The first sentence says what is wrong. What it means for the request is told of all tries together.
    let first = refusal.detail.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let why = format!("{first} ({})", refusal.code_text);
    let passing = |may_have_happened| Failure::Passing { may_have_happened, why };
    match refusal.code {
        Some(ErrorCode::NoLeader | ErrorCode::NoSpace | ErrorCode::RequestTimeout) => passing(false),
        Some(ErrorCode::UnknownOutcome | ErrorCode::Internal) => passing(true),
        None if refusal.status >= 500 => passing(true),
        _ => Failure::Refused(refusal),
    }
}

/// An answer that is none of the service's own: a proxy's error page, for example.
fn judge_stranger(status: u16) -> Failure {
    match status {
        408 | 429 | 500.. => Failure::Passing {
            may_have_happened: true,
            why: format!("status {status} from something in between"),
        },
        _ => Failure::Strange(format!("status {status} without a problem document")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::Released;

    fn judged(status: u16, body: &str) -> Result<Released, Failure> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        judge(Ok(Incoming { status, body })).map(|(value, _)| value)
    }

    #[test]
    fn unknown_fields_in_an_answer_are_ignored() {
        let released = judged(200, r#"{"name":"a","fence":1,"released":true,"new":{"x":1}}"#).unwrap();
        assert_eq!(released.fence, Some(1));
    }

    #[test]
    fn no_leader_and_unknown_outcome_are_passing_and_tell_whether_anything_can_have_happened() {
        for (code, status, expected) in [("no_leader", 503, false), ("unknown_outcome", 504, true)] {
            let failure = judged(status, &format!(r#"{{"code":"{code}","detail":""}}"#)).unwrap_err();
            let Failure::Passing { may_have_happened, .. } = failure else { panic!("{failure:?}") };
            assert_eq!(may_have_happened, expected);
        }
    }

    #[test]
    fn an_html_error_page_never_looks_like_a_refusal() {
        assert!(matches!(judged(502, "<html>Bad gateway</html>"), Err(Failure::Passing { .. })));
        assert!(matches!(judged(404, "<html>Nothing</html>"), Err(Failure::Strange(_))));
        assert!(matches!(judged(200, "<html>Welcome</html>"), Err(Failure::Strange(_))));
        assert!(matches!(judged(301, ""), Err(Failure::Strange(_))));
    }

    #[test]
    fn a_code_of_a_newer_service_is_a_refusal_without_a_known_code() {
        let Err(Failure::Refused(refusal)) = judged(409, r#"{"code":"of_the_future","detail":"new"}"#) else {
            panic!("a refusal was expected");
        };
        assert_eq!((refusal.code, refusal.code_text.as_str()), (None, "of_the_future"));
    }
}
