//! The command line.

use clap::{Parser, ValueEnum};
use holdfast_bench::{Placement, Workload};

/// Holdfast and etcd under the same load, in turns
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Base URLs of the Holdfast nodes, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) holdfast: Vec<String>,
    /// Client URLs of the etcd members, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) etcd: Vec<String>,
    /// Which nodes the clients of either talk to
    #[arg(long, value_enum, default_value = "leader")]
    pub(crate) placement: PlacementArg,
    /// How many clients; `single` has one
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: usize,
    /// How long each repetition is measured, in seconds
    #[arg(long, default_value_t = 4)]
    pub(crate) seconds: u64,
    /// How long each repetition runs before it is measured, in seconds
    #[arg(long, default_value_t = 1)]
    pub(crate) warm_up_seconds: u64,
    /// How often each workload is measured for each contestant
    #[arg(long, default_value_t = 7)]
    pub(crate) repetitions: usize,
    /// Workloads, separated by commas: single, pairs, hot, renew [default: all]
    #[arg(long, value_delimiter = ',', value_parser = workload)]
    pub(crate) workloads: Vec<Workload>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which nodes clients talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementArg {
    /// The leader only
    Leader,
    /// All nodes, in turn
    All,
}

impl From<PlacementArg> for Placement {
    fn from(placement: PlacementArg) -> Self {
        match placement {
            PlacementArg::Leader => Self::Leader,
            PlacementArg::All => Self::All,
        }
    }
}

fn workload(text: &str) -> Result<Workload, String> {
    let found = Workload::ALL.into_iter().find(|workload| workload.name() == text);
    found.ok_or_else(|| "must be single, pairs, hot or renew".into())
}
