//! What the store remembers, and as which keys and values.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::SnapshotEntry;
use crate::log::LogPoint;

/// Longer values would go to files of their own, which sled never syncs.
const VALUE_LEN_MAX: usize = 4 << 10;

const WITNESS: &[u8] = b"1/witness";
const SNAPSHOT_PREFIX: &[u8] = b"1/snapshot/";
const DIGEST: &[u8] = b"1/digest";

/// Keys and values as they are stored.
pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    witness: Option<LogPoint>,
    snapshots: BTreeMap<String, SnapshotEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredPoint {
    index: u64,
    id: Vec<u8>,
}

impl Book {
    pub(super) fn witness(&self) -> Option<LogPoint> {
        self.witness.clone()
    }

    pub(super) fn set_witness(&mut self, point: LogPoint) {
        if self.witness.as_ref().is_none_or(|known| known.index < point.index) {
            self.witness = Some(point);
        }
    }

    pub(super) fn snapshots(&self) -> Vec<SnapshotEntry> {
        let mut entries: Vec<_> = self.snapshots.values().cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.index));
        entries
    }

    pub(super) fn add_snapshot(&mut self, entry: SnapshotEntry) {
        self.snapshots.insert(entry.file.clone(), entry);
    }

    pub(super) fn remove_snapshot(&mut self, file: &str) {
        self.snapshots.remove(file);
    }

    /// All pairs, with a digest of them. What would be too long is left out.
    pub(super) fn to_pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        if let Some(LogPoint { index, id }) = &self.witness {
            put(&mut pairs, WITNESS.to_vec(), &StoredPoint { index: *index, id: id.to_vec() });
        }
        for (file, entry) in &self.snapshots {
            put(&mut pairs, [SNAPSHOT_PREFIX, file.as_bytes()].concat(), entry);
        }
        let digest = digest(&pairs);
        pairs.insert(DIGEST.to_vec(), digest);
        pairs
    }

    /// `None` if the pairs are not all of what was once stored: an empty book has a digest, too.
    pub(super) fn from_pairs(mut pairs: Pairs) -> Option<Self> {
        if pairs.remove(DIGEST)? != digest(&pairs) {
            return None;
        }
        let mut book = Self::default();
        for (key, value) in pairs {
            if key == WITNESS {
                let StoredPoint { index, id } = postcard::from_bytes(&value).ok()?;
                book.witness = Some(LogPoint { index, id: Bytes::from(id) });
            } else if key.starts_with(SNAPSHOT_PREFIX) {
                book.add_snapshot(postcard::from_bytes(&value).ok()?);
            }
        }
        Some(book)
    }
}

fn put(pairs: &mut Pairs, key: Vec<u8>, value: &impl Serialize) {
    let value = postcard::to_stdvec(value).expect("numbers and bytes can always be written");
    if value.len() <= VALUE_LEN_MAX {
        pairs.insert(key, value);
    }
}

fn digest(pairs: &Pairs) -> Vec<u8> {
    let fields = pairs.iter().flat_map(|(key, value)| [key, value]);
    let crc = fields.fold(0, |crc, field| {
        let crc = crc32c::crc32c_append(crc, &(field.len() as u64).to_le_bytes());
        crc32c::crc32c_append(crc, field)
    });
    crc.to_le_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Book {
        let mut book = Book::default();
        book.set_witness(LogPoint { index: 9, id: Bytes::from_static(b"id") });
        for (file, index) in [("a", 3), ("b", 7)] {
            book.add_snapshot(SnapshotEntry { file: file.into(), index, bytes: 10, created_ms: 1 });
        }
        book
    }

    #[test]
    fn a_book_reads_back_and_a_changed_or_missing_pair_is_noticed() {
        let pairs = sample().to_pairs();
        assert_eq!(Book::from_pairs(pairs.clone()), Some(sample()));
        assert_eq!(Book::from_pairs(Pairs::new()), None);
        for key in pairs.keys() {
            let mut missing = pairs.clone();
            missing.remove(key);
            assert_eq!(Book::from_pairs(missing), None);
            let mut changed = pairs.clone();
            changed.get_mut(key).unwrap()[0] ^= 1;
            assert_eq!(Book::from_pairs(changed), None);
        }
    }

    #[test]
    fn the_witness_never_goes_back() {
        let mut book = sample();
        book.set_witness(LogPoint { index: 8, id: Bytes::new() });
        assert_eq!(book.witness().unwrap().index, 9);
    }

    #[test]
    fn snapshots_are_listed_newest_first() {
        let files: Vec<_> = sample().snapshots().into_iter().map(|entry| entry.file).collect();
        assert_eq!(files, ["b", "a"]);
    }

    #[test]
    fn a_value_that_sled_would_not_sync_is_left_out() {
        let mut book = Book::default();
        book.set_witness(LogPoint { index: 1, id: vec![0; VALUE_LEN_MAX].into() });
        assert_eq!(Book::from_pairs(book.to_pairs()), Some(Book::default()));
    }
}
