//! What follows from an applied entry: waiters wake, grants become claimable, readers go on, numbers count.

use holdfast_core::{ClusterId, ClusterTime, Event, LockTable};

use crate::claims::Claims;
use crate::lock_counters::LockCounters;
use crate::waiters::Waiters;
use crate::watch::Watched;

/// A place in the applied log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

/// How far this replica is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) position: Position,
    /// Term of the last entry that was applied before the first one of the present term; 0 if that is not known.
    pub(crate) term_before: u64,
    /// Cluster time of the last applied entry.
    pub(crate) now: ClusterTime,
    /// When something is due next.
    pub(crate) next_due: Option<ClusterTime>,
    /// See [`LockTable::is_in_no_hurry`].
    pub(crate) is_in_no_hurry: bool,
    pub(crate) cluster: Option<ClusterId>,
}

/// Everybody who has to hear of applied entries. Called with the state locked: must not look at it again.
pub(crate) struct Effects {
    pub(crate) waiters: Waiters,
    pub(crate) claims: Claims,
    pub(crate) counters: LockCounters,
    /// How far this replica is.
    pub(crate) progress: Watched<Progress>,
    /// The number of the last event.
    pub(crate) last_event: Watched<u64>,
}

impl Effects {
    pub(crate) fn new(waiters: Waiters, claims: Claims, counters: LockCounters) -> Self {
        let progress = Watched::new(Progress::default());
        Self { waiters, claims, counters, progress, last_event: Watched::new(0) }
    }

    /// An entry was applied.
    pub(crate) fn applied(&self, position: Position, table: &LockTable, events: Vec<Event>) {
        for event in events {
            self.counters.count(position.index, &event);
            self.claims.note(position.term, &event);
            self.waiters.tell(position, &event, table);
        }
        self.advance(position, table);
    }

    /// The whole state was replaced.
    pub(crate) fn installed(&self, position: Position, table: &LockTable) {
        self.counters.recount(table);
        self.waiters.resync(position, table);
        self.advance(position, table);
    }

    fn advance(&self, position: Position, table: &LockTable) {
        self.progress.change(|progress| {
            if position.term != progress.position.term {
                progress.term_before = progress.position.term;
            }
            progress.position = position;
            progress.now = table.now();
            progress.next_due = table.next_due();
            progress.is_in_no_hurry = table.is_in_no_hurry();
            progress.cluster = table.cluster();
            true
        });
        self.last_event.change(|last| std::mem::replace(last, table.seq()) != table.seq());
    }
}
