//! Arguments of the commands that watch, look back, and intervene.

use clap::Args;

use super::session::parse_list_limit;
use super::{ClientArgs, OutputArgs};

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Only locks whose names begin so
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Go on after this event number, a `seq` of another answer; default: what happens from now on
    #[arg(long, env = "HOLDFAST_SINCE", value_name = "SEQ")]
    pub(crate) since: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttemptArgs {
    /// The lock's name
    pub(crate) name: String,
    /// The secret of the attempt; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckFenceArgs {
    /// The lock's name
    pub(crate) name: String,
    /// The fence
    pub(crate) fence: u64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Who intervenes, and why.
#[derive(Debug, Args)]
pub(crate) struct InterventionArgs {
    /// Why, for those who watch or read the history
    #[arg(long, env = "HOLDFAST_REASON", value_name = "TEXT")]
    pub(crate) reason: String,
    /// Who, for those who watch or read the history; default: this user and host
    #[arg(long, env = "HOLDFAST_BY", value_name = "LABEL")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ForceReleaseArgs {
    /// The lock's name
    pub(crate) name: String,
    /// Of the hold that is to end, as `holdfast get` shows it; no other one is ended
    #[arg(long, env = "HOLDFAST_FENCE", value_name = "N")]
    pub(crate) fence: u64,
    #[command(flatten)]
    pub(crate) intervention: InterventionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ForceLeaveArgs {
    /// The lock's name
    pub(crate) name: String,
    /// The label of those who are to wait no more
    #[arg(long, env = "HOLDFAST_OWNER", value_name = "LABEL")]
    pub(crate) owner: String,
    #[command(flatten)]
    pub(crate) intervention: InterventionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The lock's name
    pub(crate) name: String,
    /// Most holds to list, 1 to 1000; default 100
    #[arg(long, env = "HOLDFAST_LIMIT", value_name = "N", value_parser = parse_list_limit)]
    pub(crate) limit: Option<usize>,
    /// Only holds whose fence is below this one
    #[arg(long, env = "HOLDFAST_BEFORE", value_name = "FENCE")]
    pub(crate) before: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The lock's name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
