//! A node's store on sled.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;

use super::book::Book;
use super::worker::{Worker, guarded};
use super::{NodeStore, NodeStoreHealth, PastExtent, SnapshotEntry};
use crate::log::LogPoint;

/// A store that takes longer to open is done without.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Works on a thread of its own and writes about once a second. Dropping it writes what is left.
///
/// sled may panic, hang, or find its files damaged. None of that reaches the caller: a damaged store is renamed to
/// `node-store.damaged-N` and a new one begun; a store that cannot be opened or written stops until the next start.
pub struct SledNodeStore {
    shared: Arc<Shared>,
    /// `None` if the thread hangs: it is left alone.
    thread: Option<JoinHandle<()>>,
}

/// What the store and its thread share.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Blocks of the past, by number (big endian). Empty until the store is open.
    pub(super) past: OnceLock<sled::Tree>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) book: Book,
    pub(super) dirty: bool,
    /// The store is being closed: write once more and end.
    pub(super) closing: bool,
    pub(super) health: NodeStoreHealth,
    /// Blocks of the past that are not written yet.
    pub(super) new_past: BTreeMap<u64, Bytes>,
    /// How many of the oldest blocks are to be forgotten.
    pub(super) stale_blocks: u64,
    /// With what is not written yet.
    pub(super) past: PastExtent,
}

/// What the thread writes next.
#[derive(Default)]
pub(super) struct Work {
    pub(super) book: Option<Book>,
    pub(super) new_past: BTreeMap<u64, Bytes>,
    pub(super) stale_blocks: u64,
}

impl State {
    fn has_work(&self) -> bool {
        self.dirty || !self.new_past.is_empty() || self.stale_blocks > 0
    }
}

impl SledNodeStore {
    /// Opens the store in `folder`, the data folder of the node.
    ///
    /// # Errors
    /// Only if no thread can be started. See [`NodeStore::health`] for the rest.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let (state, changed, past) = (Mutex::default(), Condvar::new(), OnceLock::new());
        let shared = Arc::new(Shared { state, changed, past });
        let worker = Worker::new(folder, shared.clone());
        let (tell, opened) = channel();
        let thread = thread::Builder::new().name("node-store".to_owned()).spawn(move || {
            let store = worker.open();
            // The opener may have given up; then `closing` is set.
            let _ = tell.send(());
            if let Some(store) = store {
                worker.work(&store);
            }
        })?;
        let hangs = opened.recv_timeout(OPEN_TIMEOUT) == Err(RecvTimeoutError::Timeout);
        if hangs {
            tracing::error!(folder = %folder.display(), "the node store does not open; going on without it");
            let mut state = shared.state();
            state.health.stopped = true;
            state.closing = true;
        }
        Ok(Self { shared, thread: (!hangs).then_some(thread) })
    }

    fn update(&self, change: impl FnOnce(&mut Book)) {
        let mut state = self.shared.state();
        change(&mut state.book);
        if !state.dirty {
            state.dirty = true;
            self.shared.changed.notify_one();
        }
    }
}

impl NodeStore for SledNodeStore {
    fn witness(&self) -> Option<LogPoint> {
        self.shared.state().book.witness()
    }

    fn set_witness(&self, point: LogPoint) {
        self.update(|book| book.set_witness(point));
    }

    fn snapshots(&self) -> Vec<SnapshotEntry> {
        self.shared.state().book.snapshots()
    }

    fn add_snapshot(&self, entry: SnapshotEntry) {
        self.update(|book| book.add_snapshot(entry));
    }

    fn remove_snapshot(&self, file: &str) {
        self.update(|book| book.remove_snapshot(file));
    }

    fn keep_past(&self, blocks: Vec<(u64, Bytes)>) {
        let mut state = self.shared.state();
        if state.health.stopped {
            return; // Nobody would ever write them.
        }
        state.past.blocks += blocks.len() as u64;
        state.past.last = blocks.last().map_or(state.past.last, |(number, _)| *number);
        state.new_past.extend(blocks);
        self.shared.changed.notify_one();
    }

    fn forget_past(&self, blocks: u64) {
        let mut state = self.shared.state();
        state.past.blocks = state.past.blocks.saturating_sub(blocks);
        state.stale_blocks += blocks;
        self.shared.changed.notify_one();
    }

    fn past_before(&self, number: u64) -> Option<(u64, Bytes)> {
        let unwritten = |state: &State| {
            state.new_past.range(..number).next_back().map(|(number, block)| (*number, block.clone()))
        };
        unwritten(&self.shared.state()).or_else(|| {
            let past = self.shared.past.get()?;
            let found = guarded(|| past.range(..number.to_be_bytes()).next_back().transpose());
            found.ok().flatten().and_then(named)
        })
    }

    fn oldest_past(&self) -> Option<(u64, Bytes)> {
        let past = self.shared.past.get()?;
        guarded(|| past.first()).ok().flatten().and_then(named)
    }

    fn past_extent(&self) -> PastExtent {
        self.shared.state().past
    }

    fn health(&self) -> NodeStoreHealth {
        self.shared.state().health
    }
}

/// A block of the past as it lies in the store.
fn named((key, block): (sled::IVec, sled::IVec)) -> Option<(u64, Bytes)> {
    let number = u64::from_be_bytes(key.as_ref().try_into().ok()?);
    Some((number, Bytes::copy_from_slice(&block)))
}

impl Drop for SledNodeStore {
    fn drop(&mut self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It catches panics of sled itself and reports them.
            let _ = thread.join();
        }
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this")
    }

    /// Waits until there is something to write, or nothing ever will be again: then `None`.
    pub(super) fn next_work(&self) -> Option<Work> {
        let mut state = self
            .changed
            .wait_while(self.state(), |state| !state.has_work() && !state.closing)
            .expect("no code panics while it holds this");
        if !state.has_work() {
            return None;
        }
        let book = std::mem::take(&mut state.dirty).then(|| state.book.clone());
        // The blocks stay where readers find them until they are written.
        let stale_blocks = std::mem::take(&mut state.stale_blocks);
        Some(Work { book, new_past: state.new_past.clone(), stale_blocks })
    }

    /// These blocks can be found in the store from now on.
    pub(super) fn note_written(&self, blocks: &BTreeMap<u64, Bytes>) {
        let mut state = self.state();
        blocks.keys().for_each(|number| drop(state.new_past.remove(number)));
    }

    /// Waits for so long, or less if the store is being closed.
    pub(super) fn pause(&self, pause: Duration) {
        let waited = self.changed.wait_timeout_while(self.state(), pause, |state| !state.closing);
        drop(waited.expect("no code panics while it holds this"));
    }
}

#[cfg(test)]
mod tests;
