//! `holdfast session`: the calls of the API that are about sessions.

use holdfast_client::api::Token;
use holdfast_client::{SessionPage, SessionRef, fresh_token};

use crate::api::{answer, client, consistency, given};
use crate::args::{
    GetSessionArgs, KnownSessionArgs, ListSessionsArgs, OpenSessionArgs, SessionCommand, SessionTokenArgs,
};
use crate::exit::Failure;
use crate::print;

pub(crate) fn run(command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::Open(args) => open(args),
        SessionCommand::Renew(args) => renew(args),
        SessionCommand::End(args) => end(args),
        SessionCommand::Get(args) => get(&args),
        SessionCommand::List(args) => list(args),
    }
}

fn open(args: OpenSessionArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let token = token(args.token.session_token)?.unwrap_or_else(fresh_token);
    answer(client.open_session(&token, given(args.owner), args.ttl), &args.output, print::session)
}

fn renew(args: KnownSessionArgs) -> Result<(), Failure> {
    let (client, session) = (client(&args.client)?, known(args.id, args.token)?);
    answer(client.renew_session(&session), &args.output, print::renewed_session)
}

fn end(args: KnownSessionArgs) -> Result<(), Failure> {
    let (client, session) = (client(&args.client)?, known(args.id, args.token)?);
    answer(client.end_session(&session), &args.output, print::ended_session)
}

fn get(args: &GetSessionArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.get_session(&args.id, consistency(&args.read)), &args.output, print::session_info)
}

fn list(args: ListSessionsArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let page = SessionPage { after: given(args.after), limit: args.limit };
    answer(client.list_sessions(&page, consistency(&args.read)), &args.output, print::sessions)
}

/// The session that an acquire is to be kept by, if any is named.
pub(crate) fn named(id: Option<String>, token: Option<String>) -> Result<Option<SessionRef>, Failure> {
    let Some(id) = given(id) else { return Ok(None) };
    known(id, SessionTokenArgs { session_token: token }).map(Some)
}

fn known(id: String, args: SessionTokenArgs) -> Result<SessionRef, Failure> {
    let missing = "the session's token is needed, as `session open` has printed it: give --session-token, or set \
                   HOLDFAST_SESSION_TOKEN";
    let token = token(args.session_token)?.ok_or_else(|| Failure::usage(missing))?;
    Ok(SessionRef { id, token })
}

fn token(text: Option<String>) -> Result<Option<Token>, Failure> {
    let token = given(text).map(Token::new).transpose();
    token.map_err(|error| Failure::usage(format!("--session-token (HOLDFAST_SESSION_TOKEN) {error}")))
}
