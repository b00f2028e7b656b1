//! Arguments of `holdfast election`.

use clap::{Args, Subcommand};

use super::{ClientArgs, GetArgs, OutputArgs, ReleaseArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ElectionCommand {
    /// Show who leads, what it says, and who waits to lead
    Get(GetArgs),
    /// Change what the leader says
    Proclaim(ProclaimArgs),
    /// Give the lead up, or stop waiting for it
    Resign(ReleaseArgs),
    /// Give the lead to the first candidate of an owner, with nobody in between
    HandOver(HandOverArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProclaimArgs {
    /// The election's name
    pub(crate) name: String,
    /// What the leader says from now on, shown to everybody: any JSON of at most 1024 bytes
    #[arg(long, env = "HOLDFAST_VALUE", value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) value: String,
    /// The secret of the lead; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HandOverArgs {
    /// The election's name
    pub(crate) name: String,
    /// The label of the candidate that is to lead
    #[arg(long, env = "HOLDFAST_TO", value_name = "LABEL")]
    pub(crate) to: String,
    /// The secret of the lead; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
