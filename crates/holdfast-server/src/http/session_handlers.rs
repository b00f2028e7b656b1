//! What the calls of sessions do.

use holdfast_api::{OpenSessionRequest, SessionTokenRequest, Token, parse_session_id};
use holdfast_core::{Rejection, SessionId, SessionRef};
use hyper::body::Incoming;

use super::answer::Reply;
use super::failure::Failure;
use super::handlers::{Handled, new_token, no_query, query};
use super::json;
use super::percent::decode_segment;
use super::request_body::{read, read_optional};
use super::service::{Call, Service};
use crate::attempt::session_key;

pub(super) async fn open(service: &Service, call: &Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: OpenSessionRequest = read_optional(&call.head.headers, body).await?;
    let token = match request.token()? {
        Some(token) => token,
        None => new_token()?,
    };
    let (owner, ttl) = (request.owner()?, request.ttl()?);
    let session = service.replica.open_session(session_key(&token), owner, ttl).await?;
    Ok(Reply::json(json::session(&token, &session)))
}

pub(super) async fn renew(service: &Service, call: &Call<'_>, id: &str, body: Incoming) -> Handled {
    no_query(call)?;
    let request: SessionTokenRequest = read(&call.head.headers, body).await?;
    let token = request.token()?;
    let session = service.replica.renew_session(shown(id_in_path(id)?, &token)).await?;
    Ok(Reply::json(json::session(&token, &session)))
}

pub(super) async fn end(service: &Service, call: &Call<'_>, id: &str, body: Incoming) -> Handled {
    no_query(call)?;
    let request: SessionTokenRequest = read(&call.head.headers, body).await?;
    let token = request.token()?;
    let id = id_in_path(id)?;
    let released = service.replica.end_session(shown(id, &token)).await?;
    Ok(Reply::json(json::session_ended(id, released)))
}

pub(super) async fn get(service: &Service, call: &Call<'_>, id: &str) -> Handled {
    let consistency = query(call, &["consistency"])?.consistency()?;
    let id = id_in_path(id)?;
    let session = service.replica.read(consistency, move |table, now| table.session(id, now)).await?;
    Ok(Reply::json(json::session_info(&session.ok_or(Rejection::SessionNotFound)?, consistency)))
}

pub(super) async fn list(service: &Service, call: &Call<'_>) -> Handled {
    let query = query(call, &["limit", "after", "consistency"])?;
    let (consistency, limit, after) = (query.consistency()?, query.limit()?, query.session("after")?);
    let look = move |table: &holdfast_core::LockTable, now| table.list_sessions(after, limit, now);
    let page = service.replica.read(consistency, look).await?;
    Ok(Reply::json(json::session_list(&page, consistency)))
}

/// A session, with the token that a client has shown for it.
pub(super) fn shown(id: SessionId, token: &Token) -> SessionRef {
    SessionRef { id, key: session_key(token) }
}

/// What is no id names no session.
pub(super) fn session_id(text: &str) -> Result<SessionId, Failure> {
    parse_session_id(text).ok_or_else(|| Rejection::SessionNotFound.into())
}

fn id_in_path(raw: &str) -> Result<SessionId, Failure> {
    session_id(&decode_segment(raw).map_err(|_| Rejection::SessionNotFound)?)
}
