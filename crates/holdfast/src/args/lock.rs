//! Arguments of `holdfast lock` and `holdfast elect`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{ClientArgs, ShareArgs, TermsArgs};
use crate::duration;

const AFTER_HELP: &str = "\
CMD gets HOLDFAST_LOCK, HOLDFAST_FENCE, HOLDFAST_TOKEN and HOLDFAST_OWNER in its environment, and HOLDFAST_LOCK_2,
HOLDFAST_FENCE_2 and so on for the locks that --also names. It is run as given,
without a shell, in a process group of its own. If the lock is lost, the group is told to stop and killed before
anybody else can hold the lock.

Exit status: CMD's own (128+n if signal n ended it, 126 if it cannot be run, 127 if there is no such command), or
  64  the command line or the request is not valid
  69  the cluster cannot be reached or has no leader
  75  the lock is busy (--no-wait), or the wait for it is over or would close a cycle of waits; CMD was not run
  76  the lock was lost; CMD was stopped, or not run
  128+n  signal n came while waiting for the lock; CMD was not run";

/// Arguments of `holdfast lock`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, override_usage = "holdfast lock [OPTIONS] <NAME> -- <CMD> [ARG]...")]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Another lock, as often as it is given: CMD runs while all of them are held, or not at all. In the environment: one
    /// name a line
    #[arg(
        long,
        env = "HOLDFAST_ALSO",
        value_name = "NAME",
        value_delimiter = '\n',
        conflicts_with_all = ["share_limit", "delay", "min_hold", "max_hold", "once"]
    )]
    pub(crate) also: Vec<String>,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
    /// With --once: the exit status if it was done already; CMD is not run then [default: 0]
    #[arg(long, env = "HOLDFAST_ONCE_EXIT", value_name = "N")]
    pub(crate) once_exit: Option<u8>,
}

/// Arguments of `holdfast elect`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, override_usage = "holdfast elect [OPTIONS] <NAME> -- <CMD> [ARG]...")]
pub(crate) struct ElectArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// What the leader says, shown to everybody: any JSON of at most 1024 bytes [default: null]
    #[arg(long, env = "HOLDFAST_VALUE", value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) value: Option<String>,
}

/// A command, and the hold that it runs under.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The name of the lock, which is the election's too
    pub(crate) name: String,
    /// How long the lease lasts without renewal, 100ms to 24h; it is renewed every third of it
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", default_value = "60s", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Duration,
    /// How long to wait if the lock is busy [default: until it is free]
    #[arg(long, env = "HOLDFAST_WAIT", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: exit with 75 if the lock is busy
    #[arg(long, env = "HOLDFAST_NO_WAIT", value_parser = FalseyValueParser::new())]
    pub(crate) no_wait: bool,
    /// A public label, shown in listings [default: HOST:PID]
    #[arg(long, env = "HOLDFAST_OWNER", value_name = "LABEL")]
    pub(crate) owner: Option<String>,
    /// How long CMD's group may take to end after a signal was passed on, or after CMD ended, before it is killed
    #[arg(long, env = "HOLDFAST_KILL_AFTER", value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) kill_after: Duration,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
