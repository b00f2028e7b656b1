//! The commands that are one call each about many locks.

use clap::ArgMatches;
use holdfast_client::{Acquire, Share, Wait};

use crate::api::{answer, client, given, own_token, required_token};
use crate::args::{AcquireManyArgs, ReleaseManyArgs, RenewManyArgs};
use crate::exit::Failure;
use crate::print;

pub(crate) fn acquire(args: AcquireManyArgs, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    let acquire = Acquire {
        terms: holdfast_client::Terms::default(),
        owner: given(args.owner),
        token: own_token(args.token, matches)?,
        ttl: args.ttl,
        wait: args.wait.filter(|wait| !wait.is_zero()).map_or(Wait::No, Wait::AtMost),
        ..Acquire::default()
    };
    let share = if args.shared { Share::Shared } else { Share::Exclusive };
    let locks: Vec<_> = args.names.iter().map(|name| (name.as_str(), share)).collect();
    answer(client(&args.client)?.acquire_many(&locks, &acquire), &args.output, print::grant_many)
}

pub(crate) fn renew(args: RenewManyArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    let named = named(&args.names);
    answer(client.renew_many(&token, named.as_deref(), args.ttl), &args.output, print::renewed_many)
}

pub(crate) fn release(args: ReleaseManyArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    let named = named(&args.names);
    answer(client.release_many(&token, named.as_deref()), &args.output, print::released_many)
}

fn named(names: &[String]) -> Option<Vec<&str>> {
    (!names.is_empty()).then(|| names.iter().map(String::as_str).collect())
}
