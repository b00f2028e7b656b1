//! `holdfast election`: the calls of an election from a shell.

use serde_json::Value;

use crate::api::{answer, client, consistency, required_token};
use crate::args::{ElectionCommand, GetArgs, HandOverArgs, ProclaimArgs, ReleaseArgs};
use crate::exit::Failure;
use crate::print;

pub(crate) fn run(command: ElectionCommand) -> Result<(), Failure> {
    match command {
        ElectionCommand::Get(args) => get(&args),
        ElectionCommand::Proclaim(args) => proclaim(args),
        ElectionCommand::Resign(args) => resign(args),
        ElectionCommand::HandOver(args) => hand_over(args),
    }
}

fn get(args: &GetArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.get_election(&args.name, consistency(&args.read)), &args.output, print::election)
}

fn proclaim(args: ProclaimArgs) -> Result<(), Failure> {
    let (client, token, value) = (client(&args.client)?, required_token(args.token)?, value(&args.value)?);
    answer(client.proclaim(&args.name, &token, &value), &args.output, print::proclaimed)
}

fn resign(args: ReleaseArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    answer(client.resign(&args.name, &token), &args.output, print::resigned)
}

fn hand_over(args: HandOverArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    answer(client.hand_over(&args.name, &token, &args.to), &args.output, print::handed_over)
}

/// What a leader says.
pub(crate) fn value(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| {
        Failure::usage(r#"--value (HOLDFAST_VALUE) must be JSON like {"url": "http://node-1"} or "node-1""#)
    })
}
