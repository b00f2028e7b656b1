//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use stage::ClusterArgs;

use crate::worker::Post;

/// Of several workers, one leads; when it is gone, another one does.
#[derive(Debug, Parser)]
#[command(name = "leader", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be one worker: wait for the lead, lead until it is lost, wait again; SIGTERM ends it
    #[command(after_help = "\
Exit status: 0 it was asked to stop, 1 something failed, 64 the command line is not valid,
69 the cluster cannot be reached")]
    Work(WorkArgs),
    /// Show it with three workers: the one that leads is killed, twice, and then one is asked to stop
    Demo(DemoArgs),
}

/// Flags of one worker.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Base URLs of the nodes, separated by commas; all of them are tried
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub(crate) endpoints: Vec<String>,
    /// SQLite file with the decisions of all leaders
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Name of the election
    #[arg(long, value_name = "NAME", default_value = "leader:dispatch")]
    election: String,
    /// How this worker is called where others see it [default: worker-PID]
    #[arg(long, value_name = "LABEL")]
    owner: Option<String>,
    /// How long a leader stays the leader without a sign of life
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// How often the leader decides something
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = humantime::parse_duration)]
    decide_every: Duration,
}

/// Flags of the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How long a leader stays the leader without a sign of life
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
}

impl WorkArgs {
    /// The worker's post, with everything that was left out filled in.
    pub(crate) fn into_post(self) -> Post {
        Post {
            election: self.election,
            owner: self.owner.unwrap_or_else(|| format!("worker-{}", std::process::id())),
            ttl: self.ttl,
            db: self.db,
            decide_every: self.decide_every,
        }
    }
}
