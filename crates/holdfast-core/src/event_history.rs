//! The last events, kept for those who watch: replicated, and bounded.

use imbl::Vector;

use crate::event::{Event, Happening};
use crate::ids::Fence;
use crate::name::LockName;
use crate::planted::{Bug, planted};
use crate::table::LockTable;

/// Most events that the table keeps.
pub const EVENTS_KEPT: usize = 32_768;

/// The last [`EVENTS_KEPT`] events. A clone costs nothing: it shares its memory.
#[derive(Clone, Debug, Default)]
pub struct EventHistory {
    /// Without a gap in their numbers.
    pub(crate) kept: Vector<Event>,
    /// The number of the last event there was, kept or not.
    seq: u64,
}

impl EventHistory {
    pub(crate) fn push(&mut self, event: &Event) {
        self.seq = event.seq;
        // Where its client was connected, nobody will ask any more.
        self.kept.push_back(Event { home: None, ..event.clone() });
        if self.kept.len() > EVENTS_KEPT {
            self.kept.pop_front();
        }
    }

    /// From what lay in a snapshot; none if they are not the last ones, one after the other.
    pub(crate) fn restore(kept: Vector<Event>, seq: u64) -> Option<Self> {
        let first = (seq + 1).checked_sub(kept.len() as u64)?;
        let is_gapless = (first..).zip(&kept).all(|(number, event)| event.seq == number);
        let is_whole =
            is_gapless || planted(Bug::EventLostInSnapshot) || planted(Bug::EventRepeatedAfterSnapshot);
        (is_whole && kept.len() <= EVENTS_KEPT).then(|| Self { kept, seq }.with_losses())
    }

    pub(crate) fn kept(&self) -> &Vector<Event> {
        &self.kept
    }

    /// The number of the last event there was; 0 if there was none.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The events after this number, as far as they are still kept.
    pub fn rest_after(&self, seq: u64) -> impl Iterator<Item = &Event> {
        let from = (seq + 1).saturating_sub(self.first_seq());
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.kept.len());
        (from..self.kept.len()).map(|at| &self.kept[at])
    }

    /// The events after this number, if all of them are still kept. None are after a number that is still to come.
    pub fn after(&self, seq: u64) -> Option<impl DoubleEndedIterator<Item = &Event>> {
        let missing = usize::try_from(self.seq.saturating_sub(seq)).ok()?;
        let from = self.kept.len().checked_sub(missing)?;
        let from = if planted(Bug::RestOfEntryUntold) { self.after_entry_at(from) } else { from };
        Some((from..self.kept.len()).map(|at| &self.kept[at]))
    }

    /// The number of the oldest event that is kept; of the next one, if none is.
    pub fn first_seq(&self) -> u64 {
        self.seq + 1 - self.kept.len() as u64
    }

    /// Those that concern one lock, the newest first.
    pub fn of_lock<'a>(&'a self, lock: &'a LockName) -> impl Iterator<Item = &'a Event> {
        self.kept.iter().rev().filter(move |event| event.lock == *lock)
    }

    /// The highest fence of this lock that is known from its events; none if none is.
    pub fn highest_fence(&self, lock: &LockName) -> Option<Fence> {
        // Fences of a lock go up: whoever was granted it last had the highest.
        self.of_lock(lock).find_map(|event| match event.what {
            Happening::Acquired { fence, .. } => Some(fence),
            _ => None,
        })
    }
}

impl LockTable {
    /// The last events, as of now.
    pub fn event_history(&self) -> EventHistory {
        self.history.clone()
    }
}
