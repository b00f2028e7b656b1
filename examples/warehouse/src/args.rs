//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use stage::ClusterArgs;

use crate::retry::Retry;
use crate::stock::{Change, Event};
use crate::sync::Order;

/// The stock of a warehouse: workers are told to sync it, one at a time does.
#[derive(Debug, Parser)]
#[command(name = "warehouse", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be one worker that got the signal: sync, or retry later while another worker does
    #[command(after_help = "\
Exit status: 0 the event is in the stock, 1 something failed, 64 the command line is not valid,
69 the cluster cannot be reached, 75 the lock was busy at every retry")]
    Sync(SyncArgs),
    /// Show it with two workers that get the same event, which is then delivered once more
    Demo(ClusterArgs),
}

/// Flags of one worker.
#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// Base URLs of the nodes, separated by commas; all of them are tried
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub(crate) endpoints: Vec<String>,
    /// SQLite file with the stock
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The event's id: an event is applied once, however often it is delivered
    #[arg(long, value_name = "ID")]
    event: String,
    /// What the event changes, like bolts=40 or nuts=-3; may be repeated
    #[arg(long, value_name = "ITEM=DELTA")]
    change: Vec<Change>,
    /// Name of the lock
    #[arg(long, value_name = "NAME", default_value = "stock-sync:warehouse-42")]
    lock: String,
    /// How this worker is called where others see it [default: warehouse-PID]
    #[arg(long, value_name = "LABEL")]
    owner: Option<String>,
    /// How long the lease lasts without renewal
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// How often to ask again while another worker has the lock
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    /// The longest pause before a retry, whatever is left of the other worker's lease
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    retry_at_most: Duration,
    /// How long the work takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    work: Duration,
    /// Stop (SIGSTOP) before the write; SIGCONT goes on
    #[arg(long)]
    pause_in_work: bool,
}

impl SyncArgs {
    /// What the worker is to do, with everything that was left out filled in.
    pub(crate) fn into_order(self) -> Order {
        Order {
            event: Event { id: self.event, changes: self.change },
            db: self.db,
            lock: self.lock,
            owner: self.owner.unwrap_or_else(|| format!("warehouse-{}", std::process::id())),
            ttl: self.ttl,
            retry: Retry { most: self.retries, longest: self.retry_at_most },
            work: self.work,
            pauses_in_work: self.pause_in_work,
        }
    }
}
