//! The newest entries, in memory.

use std::collections::VecDeque;

use super::LogRecord;

/// So many purged entries stay readable while there is room: whoever applies entries may still be about to read some
/// that a purge has just overtaken.
pub(super) const PURGED_KEPT_MAX: u64 = 4_096;

/// What an entry costs besides its bytes.
const OVERHEAD: usize = 96;

/// Consecutive entries up to the end of the log.
#[derive(Debug)]
pub(super) struct Cache {
    bytes_max: usize,
    bytes: usize,
    entries: VecDeque<Cached>,
}

#[derive(Debug)]
struct Cached {
    seq: u64,
    entry: LogRecord,
}

impl Cached {
    fn size(&self) -> usize {
        self.entry.id.len() + self.entry.payload.len() + OVERHEAD
    }
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, entries: VecDeque::new() }
    }

    /// Index of the oldest entry in memory.
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.entries.front()?.entry.index)
    }

    pub(super) fn get(&self, index: u64) -> Option<&LogRecord> {
        let at = usize::try_from(index.checked_sub(self.first()?)?).ok()?;
        Some(&self.entries.get(at)?.entry)
    }

    /// Adds the entry that follows the last one. If it does not, the older ones are of no use any more.
    pub(super) fn push(&mut self, seq: u64, entry: LogRecord) {
        if self.entries.back().is_some_and(|last| last.entry.index + 1 != entry.index) {
            self.clear();
        }
        let cached = Cached { seq, entry };
        self.bytes += cached.size();
        self.entries.push_back(cached);
    }

    /// Drops the entries from `next` on.
    pub(super) fn truncate(&mut self, next: u64) {
        while let Some(last) = self.entries.pop_back_if(|last| last.entry.index >= next) {
            self.bytes -= last.size();
        }
    }

    /// Drops the oldest entries until the rest fits, but none that only memory has: one behind `durable_seq`. Of the
    /// entries before `first_index`, which are purged, few are kept.
    pub(super) fn shrink(&mut self, durable_seq: u64, first_index: u64) {
        while let Some(oldest) = self.entries.front() {
            let too_much = self.bytes > self.bytes_max && oldest.seq <= durable_seq;
            if !too_much && oldest.entry.index + PURGED_KEPT_MAX >= first_index {
                break;
            }
            self.bytes -= oldest.size();
            self.entries.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn entry(index: u64) -> LogRecord {
        LogRecord { index, id: Bytes::new(), payload: Bytes::from(vec![0; 100]) }
    }

    fn ten() -> Cache {
        let mut cache = Cache::new(5 * (100 + OVERHEAD));
        (0..10).for_each(|index| cache.push(index + 1, entry(index)));
        cache
    }

    #[test]
    fn old_entries_go_when_room_is_short() {
        let mut cache = ten();
        cache.shrink(10, 0);
        assert_eq!((cache.first(), cache.get(9)), (Some(5), Some(&entry(9))));
    }

    #[test]
    fn an_entry_that_is_not_durable_stays() {
        let mut cache = ten();
        cache.shrink(2, 0);
        assert_eq!(cache.first(), Some(2));
    }

    #[test]
    fn a_bounded_number_of_purged_entries_stays() {
        let mut cache = ten();
        cache.bytes_max = usize::MAX;
        cache.shrink(10, PURGED_KEPT_MAX + 3);
        assert_eq!(cache.first(), Some(3));
    }

    #[test]
    fn a_cut_takes_the_newest() {
        let mut cache = ten();
        cache.truncate(4);
        assert_eq!((cache.get(3), cache.get(4), cache.bytes), (Some(&entry(3)), None, 4 * (100 + OVERHEAD)));
        cache.push(20, entry(9));
        assert_eq!(cache.first(), Some(9), "a gap makes the older ones useless");
    }
}
