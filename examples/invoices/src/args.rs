//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use stage::ClusterArgs;

use crate::job::Job;
use crate::month::Month;

/// The nightly invoices: of all instances that start, one runs.
#[derive(Debug, Parser)]
#[command(name = "invoices", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Be one instance: run, or skip the run if another instance holds the lock (both exit with 0)
    #[command(after_help = "\
Exit status: 0 it ran or skipped, 1 something failed, 64 the command line is not valid,
69 the cluster cannot be reached, 76 the lock was lost or its fence refused")]
    RunOnce(RunArgs),
    /// Show it with two instances: one runs and one skips; then one is paused beyond its lease
    Demo(DemoArgs),
}

/// Flags of one instance.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Base URLs of the nodes, separated by commas; all of them are tried
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub endpoints: Vec<String>,
    /// Where the invoices are kept: an SQLite file, or a postgres:// URL
    #[arg(long, value_name = "FILE|URL")]
    pub db: String,
    /// The month to invoice [default: this month, UTC]
    #[arg(long, value_name = "YYYY-MM")]
    pub month: Option<Month>,
    /// Name of the lock [default: nightly-invoices:MONTH]
    #[arg(long, value_name = "NAME")]
    pub lock: Option<String>,
    /// How this instance is called where others see it [default: invoices-PID]
    #[arg(long, value_name = "LABEL")]
    pub owner: Option<String>,
    /// How long the lease lasts without renewal; it is renewed every third of it
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    pub ttl: Duration,
    /// How many customers there are; those missing are added
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub customers: u32,
    /// How long the work on one invoice takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub work: Duration,
    /// Stop (SIGSTOP) between the last look at the lock and the write of this customer's invoice; SIGCONT goes on
    #[arg(long, value_name = "K")]
    pub pause_at_customer: Option<u32>,
}

/// Flags of the demo.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where the invoices are kept: an SQLite file, or a postgres:// URL [default: a temporary SQLite file]
    #[arg(long, value_name = "FILE|URL")]
    pub db: Option<String>,
}

impl RunArgs {
    /// What the instance is to do, with everything that was left out filled in.
    pub fn into_job(self) -> Job {
        let month = self.month.unwrap_or_else(Month::current);
        Job {
            lock: self.lock.unwrap_or_else(|| format!("nightly-invoices:{month}")),
            owner: self.owner.unwrap_or_else(|| format!("invoices-{}", std::process::id())),
            ttl: self.ttl,
            month,
            db: self.db,
            customers: self.customers,
            work: self.work,
            pause_at_customer: self.pause_at_customer,
        }
    }
}
