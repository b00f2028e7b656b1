//! Where each entry lies.

use std::collections::VecDeque;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// First sequence number of the segment.
    pub(super) segment: u64,
    /// Offset in the file, in bytes.
    pub(super) offset: u32,
    /// Length of the whole record, in bytes.
    pub(super) len: u32,
}

impl Location {
    /// Offset of the byte behind the record.
    pub(super) fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// The places of consecutive entries.
#[derive(Debug, Default)]
pub(super) struct Index {
    first: u64,
    locations: VecDeque<Location>,
}

impl Index {
    /// Index of the first entry, or of the next one if there is none.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Index behind the last entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.locations.len() as u64
    }

    pub(super) fn get(&self, index: u64) -> Option<Location> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.locations.get(at).copied()
    }

    pub(super) fn push(&mut self, location: Location) {
        self.locations.push_back(location);
    }

    /// Drops the entries from `next` on, which is then the next index.
    pub(super) fn truncate(&mut self, next: u64) {
        match next.checked_sub(self.first) {
            Some(len) => self.locations.truncate(usize::try_from(len).unwrap_or(usize::MAX)),
            None => self.begin_at(next),
        }
    }

    /// Drops the entries before `first`.
    pub(super) fn drop_before(&mut self, first: u64) {
        if first >= self.next() {
            self.begin_at(first.max(self.first));
        } else if let Some(count) = first.checked_sub(self.first) {
            self.locations.drain(..usize::try_from(count).expect("less than its length"));
            self.first = first;
        }
    }

    /// Drops everything; the next entry is `first`.
    pub(super) fn begin_at(&mut self, first: u64) {
        self.locations.clear();
        self.first = first;
    }

    /// The number of entries for which `before` holds, which must be so for a first part of them only.
    pub(super) fn partition_point(&self, before: impl FnMut(&Location) -> bool) -> u64 {
        self.locations.partition_point(before) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u32) -> Location {
        Location { segment: 1, offset, len: 1 }
    }

    fn three_from_five() -> Index {
        let mut index = Index::default();
        index.begin_at(5);
        (0..3).for_each(|n| index.push(at(n)));
        index
    }

    #[test]
    fn entries_are_found_by_their_index() {
        let index = three_from_five();
        assert_eq!([4, 5, 7, 8].map(|n| index.get(n)), [None, Some(at(0)), Some(at(2)), None]);
    }

    #[test]
    fn truncation_keeps_what_is_before() {
        let mut index = three_from_five();
        index.truncate(6);
        assert_eq!((index.first(), index.next()), (5, 6));
        index.truncate(2);
        assert_eq!((index.first(), index.next()), (2, 2));
    }

    #[test]
    fn dropping_keeps_what_is_behind_and_never_goes_back() {
        let mut index = three_from_five();
        index.drop_before(3);
        assert_eq!((index.first(), index.next()), (5, 8));
        index.drop_before(7);
        assert_eq!((index.first(), index.next(), index.get(7)), (7, 8, Some(at(2))));
        index.drop_before(20);
        assert_eq!((index.first(), index.next()), (20, 20));
    }
}
