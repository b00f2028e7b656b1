//! A node's store in memory, for simulations and tests.

use std::sync::{Mutex, MutexGuard};

use super::book::Book;
use super::{NodeStore, NodeStoreHealth, SnapshotEntry};
use crate::log::LogPoint;

/// Remembers at once, for as long as it lives: hand the same one to a node that starts again.
#[derive(Default)]
pub struct MemoryNodeStore(Mutex<Book>);

impl MemoryNodeStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().expect("no code panics while it holds this")
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

    fn health(&self) -> NodeStoreHealth {
        NodeStoreHealth::default()
    }
}
