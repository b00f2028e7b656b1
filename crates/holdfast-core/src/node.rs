//! What the rules know of nodes: which folder each one uses, and whether those who wait at it are there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Home, NodeId, StorageId};
use crate::time::ClusterTime;

/// How long a node's word for its waiters holds, in milliseconds.
pub const VOUCH_MS: u64 = 2_000;

/// One node, as the rules know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) storage: Option<StorageId>,
    /// The newest start of it that has spoken.
    pub(crate) boot: u32,
    /// Its waiters count as present before this time.
    pub(crate) present_until: ClusterTime,
}

/// All nodes that have ever spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nodes(BTreeMap<NodeId, Node>);

impl Nodes {
    /// The node is alive. Returns whether it was absent before, so that somebody may have become present.
    pub(crate) fn vouch(&mut self, node: NodeId, boot: u32, now: ClusterTime) -> bool {
        let known = self.0.entry(node).or_default();
        if boot < known.boot {
            return false; // A late word of a former start.
        }
        let was_absent = known.boot != boot || known.present_until <= now;
        known.boot = boot;
        known.present_until = now.after(VOUCH_MS);
        was_absent
    }

    /// This start of the node does not answer: its word counts no more.
    pub(crate) fn mark_absent(&mut self, home: Home, now: ClusterTime) {
        if let Some(known) = self.0.get_mut(&home.node).filter(|known| known.boot == home.boot) {
            known.present_until = known.present_until.min(now);
        }
    }

    /// Whether a client that is connected there counts as present.
    pub(crate) fn is_present(&self, home: Home, now: ClusterTime) -> bool {
        self.0.get(&home.node).is_some_and(|node| node.boot == home.boot && node.present_until > now)
    }

    /// Whether a node's word has run out after `before` and by `now`.
    pub(crate) fn has_one_lapsed(&self, before: ClusterTime, now: ClusterTime) -> bool {
        self.0.values().any(|node| before < node.present_until && node.present_until <= now)
    }

    /// When the next node's word runs out, if nobody repeats it.
    pub(crate) fn next_lapse(&self, now: ClusterTime) -> Option<ClusterTime> {
        self.0.values().map(|node| node.present_until).filter(|until| *until > now).min()
    }

    /// Ties a node to its folder. False if it is tied to another one.
    pub(crate) fn register(&mut self, node: NodeId, storage: StorageId) -> bool {
        *self.0.entry(node).or_default().storage.get_or_insert(storage) == storage
    }

    pub(crate) fn storage(&self, node: NodeId) -> Option<StorageId> {
        self.0.get(&node)?.storage
    }
}
