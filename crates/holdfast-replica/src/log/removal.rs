//! Removing segments that are no longer needed.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::world::{Disk, DiskLane, DiskOp};

/// Segments on their way out, oldest first.
///
/// A gap between segments is damage. So they go one at a time, each durably before the next; and one that could not be
/// removed is tried again before any newer one.
#[derive(Default)]
pub(super) struct Removal(Mutex<Vec<String>>);

impl Removal {
    /// Removes `files`, which are newer than all those before, on the bulk lane.
    pub(super) fn remove(self: &Arc<Self>, disk: &dyn Disk, files: Vec<String>) {
        if files.is_empty() {
            return;
        }
        let all = {
            let mut waiting = self.waiting();
            waiting.extend(files);
            waiting.clone()
        };
        let ops =
            all.iter().flat_map(|file| [DiskOp::Remove { file: file.clone() }, DiskOp::SyncDir]).collect();
        let removal = self.clone();
        disk.submit(DiskLane::Bulk, ops, Box::new(move |result| removal.over(&all, result)));
    }

    fn over(&self, files: &[String], result: io::Result<()>) {
        match result {
            Ok(()) => self.waiting().retain(|file| !files.contains(file)),
            Err(error) => {
                tracing::warn!(%error, "purged segments of the log were not removed; they will be later")
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no code panics while it holds this")
    }
}
