//! The calls of the API that are about sessions.

use std::time::Duration;

use holdfast_api::{
    OpenSessionRequest, Session, SessionEnded, SessionInfo, SessionList, SessionTokenRequest, Token,
};

use crate::acquire::whole_ms;
use crate::call::{Answer, Pace};
use crate::client::{Client, Consistency, query};
use crate::error::CallError;
use crate::path::session_path;
use crate::transport::Outgoing;

/// A session, for whoever may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// As it was given when the session was opened.
    pub id: String,
    /// The session's secret.
    pub token: Token,
}

/// Which page of the list of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    /// Only sessions behind this one.
    pub after: Option<String>,
    /// Most sessions in the page, 1 to 1000. The service's default is 100.
    pub limit: Option<usize>,
}

impl Client {
    /// Opens a session, or finds the one that this token has opened, and sets its time again.
    ///
    /// # Errors
    /// `session_expired` means that this token's session has ended.
    pub async fn open_session(
        &self,
        token: &Token,
        owner: Option<String>,
        ttl: Option<Duration>,
    ) -> Result<Answer<Session>, CallError> {
        let request =
            OpenSessionRequest { owner, token: Some(token.expose().into()), ttl_ms: ttl.map(whole_ms) };
        let outgoing = Outgoing::post("/v1/sessions".into(), &request);
        let answer = self.call::<Session>(&outgoing, self.usual_pace()).await?;
        check(answer, token)
    }

    /// Sets what is left of a session to its TTL.
    ///
    /// # Errors
    /// `session_expired` and `session_not_found` mean that it holds nothing any more.
    pub async fn renew_session(&self, session: &SessionRef) -> Result<Answer<Session>, CallError> {
        self.keep_session(&renew_session_request(session), session, self.usual_pace()).await
    }

    pub(crate) async fn keep_session(
        &self,
        outgoing: &Outgoing,
        session: &SessionRef,
        pace: Pace,
    ) -> Result<Answer<Session>, CallError> {
        let answer = check(self.call::<Session>(outgoing, pace).await?, &session.token)?;
        if answer.id == session.id { Ok(answer) } else { Err(not_this_session()) }
    }

    /// Frees all that a session holds and ends all its waits. Safe to repeat.
    ///
    /// # Errors
    /// `session_expired` and `session_not_found` mean that there was nothing left to end.
    pub async fn end_session(&self, session: &SessionRef) -> Result<Answer<SessionEnded>, CallError> {
        self.end_session_at_pace(session, self.usual_pace()).await
    }

    pub(crate) async fn end_session_at_pace(
        &self,
        session: &SessionRef,
        pace: Pace,
    ) -> Result<Answer<SessionEnded>, CallError> {
        let outgoing = Outgoing::post(session_path(&session.id, Some("end")), &token_of(session));
        self.call(&outgoing, pace).await
    }

    /// Looks at a session that lives, and at what it holds and waits for.
    ///
    /// # Errors
    /// `session_not_found` if it does not live.
    pub async fn get_session(
        &self,
        id: &str,
        consistency: Consistency,
    ) -> Result<Answer<SessionInfo>, CallError> {
        let query = query([("consistency", consistency.as_query())]);
        self.call(&Outgoing::get(session_path(id, None) + &query), self.usual_pace()).await
    }

    /// Lists the sessions that live, in the order in which they were opened.
    ///
    /// # Errors
    /// As every call.
    pub async fn list_sessions(
        &self,
        page: &SessionPage,
        consistency: Consistency,
    ) -> Result<Answer<SessionList>, CallError> {
        let query = query([
            ("after", page.after.clone()),
            ("limit", page.limit.map(|limit| limit.to_string())),
            ("consistency", consistency.as_query()),
        ]);
        self.call(&Outgoing::get(format!("/v1/sessions{query}")), self.usual_pace()).await
    }
}

pub(crate) fn renew_session_request(session: &SessionRef) -> Outgoing {
    Outgoing::post(session_path(&session.id, Some("renew")), &token_of(session))
}

fn token_of(session: &SessionRef) -> SessionTokenRequest {
    SessionTokenRequest { token: session.token.expose().into() }
}

/// An answer that looks like a session but is not ours must never be taken for one.
fn check(answer: Answer<Session>, token: &Token) -> Result<Answer<Session>, CallError> {
    if answer.token == *token { Ok(answer) } else { Err(not_this_session()) }
}

fn not_this_session() -> CallError {
    CallError::Protocol("the answer is not about this session".into())
}
