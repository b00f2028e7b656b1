//! The face of a replica: what a server may ask of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{
    AttemptKey, Event, Fence, Grant, Group, Item, LockName, LockTable, Metadata, Outcome, Owner, Rejection,
    SessionRef, Several, Share, Terms, Ttl, Wait,
};

use crate::world::NodeId;

/// Why there is no answer from the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Nothing was done, and it is safe to repeat.
    #[error("no leader with a majority is known: {0}")]
    NoLeader(String),
    /// It may or may not have been done, or may still be.
    #[error("the outcome is unknown: {0}")]
    UnknownOutcome(String),
    /// This node is closing; nothing was done.
    #[error("this node is shutting down")]
    Closing,
    /// The disk is nearly full: nothing that needs more of it is taken.
    #[error("this cluster is short of disk space: {0}")]
    NoSpace(String),
}

/// What came of a call: rejected by the rules, or not answered at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The rules said no; replicated.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Nobody said anything.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// What came of an attempt that was ready to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired<G = Grant> {
    /// It holds the lock, or all of them.
    Granted(G),
    /// The wait was over; the attempt has left the queue.
    WaitTimeout,
    /// The attempt was ended while it waited: released by another call with its token, or by an operator.
    Ended(Rejection),
}

/// How fresh a read has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// It sees every write that was answered before the read began.
    Linearizable,
    /// Whatever this node has.
    Stale,
}

/// The role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It votes and follows.
    Follower,
    /// It follows and has no vote.
    Learner,
    /// It asks for votes.
    Candidate,
}

/// One member of the cluster, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Its role; None where it did not answer.
    pub role: Option<Role>,
    /// Whether it has a vote.
    pub voter: bool,
    /// `HOST:PORT` for peers.
    pub peer_addr: String,
    /// Base URL for clients; None where it did not answer.
    pub client_url: Option<String>,
    /// Version of its program; None where it did not answer.
    pub version: Option<String>,
    /// The last log index that it has applied; None where it did not answer.
    pub applied_index: Option<u64>,
    /// How many log entries it has applied less than the leader; None where one of them did not answer.
    pub lag: Option<u64>,
    /// How long ago the leader has last heard from it, in milliseconds; None where that is not known.
    pub last_seen_ms: Option<u64>,
}

/// How well the cluster can do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// All members do their part.
    Ok,
    /// It serves, but something is wrong.
    Degraded,
    /// It does not serve, as far as this node knows.
    Down,
}

/// How the cluster is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterHealth {
    /// In a word.
    pub status: HealthStatus,
    /// For people; empty if all is well.
    pub reasons: Vec<String>,
}

/// The cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// 32 hexadecimal digits; None before the cluster is born.
    pub cluster_id: Option<String>,
    /// This node.
    pub node_id: NodeId,
    /// The leader, if one is known.
    pub leader_id: Option<NodeId>,
    /// This node's term.
    pub term: u64,
    /// All members, by id.
    pub members: Vec<Member>,
    /// How well it can do its work.
    pub health: ClusterHealth,
}

