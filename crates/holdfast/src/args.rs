//! The command line. Every flag has an environment variable `HOLDFAST_<FLAG>`.

mod api;
mod bench;
mod chaos;
mod check;
mod election;
mod lock;
mod many;
mod node;
mod session;
mod steering;

use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand};

pub(crate) use self::api::{
    AcquireArgs, ClusterCommand, GetArgs, HealthcheckArgs, LimitArgs, ListArgs, ReadArgs, ReleaseArgs,
    RemoveMemberArgs, RenewArgs, ShareArgs, StatusArgs, TermsArgs, TransferArgs,
};
pub(crate) use self::bench::{BenchArgs, BenchWorkload};
pub(crate) use self::chaos::ChaosArgs;
pub(crate) use self::check::CheckArgs;
pub(crate) use self::election::{ElectionCommand, HandOverArgs, ProclaimArgs};
pub(crate) use self::lock::{ElectArgs, LockArgs, RunArgs};
pub(crate) use self::many::{AcquireManyArgs, ReleaseManyArgs, RenewManyArgs};
pub(crate) use self::node::{DevArgs, ServeArgs};
pub(crate) use self::session::{
    GetSessionArgs, KnownSessionArgs, ListSessionsArgs, OpenSessionArgs, SessionCommand, SessionTokenArgs,
};
pub(crate) use self::steering::{
    AttemptArgs, CheckFenceArgs, ForceLeaveArgs, ForceReleaseArgs, HistoryArgs, InterventionArgs, WatchArgs,
    WhyArgs,
};
use crate::duration;
use crate::exit::STATUSES_HELP;

/// A replicated lock service: leases with fencing tokens, over HTTP.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, subcommand_required = true, after_help = STATUSES_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What goes to stderr.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogArgs {
    /// `text` or `json`
    #[arg(long, global = true, env = "HOLDFAST_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// A level (error, warn, info, debug, trace), or a filter per module
    #[arg(long, global = true, env = "HOLDFAST_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node
    Serve(ServeArgs),
    /// Run a whole cluster in this process, on loopback, for development
    Dev(DevArgs),
    /// Run a command while holding a lock
    Lock(LockArgs),
    /// Run a command while leading: once the election is won
    Elect(ElectArgs),
    /// Look at an election, or lead in it
    #[command(subcommand, after_help = STATUSES_HELP)]
    Election(ElectionCommand),
    /// Acquire a lock and print its token and fence
    #[command(after_help = STATUSES_HELP)]
    Acquire(AcquireArgs),
    /// Renew a lease
    #[command(after_help = STATUSES_HELP)]
    Renew(RenewArgs),
    /// Release a lock, or leave its queue
    #[command(after_help = STATUSES_HELP)]
    Release(ReleaseArgs),
    /// Acquire many locks, all or none, and print their token and fences
    #[command(after_help = STATUSES_HELP)]
    AcquireMany(AcquireManyArgs),
    /// Renew the leases of many locks
    #[command(after_help = STATUSES_HELP)]
    RenewMany(RenewManyArgs),
    /// Release many locks, or leave their queues
    #[command(after_help = STATUSES_HELP)]
    ReleaseMany(ReleaseManyArgs),
    /// Show a lock, its holder and its queue
    #[command(after_help = STATUSES_HELP)]
    Get(GetArgs),
    /// Change how many permits a lock has, while anybody holds some or waits for some
    #[command(after_help = STATUSES_HELP)]
    Limit(LimitArgs),
    /// List the locks that somebody holds or waits for
    #[command(after_help = STATUSES_HELP)]
    List(ListArgs),
    /// Print what happens to locks, as it happens
    #[command(after_help = STATUSES_HELP)]
    Watch(WatchArgs),
    /// Explain what keeps a lock from whoever asks for it now
    #[command(after_help = STATUSES_HELP)]
    Why(WhyArgs),
    /// List the holds of the past of a lock
    #[command(after_help = STATUSES_HELP)]
    History(HistoryArgs),
    /// Tell what became of an attempt, for whoever has lost an answer
    #[command(after_help = STATUSES_HELP)]
    Attempt(AttemptArgs),
    /// Exit with 0 if a fence is that of a hold in force, with 76 otherwise
    #[command(after_help = STATUSES_HELP)]
    CheckFence(CheckFenceArgs),
    /// End a hold, whoever has it
    #[command(after_help = STATUSES_HELP)]
    ForceRelease(ForceReleaseArgs),
    /// Take all attempts of an owner out of a queue
    #[command(after_help = STATUSES_HELP)]
    ForceLeave(ForceLeaveArgs),
    /// Keep many locks with one renewal
    #[command(subcommand)]
    Session(SessionCommand),
    /// Look at the cluster, or change it
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Measure how fast a cluster is
    Bench(BenchArgs),
    /// Use a cluster as badly as clients may, and write down what they were told
    Chaos(ChaosArgs),
    /// Check what clients were told against what is promised
    Check(CheckArgs),
    /// Exit with 0 if a URL is answered with status 200 within 3 s, with 1 otherwise
    Healthcheck(HealthcheckArgs),
    /// Print the version
    Version,
}

/// Which cluster, and how patiently.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientArgs {
    /// Base URLs of the nodes, separated by commas; all of them are tried
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub(crate) endpoints: Vec<String>,
    /// How long to go on trying while no node gives a usable answer
    #[arg(long, env = "HOLDFAST_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
}

/// How an answer is printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print the API's JSON answer unchanged; a refusal too
    #[arg(long, env = "HOLDFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}
