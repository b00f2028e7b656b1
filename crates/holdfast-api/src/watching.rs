//! What those who watch are told, and what is told of the past. All spans are integer milliseconds.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::answer::{Holder, LockState, Mode, Waiter};

/// `data` of one server-sent event. Its `event` is the kind, its `id` the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LockEvent {
    /// The number: the same on every node, one higher with each event of the cluster.
    pub seq: u64,
    /// The lock.
    pub name: String,
    /// Public label of whom it concerns.
    pub owner: String,
    /// Of the hold; null for somebody who waits or waited.
    #[schema(required)]
    pub fence: Option<u64>,
    /// Why something ended; null where nothing did.
    #[schema(required)]
    pub cause: Option<String>,
    /// Whether others may hold the lock beside it.
    #[serde(default)]
    pub mode: Mode,
    /// How many permits, where the lock has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permits: Option<u32>,
    /// Of a new hold: its TTL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ttl_ms: Option<u64>,
    /// Of a new hold that has waited for the lock: how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub waited_ms: Option<u64>,
    /// Of a hold that has ended: how long it lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub held_ms: Option<u64>,
    /// What the holder says, of a new hold and where it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    pub metadata: Option<Value>,
    /// The operator who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub by: Option<String>,
    /// Why the operator did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// `data` of the event `reset`: what happened in between cannot be told. Read again, then go on from `seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventReset {
    /// From here on nothing is left out.
    pub seq: u64,
    /// Why, for people.
    pub reason: String,
}

/// A hold of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastHold {
    /// The grant's number.
    pub fence: u64,
    /// Public label of the holder.
    pub owner: String,
    /// Whether others could hold the lock beside it.
    #[serde(default)]
    pub mode: Mode,
    /// How many permits it had, where the lock had a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permits: Option<u32>,
    /// How long it lasted.
    pub held_ms: u64,
    /// How it ended.
    pub ended: String,
    /// The operator who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub by: Option<String>,
    /// Why the operator ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// When it ended by the leader's clock on the wall, as RFC 3339 in UTC: for people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub at: Option<String>,
}

/// One page of the past of a lock, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastHolds {
    /// The lock.
    pub name: String,
    /// Holds that have ended, as far back as the answering node remembers.
    pub endings: Vec<PastHold>,
    /// Give this as `before` to get the next page; null where nothing older is known.
    #[schema(required)]
    pub next: Option<u64>,
}

/// A run that was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneRun {
    /// Whose it was.
    pub owner: String,
    /// Of its hold.
    pub fence: u64,
    /// When the next run may be.
    pub next_in_ms: u64,
    /// How long ago it was completed.
    pub done_ms_ago: u64,
}

/// What keeps a lock from whoever asks for it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The lock.
    pub name: String,
    /// Whether anybody holds it.
    pub state: LockState,
    /// All of it in one sentence, for people.
    pub why: String,
    /// Those who hold it.
    pub holders: Vec<Holder>,
    /// The first 100 of those who wait, and would go before.
    pub ahead: Vec<Waiter>,
    /// How many wait.
    pub queue_length: u64,
    /// For how long nobody is granted the lock, after a holder was lost that had asked for a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delay_ms: Option<u64>,
    /// The run that was completed, while its period lasts: attempts with `once` are told `already_done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub done: Option<DoneRun>,
    /// How many permits there are, while anybody holds some or waits for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u32>,
    /// How many permits are held, where there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub permits_out: Option<u64>,
    /// The event counter that this is true at.
    pub seq: u64,
}
