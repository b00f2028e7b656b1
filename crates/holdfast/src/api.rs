//! The commands that are one call of the API each.

use holdfast_client::api::Token;
use holdfast_client::{Acquire, Answer, CallError, Client, Consistency, Page, Wait};
use serde_json::{Map, Value};

use crate::args::{
    AcquireArgs, ClientArgs, GetArgs, ListArgs, OutputArgs, ReadArgs, ReleaseArgs, RenewArgs, StatusArgs,
};
use crate::exit::Failure;
use crate::{output, print, runtime};

pub(crate) fn acquire(args: AcquireArgs) -> Result<(), Failure> {
    let acquire = Acquire {
        owner: given(args.owner),
        token: given(args.token).map(token).transpose()?,
        ttl: args.ttl,
        wait: args.wait.filter(|wait| !wait.is_zero()).map_or(Wait::No, Wait::AtMost),
        metadata: given(args.metadata).map(metadata).transpose()?.unwrap_or_default(),
    };
    let client = client(&args.client)?;
    answer(client.acquire(&args.name, &acquire), &args.output, print::grant)
}

pub(crate) fn renew(args: RenewArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, token(args.token)?);
    answer(client.renew(&args.name, &token, args.ttl), &args.output, print::renewed)
}

pub(crate) fn release(args: ReleaseArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, token(args.token)?);
    answer(client.release(&args.name, &token), &args.output, print::released)
}

pub(crate) fn get(args: GetArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.get(&args.name, consistency(&args.read)), &args.output, print::lock)
}

pub(crate) fn list(args: ListArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let page = Page { prefix: given(args.prefix), after: given(args.after), limit: args.limit };
    answer(client.list(&page, consistency(&args.read)), &args.output, print::list)
}

pub(crate) fn cluster_status(args: StatusArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.cluster(), &args.output, print::cluster)
}

/// Makes the call and prints what came of it.
fn answer<T>(
    call: impl Future<Output = Result<Answer<T>, CallError>>,
    how: &OutputArgs,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    match runtime::single_threaded()?.block_on(call) {
        Ok(answer) if how.json => output::bytes_and_newline(&answer.json),
        Ok(answer) => output::line(&text(&answer.value)),
        Err(error) => {
            if let (CallError::Refused(refusal), true) = (&error, how.json) {
                output::bytes_and_newline(&refusal.json)?;
            }
            Err(Failure::of_call(&error))
        }
    }
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

fn metadata(text: String) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("--metadata (HOLDFAST_METADATA) must be a JSON object: {error}"))
    })
}

fn consistency(read: &ReadArgs) -> Consistency {
    if read.stale { Consistency::Stale } else { Consistency::Linearizable }
}
