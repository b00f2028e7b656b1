//! Where bytes are kept: the folder of a node, and a folder in memory that can lose power.
//!
//! Both implement [`crate::world::Disk`]. Everything above this module (log, snapshots, identity) speaks to the trait
//! alone, so that the same code runs on a real disk, in a simulation and in unit tests.

mod folder;
mod handles;
mod lane;
mod memory;
mod stats;

use std::io;

use tokio::sync::oneshot;

pub use self::folder::{FolderDisk, OpenFolderError};
pub use self::memory::MemoryDisk;
pub use self::stats::{DiskStats, SyncSummary};
use crate::world::{Disk, DiskLane, DiskOp};

/// Runs one job and waits until it is over.
pub async fn run(disk: &dyn Disk, lane: DiskLane, ops: Vec<DiskOp>) -> io::Result<()> {
    let (tell, told) = oneshot::channel();
    let done = Box::new(move |result| {
        // Nobody listens any more if the waiting future was dropped; the job is done all the same.
        let _ = tell.send(result);
    });
    disk.submit(lane, ops, done);
    told.await.unwrap_or_else(|_| Err(io::Error::other("the disk dropped a job without an answer")))
}

/// Reads exactly `len` bytes from `offset`.
///
/// # Errors
/// `UnexpectedEof` if the file ends before.
pub(crate) fn read_exact_at(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    len: usize,
) -> io::Result<bytes::Bytes> {
    let bytes = disk.read_at(file, offset, len)?;
    if bytes.len() == len {
        return Ok(bytes);
    }
    let text = format!("{file} ends {} bytes after offset {offset}, {len} bytes were expected", bytes.len());
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
}