/// Numbers about this node for metrics and readiness. Cheap: no call to a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStatus {
    /// Why this node cannot serve; None if it can: it knows a leader that has a majority, has recovered, and has space.
    pub not_ready: Option<String>,
    /// Whether this node leads.
    pub is_leader: bool,
    /// The leader, if one is known.
    pub leader_id: Option<NodeId>,
    /// This node's term.
    pub term: u64,
    /// Leader changes that this node has seen since it started.
    pub leader_changes: u64,
    /// Index of the last log entry.
    pub last_log_index: u64,
    /// Index of the last committed entry that this node knows of.
    pub committed_index: u64,
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Index that the newest snapshot reaches.
    pub snapshot_index: u64,
    /// Size of the newest snapshot in bytes.
    pub snapshot_bytes: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
    /// Free bytes on the data folder's file system.
    pub free_bytes: u64,
    /// Locks held.
    pub locks_held: u64,
    /// Attempts in queues.
    pub waiters: u64,
    /// Sessions that live.
    pub sessions: u64,
    /// Clients that wait at this node.
    pub local_waiters: u64,
    /// The last fence.
    pub last_fence: u64,
    /// Commands that were proposed at this node.
    pub commands_proposed: u64,
    /// Commands that this node has passed on to a leader.
    pub commands_forwarded: u64,
    /// Log entries (groups) that this node has proposed as leader.
    pub groups_proposed: u64,
    /// Commands waiting to be proposed.
    pub proposal_queue: u64,
    /// How holds have ended since this node started, by cause, counted as entries are applied.
    pub endings: BTreeMap<&'static str, u64>,
    /// Grants since this node started, counted as entries are applied.
    pub grants: u64,
    /// Finished syncs of the log.
    pub syncs: u64,
    /// Seconds spent in syncs of the log.
    pub sync_seconds: f64,
    /// Damaged stores of this node's own that were set aside.
    pub node_stores_set_aside: u64,
    /// Lag of each follower in entries, if this node leads.
    pub follower_lag: BTreeMap<NodeId, u64>,
}

/// One acquisition attempt, as a server hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The lock.
    pub lock: LockName,
    /// Which attempt.
    pub key: AttemptKey,
    /// Public label.
    pub owner: Owner,
    /// Of the lease, if it is the hold's own.
    pub ttl: Ttl,
    /// The session that is to keep it, if one is.
    pub session: Option<SessionRef>,
    /// How long to wait.
    pub wait: Wait,
    /// The holder's own.
    pub metadata: Metadata,
    /// How much of the lock.
    pub share: Share,
    /// What it asks for beside the TTL.
    pub terms: Terms,
}

/// An attempt that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Of its hold; none for a place in a queue.
    pub fence: Option<Fence>,
    /// When its least hold is over and others can have the lock, in milliseconds; 0: already.
    pub effective_in_ms: u64,
    /// Whether it counts as the run that was completed in its period.
    pub is_done: bool,
}

/// One attempt to acquire many locks, all or none, as a server hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyAttempt {
    /// Which attempt.
    pub key: AttemptKey,
    /// The locks.
    pub items: Several<Item>,
    /// Public label.
    pub owner: Owner,
    /// Of the leases.
    pub ttl: Ttl,
    /// How long to wait.
    pub wait: Wait,
}

/// Longest time that any call may take beyond its own wait.
pub const CALL_TIMEOUT: Duration = Duration::from_millis(4_500);

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

/// When a node shortens its log. The defaults are for service; a simulation wants small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// How often it looks.
    pub every: Duration,
    /// A snapshot is due once the log behind the last one is larger than it, and than this, in bytes.
    pub snapshot_log_bytes_min: u64,
    /// How much log stays behind a snapshot for followers that are a little late, in bytes.
    pub log_kept_bytes: u64,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self { every: Duration::from_millis(500), snapshot_log_bytes_min: 16 << 20, log_kept_bytes: 16 << 20 }
    }
}

/// What a replica has just done to its state.
#[derive(Debug)]
pub enum StateChange<'a> {
    /// It applied the next entry of the log.
    Entry {
        /// Term of the entry.
        term: u64,
        /// The entry's commands; none for what openraft itself put into the log.
        group: Option<&'a Group>,
        /// What each came to.
        outcomes: &'a [Outcome],
        /// What happened.
        events: &'a [Event],
    },
    /// It began with this state, or replaced its own: from a snapshot.
    Snapshot,
}

/// Hears of each change of a replica's state, with the index of the last applied entry and the state as it is now.
///
/// Called with the state locked: must be quick, and must not look at the replica.
pub type OnApplied = Arc<dyn Fn(u64, StateChange<'_>, &LockTable) + Send + Sync>;

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
