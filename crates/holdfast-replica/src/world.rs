//! What a replica needs from the world: time, tasks, chance, a disk and a network.
//!
//! Everything comes in through these traits, so that a simulation can hand in seeded ones and run the same code.
//! Nothing else in this crate touches a clock, a thread, a socket or a file, but for the adapters in [`crate::disk`],
//! [`crate::peers`] and [`crate::node_store`].

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
pub use openraft_rt::AsyncRuntime;

/// What an implementation of [`AsyncRuntime`] is made of.
pub mod runtime {
    pub use openraft_rt::{Instant, OptionalSend};
    pub use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot};
}

/// Identifies a node within its cluster, for ever: a number is not given to another data folder.
pub type NodeId = u64;

/// Time, tasks and chance: whatever implements openraft's runtime.
pub trait Runtime: AsyncRuntime + Send + Sync {}

impl<T: AsyncRuntime + Send + Sync> Runtime for T {}

/// One step of a disk job. File names are relative to the node's folder and contain no separator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum DiskOp {
    /// Creates an empty file; an error if it exists.
    Create { file: String },
    /// Writes at the end of the file. Not durable before a [`DiskOp::Sync`].
    Append { file: String, bytes: Bytes },
    /// Makes the content of the file durable (`fdatasync`).
    Sync { file: String },
    /// Cuts the file to `len` bytes.
    Truncate { file: String, len: u64 },
    /// Renames, over an existing file if there is one.
    Rename { from: String, to: String },
    /// Removes the file; no error if there is none.
    Remove { file: String },
    /// Makes creations, renames and removals durable.
    SyncDir,
}

/// Jobs of one lane run strictly in the order of submission; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLane {
    /// Votes and log entries: nothing slow may stand in front of them.
    Log,
    /// Snapshots and everything else that may take its time.
    Bulk,
}

/// Called once when a job is over.
pub type DiskDone = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The node's folder.
///
/// A write that finds no room waits until there is some, and the jobs of its lane behind it. Any other failed write or
/// sync is final for its lane: every later job of that lane fails too, since nobody knows what the kernel has dropped.
/// Reads see everything whose job is over, synced or not.
pub trait Disk: Send + Sync + 'static {
    /// Runs the steps in order and then calls `done`. The first error ends the job.
    fn submit(&self, lane: DiskLane, ops: Vec<DiskOp>, done: DiskDone);
    /// Names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Length of a file in bytes.
    fn len(&self, file: &str) -> io::Result<u64>;
    /// At most `len` bytes from `offset`; fewer at the end of the file.
    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes>;
    /// Free space for this process on the file system of the folder, in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// Where a peer listens for peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Its id.
    pub node: NodeId,
    /// `HOST:PORT` of its peer listener.
    pub addr: String,
}

/// Calls of one lane share a connection; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerLane {
    /// Votes, log entries, heartbeats.
    Consensus,
    /// Forwarded commands, read indexes, claims.
    Forward,
    /// Chunks of snapshots.
    Bulk,
}

/// What a peer is asked. The number is the wire's; it never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CallKind {
    /// Raft: append entries, heartbeat.
    Append = 1,
    /// Raft: request for a vote.
    Vote = 2,
    /// Raft: would you vote for me?
    PreVote = 3,
    /// Raft: take over leadership.
    TransferLeader = 4,
    /// One chunk of a snapshot.
    SnapshotChunk = 5,
    /// A batch of commands for the leader.
    Propose = 16,
    /// A read index from the leader.
    ReadIndex = 17,
    /// A waiter's node asks the leader whether a grant from the queue still stands.
    Claim = 18,
    /// What a node tells of itself (client URL, applied index, version).
    Status = 19,
    /// An operator's request for a change of members or of the leader.
    Operate = 20,
}

/// Why a call brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing has left this node: the peer cannot have seen the call.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The peer may have acted on the call.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

/// The way to the peers.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and waits for its answer, at most for `timeout`.
    ///
    /// Dropping the future gives up on the answer, not on the request.
    fn call(
        &self,
        to: &PeerAddress,
        lane: PeerLane,
        kind: CallKind,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>>;
}

/// Answers what peers ask.
pub trait PeerService: Send + Sync + 'static {
    /// Answers one request.
    ///
    /// Requests of one lane are handed over in the order in which they were sent, and each returned future is polled
    /// once before the next request is handed over; answers may overtake each other.
    fn serve(&self, from: NodeId, kind: CallKind, body: Bytes) -> BoxFuture<'static, Bytes>;
}
