//! Bodies of the calls between nodes that are not openraft's own.

use holdfast_core::{ClusterTime, EncodedOp, Fence, LockName, Outcome, StorageId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use bytes::Bytes;

use crate::members::{ChangeRefusal, Safety};
use crate::world::NodeId;

/// Commands for the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProposeCall {
    /// How long the callers still wait, in milliseconds.
    pub(crate) patience_ms: u64,
    pub(crate) ops: Vec<EncodedOp>,
}

/// What became of one forwarded command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Forwarded {
    Done(Outcome),
    /// It was not and will not be done.
    NoEffect,
    /// It may or may not have been done.
    Unknown,
}

/// The leader's answer; as long as the call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProposeReply(pub(crate) Vec<Forwarded>);

/// The leader's answer to a call for a read index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReadIndexReply {
    /// The node does not lead, or has lost its majority.
    NotLeader,
    /// A replica that has applied this index sees every write answered before the call.
    Index {
        index: u64,
        /// The leader's cluster time.
        now: ClusterTime,
    },
}

/// Does this grant from the queue stand?
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClaimCall {
    pub(crate) lock: LockName,
    pub(crate) fence: Fence,
    /// Where the grant was applied: the leader answers once it is as far.
    pub(crate) index: u64,
}

/// The leader's answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClaimReply {
    /// It stands: the client may be told.
    Confirmed,
    /// It is being taken back, or is over already: the log will tell.
    Refused,
    /// The node does not lead.
    NotLeader,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    pub(crate) client_url: String,
    pub(crate) version: String,
    pub(crate) applied_index: u64,
    pub(crate) leads: bool,
    /// It takes no more calls, and so does not want to lead either.
    pub(crate) is_draining: bool,
    /// Its data folder.
    pub(crate) storage: StorageId,
    /// If it leads: how long ago it has last heard from each of the others, in milliseconds.
    pub(crate) heard_ms: Vec<(NodeId, Option<u64>)>,
}

/// What an operator, or a node that joins or moves, wants of the leader. All of it is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperatorRequest {
    /// Let a node in as a learner, or note where a member is now.
    Join { node: NodeId, addr: String, storage: StorageId },
    /// Give a learner a vote.
    Promote { node: NodeId },
    /// Let a member go.
    Remove { node: NodeId, safety: Safety },
    /// Let another node lead: this one, or whichever is best.
    Transfer { to: Option<NodeId> },
    /// To a node that was removed, so that it knows.
    Removed,
}

/// A request for the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperateCall {
    /// Whether a node that does not lead may pass it on to the one that does.
    pub(crate) may_pass_on: bool,
    /// How long the caller still waits, in milliseconds.
    pub(crate) patience_ms: u64,
    pub(crate) request: OperatorRequest,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperateReply {
    /// It is done, and this node leads.
    Done {
        leader: NodeId,
    },
    Refused(ChangeRefusal),
    /// The node does not lead, and nothing was done; says why.
    NotLeader(String),
    /// It may have been done, or may still be.
    Unknown(String),
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    postcard::to_stdvec(value).expect("calls contain nothing that postcard cannot encode").into()
}

/// None for bytes that are no such body.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}
