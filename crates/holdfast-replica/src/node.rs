//! A replica in the real world: tokio, a folder, TCP.

use std::path::PathBuf;

use crate::replica::Replica;
use crate::world::NodeId;

/// A replica on tokio.
pub type NodeReplica = Replica<openraft_rt_tokio::TokioRuntime>;

/// How quickly a cluster notices that its leader has gone, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat_ms: u64,
    /// Shortest silence after which a follower asks for votes.
    pub election_min_ms: u64,
    /// Longest.
    pub election_max_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 60, election_min_ms: 300, election_max_ms: 600 }
    }
}

/// What a node needs to start.
#[derive(Debug)]
pub struct NodeOptions {
    /// Its id within the cluster.
    pub node_id: NodeId,
    /// Its folder; made if it is not there.
    pub data_dir: PathBuf,
    /// Bound already.
    pub peer_listener: std::net::TcpListener,
    /// `HOST:PORT` that peers reach it by.
    pub peer_addr: String,
    /// Base URL that clients reach it by.
    pub client_url: String,
    /// The first members, by id with `HOST:PORT` for peers; empty: a cluster of one. Ignored with existing data.
    pub initial_cluster: Vec<(NodeId, String)>,
    /// How quickly a lost leader is noticed.
    pub timing: Timing,
    /// Version of the program.
    pub version: String,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The options contradict each other or the folder.
    #[error("{0}")]
    Refused(String),
    /// The folder cannot be used.
    #[error("{0}")]
    Folder(String),
    /// The folder is damaged: names the file and what to do.
    #[error("{0}")]
    Damaged(String),
}

/// Starts a node.
pub async fn open(options: NodeOptions) -> Result<NodeReplica, OpenError> {
    unimplemented!("{options:?}")
}
