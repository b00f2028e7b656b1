//! What the service answers. All spans are integer milliseconds.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::token::Token;

/// A hold, as its holder is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// The lock.
    pub name: String,
    /// Public label of the holder.
    pub owner: String,
    /// The holder's own secret.
    #[schema(value_type = String, min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: Token,
    /// The number to send along with every write that the lock protects.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub fence: u64,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of the lease, as the leader counts.
    pub expires_in_ms: u64,
    /// The holder's own: an object, or any JSON where the lock was taken as an election.
    #[schema(value_type = Value)]
    pub metadata: Value,
    /// With `max_hold_ms`: what is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_left_ms: Option<u64>,
}

/// An attempt that holds nothing and waits for nothing any more, or will not once its least hold is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Released {
    /// The lock.
    pub name: String,
    /// The fence of the hold; null for an attempt that was only queued.
    #[schema(required)]
    pub fence: Option<u64>,
    /// Always true.
    pub released: bool,
    /// With `min_hold_ms`, while that lasts: when the release takes effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub effective_in_ms: Option<u64>,
    /// True where it counts as the run that was completed in its period, which is not over yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
}

/// One of many locks, with the number to send along with every write that it protects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fenced {
    /// The lock.
    pub name: String,
    /// The grant's number.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub fence: u64,
}

/// The holds of one attempt at many locks, as their holder is told of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantMany {
    /// The holder's own secret.
    #[schema(value_type = String, min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: Token,
    /// The shortest in force.
    pub ttl_ms: u64,
    /// What is left of the lease that is over first, as the leader counts.
    pub expires_in_ms: u64,
    /// The locks, in the order of the request.
    pub grants: Vec<Fenced>,
}

/// One of many locks that are held and waited for no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleasedLock {
    /// The lock.
    pub name: String,
    /// The fence of the hold; null for one that was only waited for.
    #[schema(required)]
    pub fence: Option<u64>,
}

/// Locks that are held and waited for no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleasedMany {
    /// Always true.
    pub released: bool,
    /// The locks; none where all had been released before and the request names none.
    pub locks: Vec<ReleasedLock>,
}

/// Whether a lock is taken alone or beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nobody else holds it; with a limit: as many as there are permits.
    #[default]
    Exclusive,
    /// Beside others that share it.
    Shared,
}

/// The limit of a lock, as it is from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitSet {
    /// The lock.
    pub name: String,
    /// How many permits there are.
    pub limit: u32,
}

/// Whether anybody holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockState {
    /// Somebody does.
    Held,
    /// Nobody does.
    Free,
}

/// A holder, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// Public label.
    pub owner: String,
    /// The grant's number.
    pub fence: u64,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of the lease.
    pub expires_in_ms: u64,
    /// Since the grant.
    pub held_ms: u64,
    /// Whether others may hold the lock beside it.
    #[serde(default)]
    pub mode: Mode,
    /// How many permits it holds, where the lock has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permits: Option<u32>,
    /// The id of the session that keeps it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub session: Option<String>,
    /// The holder's own: an object, or any JSON where the lock was taken as an election.
    #[schema(value_type = Value)]
    pub metadata: Value,
    /// With `max_hold_ms`: what is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_left_ms: Option<u64>,
    /// True once it was released before its least hold was over: it goes when that is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub releasing: bool,
}

/// A waiter, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiter {
    /// Public label.
    pub owner: String,
    /// Since it took its place.
    pub waiting_ms: u64,
}

/// A lock, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// Whether anybody holds it.
    pub state: LockState,
    /// Those who hold it.
    pub holders: Vec<Holder>,
    /// How many permits there are, while anybody holds some or waits for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u32>,
    /// How many permits are held, where there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permits_out: Option<u64>,
    /// The first 100 of those who wait.
    pub queue: Vec<Waiter>,
    /// How many wait.
    pub queue_length: u64,
    /// The event counter that this is true at.
    pub seq: u64,
    /// True where a stale answer was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// After a holder was lost that had asked for a delay: for how long nobody is granted the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delay_ms: Option<u64>,
}

/// One page of locks, in the order of their names (byte by byte).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LockList {
    /// Locks that somebody holds or waits for, or that are in a delay.
    pub locks: Vec<Lock>,
    /// Give this as `after` to get the next page; null on the last one.
    #[schema(required)]
    pub next: Option<String>,
    /// The event counter that this is true at.
    pub seq: u64,
    /// True where a stale answer was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// Who is in the way of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldBy {
    /// Public label.
    pub owner: String,
    /// The grant's number.
    pub fence: u64,
    /// What is left of the lease.
    pub expires_in_ms: u64,
}

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// `leader`, `follower`, `learner`, `candidate`; `unknown` where it did not answer.
    pub role: String,
    /// Whether it has a vote.
    pub voter: bool,
    /// `HOST:PORT` for peers.
    pub peer_addr: String,
    /// Base URL for clients; null where it did not answer.
    #[schema(required)]
    pub client_url: Option<String>,
    /// Version of its program; null where it did not answer.
    #[schema(required)]
    pub version: Option<String>,
    /// The last log index that it has applied; null where it did not answer.
    #[schema(required)]
    pub applied_index: Option<u64>,
    /// How many log entries it has applied less than the leader; null where one of them did not answer.
    #[serde(default)]
    #[schema(required)]
    pub lag: Option<u64>,
    /// How long ago the leader has last heard from it; null where that is not known.
    #[serde(default)]
    #[schema(required)]
    pub last_seen_ms: Option<u64>,
}

/// The cluster, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Made when the cluster was born; null before.
    #[schema(required)]
    pub cluster_id: Option<String>,
    /// The node that answers.
    pub node_id: u64,
    /// The leader; null if none is known.
    #[schema(required)]
    pub leader_id: Option<u64>,
    /// The answering node's term.
    pub term: u64,
    /// All members, by id.
    pub members: Vec<Member>,
    /// How well it can do its work.
    #[serde(default)]
    pub health: ClusterHealth,
}

/// How well a cluster can do its work, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterHealth {
    /// `ok`; `degraded`: it serves, but something is wrong; `down`: it does not serve, as far as the node knows.
    pub status: String,
    /// What is wrong, for people.
    pub reasons: Vec<String>,
}

/// That a node is alive or ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `alive` or `ready`.
    pub status: String,
}

/// A hash of the replicated state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Digest {
    /// The last log index that is in it.
    pub applied_index: u64,
    /// 16 hexadecimal digits: equal on every node at the same index.
    pub digest: String,
}
