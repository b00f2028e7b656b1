//! Snapshots as plain files: written in checksummed chunks beside the others, verified, and only then given their name.
//!
//! What a snapshot contains and what its `meta` means is its user's business. See [`format`] for the layout.

mod file;
mod format;
mod writer;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

pub use self::file::SnapshotFile;
pub use self::format::CHUNK_LEN_MAX;
pub use self::writer::SnapshotWriter;
use crate::disk::run;
use crate::log::LogPoint;
use crate::world::{Disk, DiskLane, DiskOp};

/// Files with this ending are incomplete and of no use after a restart.
const PART: &str = ".part";

/// The snapshots of one folder. Clones are handles of the same.
#[derive(Clone)]
pub struct SnapshotFiles(Arc<Shared>);

struct Shared {
    disk: Arc<dyn Disk>,
    next_part: AtomicU64,
    /// Verified ones, newest first.
    sound: Mutex<Vec<SnapshotFile>>,
}

/// A file that was there when the folder was opened.
#[derive(Clone, Debug)]
pub struct FoundSnapshot {
    /// Name of the file.
    pub file: String,
    /// Index of the last entry that it covers, as its name says.
    pub index: u64,
    /// The snapshot, or what is wrong with it.
    pub snapshot: Result<SnapshotFile, String>,
}

impl SnapshotFiles {
    /// Removes incomplete files and reads and verifies all others; they are returned newest first.
    ///
    /// A damaged one is no error here: whether an older one will do depends on whether the log still has what follows it.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn open(disk: Arc<dyn Disk>) -> io::Result<(Self, Vec<FoundSnapshot>)> {
        let files = disk.list()?;
        remove(&*disk, files.iter().filter(|file| is_part(file))).await?;
        let mut named: Vec<_> =
            files.into_iter().filter_map(|file| Some((format::index_of_file(&file)?, file))).collect();
        named.sort_unstable_by(|a, b| b.cmp(a));
        let mut found = Vec::with_capacity(named.len());
        for (index, file) in named {
            let snapshot =
                SnapshotFile::verify(disk.clone(), &file, &file).await.map_err(|error| error.to_string());
            found.push(FoundSnapshot { file, index, snapshot });
        }
        let sound = found.iter().filter_map(|found| found.snapshot.as_ref().ok().cloned()).collect();
        let shared = Shared { disk, next_part: AtomicU64::new(1), sound: Mutex::new(sound) };
        Ok((Self(Arc::new(shared)), found))
    }

    /// Begins a snapshot of everything up to `point`. Several may be written at the same time.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn create(&self, point: LogPoint, meta: Bytes) -> io::Result<SnapshotWriter> {
        let number = self.0.next_part.fetch_add(1, Ordering::Relaxed);
        SnapshotWriter::create(self.clone(), number, point, meta).await
    }

    /// The newest snapshot.
    pub fn newest(&self) -> Option<SnapshotFile> {
        self.sound().first().cloned()
    }

    /// Removes snapshots, sound or damaged, that are older than the `count` newest sound ones, unless somebody still
    /// holds them. Nothing is removed while there are fewer.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn retain(&self, count: usize) -> io::Result<()> {
        let Some(oldest_kept) = count.checked_sub(1).and_then(|at| Some(self.sound().get(at)?.point().index))
        else {
            return Ok(());
        };
        let in_use = self.release_older(oldest_kept);
        let is_old = |file: &String| format::index_of_file(file).is_some_and(|index| index < oldest_kept);
        let files = self.0.disk.list()?;
        remove(&*self.0.disk, files.iter().filter(|file| is_old(file) && !in_use.contains(file))).await
    }

    /// Forgets the snapshots before `index` that nobody holds, and names those that somebody does.
    fn release_older(&self, index: u64) -> Vec<String> {
        let mut sound = self.sound();
        sound.retain(|snapshot| snapshot.point().index >= index || snapshot.is_held_elsewhere());
        let older = sound.iter().filter(|snapshot| snapshot.point().index < index);
        older.map(|snapshot| snapshot.file().to_owned()).collect()
    }

    fn disk(&self) -> &Arc<dyn Disk> {
        &self.0.disk
    }

    fn add(&self, snapshot: SnapshotFile) {
        let mut sound = self.sound();
        sound.retain(|other| other.file() != snapshot.file());
        let at = sound.partition_point(|other| other.point().index > snapshot.point().index);
        sound.insert(at, snapshot);
    }

    fn sound(&self) -> MutexGuard<'_, Vec<SnapshotFile>> {
        self.0.sound.lock().expect("no code panics while it holds this")
    }
}

fn is_part(file: &str) -> bool {
    file.strip_suffix(PART).is_some_and(|name| name.starts_with(format::NAME_PREFIX))
}

async fn remove(disk: &dyn Disk, files: impl Iterator<Item = &String>) -> io::Result<()> {
    let mut ops: Vec<_> = files.map(|file| DiskOp::Remove { file: file.clone() }).collect();
    if ops.is_empty() {
        return Ok(());
    }
    ops.push(DiskOp::SyncDir);
    run(disk, DiskLane::Bulk, ops).await
}

#[cfg(test)]
mod tests;
