//! What the calling and the answering side of one node share.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::broadcast;

use super::identity::{Hello, PeerIdentity};
use super::limits::DISCONNECTS_MAX;
use super::refusal::{PeerDirectory, Refusal, RefusalReason};
use super::stats::{LaneStats, PeerStats};
use super::throttle::Throttle;
use crate::world::{NodeId, PeerLane};

/// One node's part in the network between the nodes. Clones share everything.
#[derive(Clone)]
pub struct Peering {
    pub(super) identity: Arc<PeerIdentity>,
    pub(super) directory: Arc<dyn PeerDirectory>,
    pub(super) stats: Arc<PeerStats>,
    disconnects: broadcast::Sender<NodeId>,
    throttle: Arc<Mutex<Throttle>>,
}

impl Peering {
    /// A node that is `identity` and trusts whom `directory` admits.
    pub fn new(identity: Arc<PeerIdentity>, directory: Arc<dyn PeerDirectory>) -> Self {
        Self {
            identity,
            directory,
            stats: Arc::default(),
            disconnects: broadcast::Sender::new(DISCONNECTS_MAX),
            throttle: Arc::default(),
        }
    }

    /// What both sides have counted.
    pub fn stats(&self) -> Arc<PeerStats> {
        self.stats.clone()
    }

    /// Peers whose connection, opened by either side, has just ended without this node's doing, or whose port
    /// refuses connections.
    ///
    /// A hint that the peer's process is gone, not a proof: it may only have lost one connection. A dead peer is
    /// named again with each attempt to reach it.
    pub fn disconnects(&self) -> broadcast::Receiver<NodeId> {
        self.disconnects.subscribe()
    }

    pub(super) fn lost(&self, node: NodeId) {
        // Without a subscriber nobody wants to know.
        let _ = self.disconnects.send(node);
    }

    pub(super) fn lane_stats(&self, lane: PeerLane) -> &LaneStats {
        self.stats.lane(lane)
    }

    /// Whether two nodes that say this of themselves may talk, whichever side has opened the connection.
    pub(super) fn admit(&self, ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
        if theirs.node == ours.node {
            return Err(same_id(ours, theirs));
        }
        if let (Some(our_cluster), Some(their_cluster)) = (ours.cluster, theirs.cluster)
            && our_cluster != their_cluster
        {
            let text = format!(
                "node {} belongs to cluster {their_cluster:032x}, node {} to {our_cluster:032x}",
                theirs.node, ours.node
            );
            return Err(Refusal::new(RefusalReason::OtherCluster, text));
        }
        self.directory.check(theirs)
    }

    /// Counts a refusal and logs it.
    pub(super) fn refuse(&self, source: impl Display, refusal: &Refusal) {
        self.stats.refused(refusal.reason);
        self.complain(source, refusal.reason.name(), &refusal.text);
    }

    /// Logs a complaint about a peer or a stranger, unless the same was logged within the last minute.
    pub(super) fn complain(&self, source: impl Display, complaint: &'static str, text: impl Display) {
        let source = source.to_string();
        let mut throttle = self.throttle.lock().expect("nothing panics with this lock held");
        if throttle.admits(source.clone(), complaint, Instant::now()) {
            tracing::warn!(peer = source, reason = complaint, "peer connection: {text}");
        }
    }
}

fn same_id(ours: &Hello, theirs: &Hello) -> Refusal {
    if theirs.storage == ours.storage {
        return Refusal::new(RefusalReason::Itself, format!("node {} has reached itself", ours.node));
    }
    let text = format!("another data folder ({:032x}) uses this node's id {}", theirs.storage, ours.node);
    Refusal::new(RefusalReason::OtherStorage, text)
}
