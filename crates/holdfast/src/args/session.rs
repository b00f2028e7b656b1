//! Arguments of `holdfast session`.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_client::api::LIST_LIMIT_MAX;

use super::{ClientArgs, OutputArgs, ReadArgs};
use crate::duration;
use crate::exit::STATUSES_HELP;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Open a session and print its id and token
    #[command(after_help = STATUSES_HELP)]
    Open(OpenSessionArgs),
    /// Renew a session, and with it everything that it holds
    #[command(after_help = STATUSES_HELP)]
    Renew(KnownSessionArgs),
    /// End a session: free everything that it holds, give up everything that it waits for
    #[command(after_help = STATUSES_HELP)]
    End(KnownSessionArgs),
    /// Show a session, what it holds and what it waits for
    #[command(after_help = STATUSES_HELP)]
    Get(GetSessionArgs),
    /// List the sessions that live
    #[command(after_help = STATUSES_HELP)]
    List(ListSessionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpenSessionArgs {
    /// How long the session lives without renewal, 100ms to 24h; default 30s
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    /// A public label, shown in listings; default `anonymous`
    #[arg(long, env = "HOLDFAST_OWNER", value_name = "LABEL")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) token: SessionTokenArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// The secret of a session.
#[derive(Debug, Args)]
pub(crate) struct SessionTokenArgs {
    /// The secret of the session; a new session makes one where it is left out. In the environment it does not show in `ps`
    #[arg(
        long,
        visible_alias = "token",
        env = "HOLDFAST_SESSION_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub(crate) session_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KnownSessionArgs {
    /// The session's id
    #[arg(env = "HOLDFAST_SESSION")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) token: SessionTokenArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetSessionArgs {
    /// The session's id
    #[arg(env = "HOLDFAST_SESSION")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListSessionsArgs {
    /// Only sessions behind this one
    #[arg(long, env = "HOLDFAST_AFTER", value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Most sessions to list, 1 to 1000; default 100
    #[arg(long, env = "HOLDFAST_LIMIT", value_name = "N", value_parser = parse_list_limit)]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

pub(super) fn parse_list_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LIST_LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| format!("must be a whole number between 1 and {LIST_LIMIT_MAX}, got {text}"))
}
