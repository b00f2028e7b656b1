//! A node's store on sled.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::book::Book;
use super::worker::Worker;
use super::{NodeStore, NodeStoreHealth, SnapshotEntry};
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
}

#[derive(Default)]
pub(super) struct State {
    pub(super) book: Book,
    pub(super) dirty: bool,
    /// The store is being closed: write once more and end.
    pub(super) closing: bool,
    pub(super) health: NodeStoreHealth,
}

impl SledNodeStore {
    /// Opens the store in `folder`, the data folder of the node.
    ///
    /// # Errors
    /// Only if no thread can be started. See [`NodeStore::health`] for the rest.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
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

    fn health(&self) -> NodeStoreHealth {
        self.shared.state().health
    }
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
    pub(super) fn next_book(&self) -> Option<Book> {
        let mut state = self
            .changed
            .wait_while(self.state(), |state| !state.dirty && !state.closing)
            .expect("no code panics while it holds this");
        std::mem::take(&mut state.dirty).then(|| state.book.clone())
    }

    /// Waits for so long, or less if the store is being closed.
    pub(super) fn pause(&self, pause: Duration) {
        let waited = self.changed.wait_timeout_while(self.state(), pause, |state| !state.closing);
        drop(waited.expect("no code panics while it holds this"));
    }
}

#[cfg(test)]
mod tests;
