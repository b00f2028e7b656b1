//! A node's store in memory, for simulations and tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;

use super::book::Book;
use super::{NodeStore, NodeStoreHealth, PastExtent, SnapshotEntry};
use crate::log::LogPoint;

/// Remembers at once, for as long as it lives: hand the same one to a node that starts again.
#[derive(Default)]
pub struct MemoryNodeStore {
    book: Mutex<Book>,
    past: Mutex<BTreeMap<u64, Bytes>>,
}

impl MemoryNodeStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no code panics while it holds this")
    }

    fn past(&self) -> MutexGuard<'_, BTreeMap<u64, Bytes>> {
        self.past.lock().expect("no code panics while it holds this")
    }
}

impl NodeStore for MemoryNodeStore {
    fn witness(&self) -> Option<LogPoint> {
        self.book().witness()
    }

    fn set_witness(&self, point: LogPoint) {
        self.book().set_witness(point);
    }

    fn snapshots(&self) -> Vec<SnapshotEntry> {
        self.book().snapshots()
    }

    fn add_snapshot(&self, entry: SnapshotEntry) {
        self.book().add_snapshot(entry);
    }

    fn remove_snapshot(&self, file: &str) {
        self.book().remove_snapshot(file);
    }

    fn keep_past(&self, blocks: Vec<(u64, Bytes)>) {
        self.past().extend(blocks);
    }

    fn forget_past(&self, blocks: u64) {
        (0..blocks).for_each(|_| drop(self.past().pop_first()));
    }

    fn past_before(&self, number: u64) -> Option<(u64, Bytes)> {
        self.past().range(..number).next_back().map(|(number, block)| (*number, block.clone()))
    }

    fn oldest_past(&self) -> Option<(u64, Bytes)> {
        self.past().first_key_value().map(|(number, block)| (*number, block.clone()))
    }

    fn past_extent(&self) -> PastExtent {
        let past = self.past();
        PastExtent { blocks: past.len() as u64, last: past.last_key_value().map_or(0, |(number, _)| *number) }
    }

    fn health(&self) -> NodeStoreHealth {
        NodeStoreHealth::default()
    }
}
