//! A node's folder on a real file system.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::lane::Lane;
use super::stats::DiskStats;
use crate::world::{Disk, DiskDone, DiskLane, DiskOp};

/// Held exclusively for as long as a process uses the folder. It is no file of the disk.
const LOCK_FILE: &str = "lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenFolderError {
    /// Another process works in it. Two of them would ruin each other's files.
    #[error("the data folder {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// It cannot be created, locked or synced.
    #[error("the data folder {} cannot be opened: {source}", .folder.display())]
    Io {
        /// The folder asked for.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The files of one folder, which no other process may use at the same time.
///
/// Each lane is a thread. While one sync is under way further jobs queue up; those which only append to the same file
/// and sync it then share one write and one sync. A file belongs to one lane from its creation until it is removed.
pub struct FolderDisk {
    folder: PathBuf,
    log: Lane,
    log_stats: Arc<DiskStats>,
    bulk: Lane,
    bulk_stats: Arc<DiskStats>,
}

impl FolderDisk {
    /// Creates the folder if there is none, locks it and starts its lanes.
    ///
    /// # Errors
    /// [`OpenFolderError::InUse`] while another process, or another value of this type, has it.
    pub fn open(folder: &Path) -> Result<Self, OpenFolderError> {
        let failed = |source| OpenFolderError::Io { folder: folder.to_owned(), source };
        create_durably(folder).map_err(failed)?;
        let lock = Arc::new(lock(folder)?);
        let log_stats = Arc::<DiskStats>::default();
        let bulk_stats = Arc::<DiskStats>::default();
        Ok(Self {
            folder: folder.to_owned(),
            log: Lane::start("disk-log", folder, log_stats.clone(), lock.clone()).map_err(failed)?,
            log_stats,
            bulk: Lane::start("disk-bulk", folder, bulk_stats.clone(), lock).map_err(failed)?,
            bulk_stats,
        })
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a lane has done so far.
    pub fn stats(&self, lane: DiskLane) -> Arc<DiskStats> {
        match lane {
            DiskLane::Log => self.log_stats.clone(),
            DiskLane::Bulk => self.bulk_stats.clone(),
        }
    }
}

impl Disk for FolderDisk {
    fn submit(&self, lane: DiskLane, ops: Vec<DiskOp>, done: DiskDone) {
        match lane {
            DiskLane::Log => self.log.submit(ops, done),
            DiskLane::Bulk => self.bulk.submit(ops, done),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name != LOCK_FILE && entry.file_type()?.is_file() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn len(&self, file: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.folder.join(file))?.len())
    }

    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        let open = File::open(self.folder.join(file))?;
        let there = open.metadata()?.len().saturating_sub(offset);
        let len = usize::try_from(there).map_or(len, |there| there.min(len));
        let mut bytes = BytesMut::zeroed(len);
        let mut filled = 0;
        while filled < len {
            match open.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes.freeze())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let path = CString::new(self.folder.as_os_str().as_bytes())?;
        let mut answer = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `path` ends in a zero byte and `answer` is large enough; both outlive the call.
        if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded and has filled it.
        let answer = unsafe { answer.assume_init() };
        Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
    }
}

/// Creates the folder so that it outlives a power cut.
fn create_durably(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let above = fs::canonicalize(folder)?;
    match above.parent() {
        Some(above) => File::open(above)?.sync_all(),
        None => Ok(()),
    }
}

fn lock(folder: &Path) -> Result<File, OpenFolderError> {
    let failed = |source| OpenFolderError::Io { folder: folder.to_owned(), source };
    let path = folder.join(LOCK_FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenFolderError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests;
