//! What the peer network has counted since the start, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::refusal::RefusalReason;
use crate::world::{CallError, PeerLane};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}

/// Counters of one lane.
#[derive(Debug, Default)]
pub struct LaneStats {
    /// Connections that this node has opened and that were accepted.
    pub connects: Counter,
    /// Connections that this node tried to open in vain.
    pub connects_failed: Counter,
    /// Connections that this node has accepted.
    pub accepts: Counter,
    /// Accepted or accepting connections that have ended, on both sides.
    pub disconnects: Counter,
    /// Frames read.
    pub frames_in: Counter,
    /// Frames written.
    pub frames_out: Counter,
    /// Bytes read behind the greetings.
    pub bytes_in: Counter,
    /// Bytes written behind the greetings.
    pub bytes_out: Counter,
    /// Calls that failed and cannot have reached the peer.
    pub calls_not_sent: Counter,
    /// Calls that failed and may have had an effect.
    pub calls_no_answer: Counter,
}

impl LaneStats {
    pub(super) fn failed(&self, error: &CallError) {
        match error {
            CallError::NotSent(_) => self.calls_not_sent.add(1),
            CallError::NoAnswer(_) => self.calls_no_answer.add(1),
        }
    }
}

/// Counters of all lanes, and of the connections turned down.
#[derive(Debug, Default)]
pub struct PeerStats {
    lanes: [LaneStats; 3],
    refusals: [Counter; RefusalReason::ALL.len()],
}

impl PeerStats {
    /// Counters of one lane.
    pub fn lane(&self, lane: PeerLane) -> &LaneStats {
        &self.lanes[lane as usize]
    }

    /// Connections that this node turned down for this reason, whichever side opened them.
    pub fn refusals(&self, reason: RefusalReason) -> u64 {
        self.refusals[reason as usize - 1].get()
    }

    pub(super) fn refused(&self, reason: RefusalReason) {
        self.refusals[reason as usize - 1].add(1);
    }
}
