//! Arguments of the commands that run nodes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

/// All of it may also stand in the configuration file, with underscores instead of dashes.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A TOML file with any of these options; flags and environment go before it
    #[arg(long, env = "HOLDFAST_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The node's number within the cluster, from 1
    #[arg(long, env = "HOLDFAST_NODE_ID", value_name = "N")]
    pub(crate) node_id: Option<u64>,
    /// HOST:PORT to serve clients on [default: 127.0.0.1:7101]
    #[arg(long, env = "HOLDFAST_LISTEN", value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// HOST:PORT to serve peers on [default: 127.0.0.1:7201]
    #[arg(long, env = "HOLDFAST_PEER_LISTEN", value_name = "ADDR")]
    pub(crate) peer_listen: Option<String>,
    /// Base URL that clients reach the node by, if it differs from --listen
    #[arg(long, env = "HOLDFAST_ADVERTISE", value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// HOST:PORT that peers reach the node by, if it differs from --peer-listen
    #[arg(long, env = "HOLDFAST_PEER_ADVERTISE", value_name = "HOST:PORT")]
    pub(crate) peer_advertise: Option<String>,
    /// The node's own folder
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The first members, the same on each of them: 1=HOST:PEERPORT,2=HOST:PEERPORT,…
    #[arg(long, env = "HOLDFAST_INITIAL_CLUSTER", value_name = "LIST")]
    pub(crate) initial_cluster: Option<String>,
    /// Join the cluster that these are members of: base URLs, separated by commas. Ignored with existing data
    #[arg(long, env = "HOLDFAST_JOIN", value_name = "URL,URL,…")]
    pub(crate) join: Option<String>,
    /// Stay a learner: have all the data and no vote
    #[arg(long, env = "HOLDFAST_LEARNER", value_parser = FalseyValueParser::new())]
    pub(crate) learner: bool,
    /// How often a leader is heard of
    #[arg(long, env = "HOLDFAST_HEARTBEAT_INTERVAL", value_name = "DURATION")]
    pub(crate) heartbeat_interval: Option<String>,
    /// The shortest silence of a leader after which an election is called
    #[arg(long, env = "HOLDFAST_ELECTION_TIMEOUT", value_name = "DURATION")]
    pub(crate) election_timeout: Option<String>,
    /// The longest such silence [default: twice the shortest]
    #[arg(long, env = "HOLDFAST_ELECTION_TIMEOUT_MAX", value_name = "DURATION")]
    pub(crate) election_timeout_max: Option<String>,
    /// Prefixes of lock names, each of which is a group of its own in the metrics: jobs/,invoices/,…
    #[arg(long, env = "HOLDFAST_METRICS_PREFIXES", value_name = "LIST")]
    pub(crate) metrics_prefixes: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// How many nodes
    #[arg(long, env = "HOLDFAST_NODES", value_name = "N", default_value_t = 3)]
    pub(crate) nodes: u16,
    /// Client port of the first node; the others follow, peer ports are 100 above. 0 takes free ports
    #[arg(long, env = "HOLDFAST_BASE_PORT", value_name = "PORT", default_value_t = 7101)]
    pub(crate) base_port: u16,
    /// Where the nodes keep their data [default: a temporary folder, removed at the end]
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Prefixes of lock names, each of which is a group of its own in the metrics: jobs/,invoices/,…
    #[arg(long, env = "HOLDFAST_METRICS_PREFIXES", value_name = "LIST")]
    pub(crate) metrics_prefixes: Option<String>,
}
