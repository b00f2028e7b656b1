//! What a node says of itself when it greets another.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::limits::SOFTWARE_LEN_MAX;
use crate::world::NodeId;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster it belongs to; none before it has formed or joined one.
    pub cluster: Option<u128>,
    /// Its id within the cluster.
    pub node: NodeId,
    /// The random id of its data folder: another one under the same node id is another disk.
    pub storage: u128,
    /// How often that folder has been opened.
    pub boot: u64,
    /// Version of its software, for people.
    pub software: String,
}

/// A node belongs to one cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node belongs to cluster {0:032x} already")]
pub struct OtherClusterFormed(pub u128);

/// Who this node is. Shared by the calling and the answering side.
#[derive(Debug)]
pub struct PeerIdentity {
    node: NodeId,
    storage: u128,
    boot: u64,
    software: String,
    cluster: watch::Sender<Option<u128>>,
    connections: AtomicU64,
}

impl PeerIdentity {
    /// A software version over [`SOFTWARE_LEN_MAX`] bytes is cut.
    pub fn new(node: NodeId, storage: u128, boot: u64, software: &str, cluster: Option<u128>) -> Self {
        let software = software[..software.floor_char_boundary(SOFTWARE_LEN_MAX)].to_owned();
        let cluster = watch::Sender::new(cluster);
        Self { node, storage, boot, software, cluster, connections: AtomicU64::new(0) }
    }

    /// This node's id.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Sets the cluster that this node has formed or joined.
    ///
    /// Connections that were greeted without one are closed and made anew, but for those to peers that had named
    /// this very cluster.
    pub fn set_cluster(&self, cluster: u128) -> Result<(), OtherClusterFormed> {
        self.cluster.send_if_modified(|current| {
            let first = current.is_none();
            *current = Some(current.unwrap_or(cluster));
            first
        });
        match *self.cluster.borrow() {
            Some(other) if other != cluster => Err(OtherClusterFormed(other)),
            _ => Ok(()),
        }
    }

    /// What this node says of itself now.
    pub fn hello(&self) -> Hello {
        Hello {
            cluster: *self.cluster.borrow(),
            node: self.node,
            storage: self.storage,
            boot: self.boot,
            software: self.software.clone(),
        }
    }

    /// Numbers the connections that this node opens, so that a listener can tell an older one from a newer one.
    pub(super) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns once a connection that was greeted as `said` must be greeted again, since this node has become part
    /// of a cluster that the peer, who named `theirs`, may not belong to.
    pub(super) async fn outgrows(&self, said: Option<u128>, theirs: Option<u128>) {
        let mut cluster = self.cluster.subscribe();
        let formed = cluster.wait_for(Option::is_some).await.map(|cluster| *cluster);
        let is_stranger = said.is_none() && formed.is_ok_and(|formed| formed != theirs);
        if !is_stranger {
            std::future::pending().await
        }
    }
}
