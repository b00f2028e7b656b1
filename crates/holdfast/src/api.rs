//! The commands that are one call of the API each.

use clap::ArgMatches;
use clap::parser::ValueSource;
use holdfast_client::api::{ErrorCode, HeldBy, Token};
use holdfast_client::{Acquire, Answer, CallError, Client, Consistency, Page, Refusal, Wait};
use serde_json::{Map, Value};

use crate::args::{
    AcquireArgs, ClientArgs, GetArgs, LimitArgs, ListArgs, OutputArgs, ReadArgs, ReleaseArgs, RenewArgs,
};
use crate::exit::{Failure, already_done};
use crate::{duration, output, print, runtime, session};

pub(crate) fn acquire(args: AcquireArgs, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    let is_token_inherited = is_token_inherited(matches);
    let acquire = Acquire {
        owner: given(args.owner),
        token: own_token(args.token, matches)?,
        ttl: args.ttl,
        wait: args.wait.filter(|wait| !wait.is_zero()).map_or(Wait::No, Wait::AtMost),
        metadata: given(args.metadata).map(metadata).transpose()?.unwrap_or_default(),
        share: args.share.share(),
        session: session::named(args.session, args.session_token)?,
        terms: args.terms.terms(),
    };
    let client = client(&args.client)?;
    let result = call(client.acquire(&args.name, &acquire), &args.output, print::grant)?;
    result.map_err(|error| not_acquired(&args.name, &error, is_token_inherited))
}

fn is_token_inherited(matches: Option<&ArgMatches>) -> bool {
    matches.is_some_and(|matches| matches.value_source("token") == Some(ValueSource::EnvVariable))
}

/// Under `holdfast lock` the token in the environment is that of its own attempt, and a token is for one attempt only.
pub(crate) fn own_token(
    text: Option<String>,
    matches: Option<&ArgMatches>,
) -> Result<Option<Token>, Failure> {
    let is_for_another = is_token_inherited(matches) && std::env::var_os("HOLDFAST_LOCK").is_some();
    given(text).filter(|_| !is_for_another).map(token).transpose()
}

/// What is in the way of an acquire, in more words than other refusals get.
fn not_acquired(name: &str, error: &CallError, is_token_inherited: bool) -> Failure {
    let mut failure = Failure::of_call(error);
    let CallError::Refused(refusal) = error else { return failure };
    if let Refusal { code: Some(ErrorCode::Held), holder: Some(holder), .. } = &**refusal {
        failure.message = held_by(name, holder);
    }
    if let Refusal { already_done: Some(done), .. } = &**refusal {
        failure.message =
            format!("{}; next in {}", already_done(name, done), duration::text_of(done.next_in));
    }
    if let Refusal { delay: Some(delay), .. } = &**refusal {
        let delay = duration::text_of(*delay);
        failure.message = format!(
            "{name:?} is granted to nobody for {delay}, after its holder was lost. Wait for it with --wait 30s"
        );
    }
    let is_used_up = matches!(
        refusal.code,
        Some(ErrorCode::LeaseExpired | ErrorCode::LeaseReleased | ErrorCode::LeaseForced)
    );
    if is_used_up && is_token_inherited {
        failure.message.push_str(". The token came from HOLDFAST_TOKEN; unset it");
    }
    failure
}

fn held_by(name: &str, holder: &HeldBy) -> String {
    let HeldBy { owner, fence, expires_in_ms } = holder;
    let left = duration::text(*expires_in_ms);
    format!(
        "{name:?} is held by {owner:?} (fence {fence}), for {left} at most unless renewed. Wait for it with --wait 30s"
    )
}

pub(crate) fn renew(args: RenewArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    answer(client.renew(&args.name, &token, args.ttl), &args.output, print::renewed)
}

pub(crate) fn release(args: ReleaseArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    match args.done {
        true => answer(client.release_done(&args.name, &token), &args.output, print::released_done),
        false => answer(client.release(&args.name, &token), &args.output, print::released),
    }
}

pub(crate) fn get(args: GetArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    match args.wait {
        Some(wait) => answer(client.get_after(&args.name, args.since, wait), &args.output, print::lock),
        None => answer(client.get(&args.name, consistency(&args.read)), &args.output, print::lock),
    }
}

pub(crate) fn limit(args: LimitArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.set_limit(&args.name, args.limit), &args.output, print::limit)
}

pub(crate) fn list(args: ListArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let page = Page { prefix: given(args.prefix), after: given(args.after), limit: args.limit };
    answer(client.list(&page, consistency(&args.read)), &args.output, print::list)
}

/// Makes the call, prints what came of it, and explains a refusal.
pub(crate) fn answer<T>(
    future: impl Future<Output = Result<Answer<T>, CallError>>,
    how: &OutputArgs,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    call(future, how, text)?.map_err(|error| Failure::of_call(&error))
}

/// Makes the call and prints what came of it. The inner error is what the call ended with, still to be explained.
fn call<T>(
    future: impl Future<Output = Result<Answer<T>, CallError>>,
    how: &OutputArgs,
    text: impl Fn(&T) -> String,
) -> Result<Result<(), CallError>, Failure> {
    match runtime::single_threaded()?.block_on(future) {
        Ok(answer) if how.json => output::bytes_and_newline(&answer.json)?,
        Ok(answer) => output::line(&text(&answer.value))?,
        Err(error) => {
            if let (CallError::Refused(refusal), true) = (&error, how.json) {
                output::bytes_and_newline(&refusal.json)?;
            }
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// The client that the arguments ask for.
pub(crate) fn client(args: &ClientArgs) -> Result<Client, Failure> {
    Client::builder()
        .endpoints(args.endpoints.clone())
        .timeout(args.timeout)
        .build()
        .map_err(|error| Failure::usage(format!("--endpoints (HOLDFAST_ENDPOINTS): {error}")))
}

/// An empty text in the environment is as good as none.
pub(crate) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn token(text: String) -> Result<Token, Failure> {
    Token::new(text).map_err(|error| Failure::usage(format!("--token (HOLDFAST_TOKEN) {error}")))
}

pub(crate) fn required_token(text: Option<String>) -> Result<Token, Failure> {
    let missing = "a token is needed, as acquire has printed it: give --token, or set HOLDFAST_TOKEN";
    given(text).ok_or_else(|| Failure::usage(missing)).and_then(token)
}

fn metadata(text: String) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(&text).map_err(|_| {
        Failure::usage(r#"--metadata (HOLDFAST_METADATA) must be a JSON object like {"ticket": 7}"#)
    })
}

pub(crate) fn consistency(read: &ReadArgs) -> Consistency {
    if read.stale { Consistency::Stale } else { Consistency::Linearizable }
}
