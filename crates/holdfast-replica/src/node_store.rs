//! The node's own store, off the safety path: a witness of how long the log was, a catalogue of snapshots, and the past
//! of the locks.
//!
//! Nothing that a client was told depends on it. If it is damaged or cannot be written, the node runs without it: that
//! costs history, and the chance to notice that a log has lost what it once had.

mod book;
mod memory;
mod sled_store;
mod witness;
mod worker;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use self::memory::MemoryNodeStore;
pub use self::sled_store::SledNodeStore;
pub use self::witness::{WitnessError, check_witness};
use crate::log::LogPoint;

/// What the catalogue says of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Name of the file in the node's folder.
    pub file: String,
    /// Index of the last entry covered.
    pub index: u64,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Cluster time at which it was finished, in ms.
    pub created_ms: u64,
}

/// Longest block of the past, in bytes.
pub const BLOCK_LEN_MAX: usize = 4 << 10;

/// Which blocks of the past a store has. A block is named by the number of its last event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastExtent {
    /// How many.
    pub blocks: u64,
    /// The newest; 0 if there is none.
    pub last: u64,
}

/// How the store is doing, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStoreHealth {
    /// Damaged stores that were set aside and still lie in the folder.
    pub set_aside: u64,
    /// Whether updates are no longer written, until the next start.
    pub stopped: bool,
}

/// Remembers what it is told, a little later, without making anybody wait.
pub trait NodeStore: Send + Sync + 'static {
    /// The newest entry that was once known to be committed and durable.
    fn witness(&self) -> Option<LogPoint>;
    /// Vouches for an entry that is committed and durable on this node, and so is never truncated. Older ones than the
    /// present one are ignored. See [`crate::log::Log::witness_point`].
    fn set_witness(&self, point: LogPoint);
    /// All known snapshots, newest first.
    fn snapshots(&self) -> Vec<SnapshotEntry>;
    /// Adds a snapshot, or replaces what was known of it.
    fn add_snapshot(&self, entry: SnapshotEntry);
    /// Forgets a snapshot.
    fn remove_snapshot(&self, file: &str);
    /// Keeps blocks of the past, each of at most [`BLOCK_LEN_MAX`] bytes, behind all that are there.
    fn keep_past(&self, blocks: Vec<(u64, Bytes)>);
    /// Forgets the oldest blocks of the past, so many of them.
    fn forget_past(&self, blocks: u64);
    /// The newest block of the past before this number. It may have to be read from the disk.
    fn past_before(&self, number: u64) -> Option<(u64, Bytes)>;
    /// The oldest block of the past. It may have to be read from the disk.
    fn oldest_past(&self) -> Option<(u64, Bytes)>;
    /// Which blocks there are.
    fn past_extent(&self) -> PastExtent;
    /// How the store is doing.
    fn health(&self) -> NodeStoreHealth;
}
