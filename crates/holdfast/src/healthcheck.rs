//! `holdfast healthcheck`: for containers, which have no curl.

use std::time::Duration;

use crate::args::HealthcheckArgs;
use crate::exit::Failure;
use crate::runtime;

const TIMEOUT: Duration = Duration::from_secs(3);

/// Succeeds if the URL is answered with status 200 in time.
pub(crate) fn run(args: &HealthcheckArgs) -> Result<(), Failure> {
    let status = runtime::single_threaded()?.block_on(holdfast_client::status_of(&args.url, TIMEOUT));
    match status {
        Ok(200) => Ok(()),
        Ok(status) => Err(Failure::other(format!("{} is answered with status {status}", args.url))),
        Err(why) => Err(Failure::other(format!("{} is not answered: {why}", args.url))),
    }
}
