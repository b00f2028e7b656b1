//! Arguments of the commands that are about many locks at once.

use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{ClientArgs, OutputArgs};
use crate::duration;

#[derive(Debug, Args)]
pub(crate) struct AcquireManyArgs {
    /// The locks' names, 1 to 64
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// How long the leases last without renewal, 100ms to 24h; default 30s
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait until all of them are free; default: not at all
    #[arg(long, env = "HOLDFAST_WAIT", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// A public label, shown in listings; default `anonymous`
    #[arg(long, env = "HOLDFAST_OWNER", value_name = "LABEL")]
    pub(crate) owner: Option<String>,
    /// The secret of the attempt; default: a new random one. Under `holdfast lock` only the flag counts
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// All of them beside others that share them, instead of alone
    #[arg(long, env = "HOLDFAST_SHARED", value_parser = FalseyValueParser::new())]
    pub(crate) shared: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RenewManyArgs {
    /// Which of the locks; default: all that the token holds
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The secret of the holds; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A new TTL; default: those in force
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseManyArgs {
    /// Which of the locks; default: all that the token holds or waits for
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The secret of the attempt; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
