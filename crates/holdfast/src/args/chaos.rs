//! Arguments of `holdfast chaos`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

const AFTER_HELP: &str = "\
The clients take locks, wait, renew, read, release, hang up, and ask again elsewhere with the same token, through every
endpoint, and write down what they were told (docs/history-format.md). Half of the locks are held alone; the others in
turn by readers and writers, and by permits, whose limit is changed now and then. What happens to the cluster meanwhile is
up to you. `holdfast check FILE` has the verdict.

With --marks, each line of standard input becomes a mark of the history: `fault TEXT` when something is about to be done
to the cluster, `healthy TEXT` when nothing is any more and a leader serves, `note TEXT` for people.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ChaosArgs {
    /// Base URLs of the nodes, separated by commas; not a proxy in front of several
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7101"
    )]
    pub(crate) endpoints: Vec<String>,
    /// The file to write; one that is there is overwritten
    #[arg(long, env = "HOLDFAST_HISTORY", value_name = "FILE")]
    pub(crate) history: PathBuf,
    /// How long to go on; SIGINT or SIGTERM end it earlier
    #[arg(long, env = "HOLDFAST_SECONDS", value_name = "N", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// How many clients
    #[arg(long, env = "HOLDFAST_CLIENTS", value_name = "N", default_value_t = 12)]
    pub(crate) clients: u64,
    /// How many locks they share
    #[arg(long, env = "HOLDFAST_LOCKS", value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) locks: u64,
    /// What the clients choose at random is chosen by this
    #[arg(long, env = "HOLDFAST_SEED", value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Make marks of the lines of standard input
    #[arg(long, env = "HOLDFAST_MARKS", value_parser = FalseyValueParser::new())]
    pub(crate) marks: bool,
}
