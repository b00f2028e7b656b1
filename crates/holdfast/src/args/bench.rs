//! Arguments of `holdfast bench`.

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use holdfast_bench::Workload;

const AFTER_HELP: &str = "\
Workloads (closed loop: each client sends its next request when the last one was answered):
  single  one client acquires and releases a lock of its own
  pairs   so do all clients, each on its own lock
  hot     all clients wait for the same lock; each holder gives it back at once
  renew   each client holds a lock of its own and renews it
  memory  all clients acquire --locks locks, which stay held for an hour, and --pids are weighed

Without WORKLOAD: single, pairs, hot and renew. Shown are medians of the repetitions; latencies are those of
acquires. Progress goes to stderr.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    /// What to measure
    #[arg(value_enum)]
    pub(crate) workload: Vec<BenchWorkload>,
    /// Base URLs of the nodes, separated by commas; the clients are spread over all of them
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub(crate) endpoints: Vec<String>,
    /// Talk to the leader only, which the endpoints are asked for
    #[arg(long, env = "HOLDFAST_LEADER", value_parser = FalseyValueParser::new())]
    pub(crate) leader: bool,
    /// How many clients, each with a connection of its own
    #[arg(long, env = "HOLDFAST_CLIENTS", value_name = "N", default_value_t = 64, value_parser = positive)]
    pub(crate) clients: usize,
    /// How long each repetition is measured
    #[arg(long, env = "HOLDFAST_SECONDS", value_name = "N", default_value_t = 5, value_parser = positive)]
    pub(crate) seconds: usize,
    /// How long each repetition runs before it is measured
    #[arg(long, env = "HOLDFAST_WARM_UP_SECONDS", value_name = "N", default_value_t = 1)]
    pub(crate) warm_up_seconds: usize,
    /// How often each workload is measured
    #[arg(long, env = "HOLDFAST_REPETITIONS", value_name = "N", default_value_t = 3, value_parser = positive)]
    pub(crate) repetitions: usize,
    /// For memory: how many locks
    #[arg(long, env = "HOLDFAST_LOCKS", value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub(crate) locks: usize,
    /// For memory: the nodes' processes, on this machine
    #[arg(long, env = "HOLDFAST_PIDS", value_name = "PID,PID,…", value_delimiter = ',')]
    pub(crate) pids: Vec<u32>,
    /// Print one JSON object a workload instead of a table
    #[arg(long, env = "HOLDFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchWorkload {
    Single,
    Pairs,
    Hot,
    Renew,
    Memory,
}

impl BenchWorkload {
    /// None for the one that is not a loop.
    pub(crate) fn in_a_loop(self) -> Option<Workload> {
        match self {
            Self::Single => Some(Workload::Single),
            Self::Pairs => Some(Workload::Pairs),
            Self::Hot => Some(Workload::Hot),
            Self::Renew => Some(Workload::Renew),
            Self::Memory => None,
        }
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a whole number from 1".into()),
        Ok(number) => Ok(number),
    }
}
