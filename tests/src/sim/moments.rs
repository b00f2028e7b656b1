//! Moments of a run at which a fault may be aimed: in the disk, in the network, at a client.

use std::sync::{Arc, Mutex};

use super::executor;
use super::faults::{Aim, Fault};

/// Something that has just happened at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Votes or entries were written to its log and are not synced yet.
    Written,
    /// They are synced, and nobody was told yet.
    Synced,
    /// A snapshot got its name; the folder is not synced yet, and the log is not purged.
    SnapshotNamed,
    /// A purged segment of the log was removed.
    SegmentRemoved,
    /// Its answer to a request for its vote is on its way.
    VoteGiven,
    /// Entries are on their way from it, and nobody has them yet.
    EntriesSent,
    /// Its answer to entries is on its way.
    EntriesAcknowledged,
    /// It is asked to take over leadership.
    TransferArrived,
    /// A chunk of a snapshot has arrived.
    SnapshotChunkArrived,
    /// It asks the leader whether a grant stands.
    ClaimSent,
    /// Commands for the leader are on their way from it.
    ForwardSent,
    /// Its answer to a client is on its way: a grant.
    ClientTold,
}

/// What waits for its moment, and what has come to it. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Moments(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    armed: Vec<Aim>,
    due: Vec<(Fault, u64)>,
}

impl Moments {
    pub(crate) fn arm(&self, aim: Aim) {
        self.0.lock().expect("one thread").armed.push(aim);
    }

    pub(crate) fn disarm_all(&self) {
        let mut inner = self.0.lock().expect("one thread");
        inner.armed.clear();
        inner.due.clear();
    }

    /// Says that something has just happened. True if a fault was aimed at it: it happens once the running task yields.
    pub(crate) fn reach(&self, moment: Moment, node: u64) -> bool {
        let mut inner = self.0.lock().expect("one thread");
        let mut hits = Vec::new();
        inner.armed.retain_mut(|aim| {
            if aim.moment != moment {
                return true;
            }
            if aim.skip > 0 {
                aim.skip -= 1;
                return true;
            }
            hits.push(((*aim.then).clone(), node));
            false
        });
        let hit = !hits.is_empty();
        if hit {
            inner.due.extend(hits);
            executor::interrupt();
        }
        hit
    }

    /// The faults whose moment has come, with the node where it came.
    pub(crate) fn take_due(&self) -> Vec<(Fault, u64)> {
        std::mem::take(&mut self.0.lock().expect("one thread").due)
    }
}
