//! A snapshot that is being written.

use std::io;

use bytes::Bytes;

use super::format::{self, CHUNK_LEN_MAX, HEADER_REST_MAX, Sum};
use super::{PART, SnapshotFile, SnapshotFiles};
use crate::disk::run;
use crate::log::LogPoint;
use crate::world::{DiskLane, DiskOp};

/// What is written is synced in portions: one large sync at the end would hold up those of the log.
const UNSYNCED_MAX: usize = 4 << 20;

/// Dropping it unfinished removes what was written.
pub struct SnapshotWriter {
    files: SnapshotFiles,
    name: String,
    part: String,
    sum: Sum,
    unsynced: usize,
    finished: bool,
}

impl SnapshotWriter {
    pub(super) async fn create(
        files: SnapshotFiles,
        number: u64,
        point: LogPoint,
        meta: Bytes,
    ) -> io::Result<Self> {
        if meta.len() + point.id.len() > HEADER_REST_MAX / 2 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the meta of a snapshot is too long"));
        }
        let name = format::file_name(&point);
        let part = format!("{name}.{number}{PART}");
        let header = format::header(&point, &meta);
        let ops =
            vec![DiskOp::Create { file: part.clone() }, DiskOp::Append { file: part.clone(), bytes: header }];
        let writer = Self { files, name, part, sum: Sum::default(), unsynced: 0, finished: false };
        writer.run(ops).await?;
        Ok(writer)
    }

    /// Adds a chunk of 1 byte to [`CHUNK_LEN_MAX`] bytes.
    ///
    /// # Errors
    /// `InvalidInput` if it has another size; otherwise the disk failed, and the writer is of no more use.
    pub async fn write_chunk(&mut self, bytes: Bytes) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > CHUNK_LEN_MAX {
            let text = format!("{} bytes are no chunk of a snapshot", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let header = format::chunk_header(&bytes);
        self.sum.add(bytes.len(), crc32c::crc32c(&bytes));
        self.unsynced += bytes.len();
        let append = |bytes| DiskOp::Append { file: self.part.clone(), bytes };
        let mut ops = vec![append(header), append(bytes)];
        if self.unsynced >= UNSYNCED_MAX {
            self.unsynced = 0;
            ops.push(DiskOp::Sync { file: self.part.clone() });
        }
        self.run(ops).await
    }

    /// Makes the file durable, reads all of it again, and gives it its name.
    ///
    /// # Errors
    /// `InvalidData` if it does not read as it was written; otherwise the disk failed.
    pub async fn finish(mut self) -> io::Result<SnapshotFile> {
        let trailer = DiskOp::Append { file: self.part.clone(), bytes: self.sum.trailer() };
        self.run(vec![trailer, DiskOp::Sync { file: self.part.clone() }]).await?;
        let snapshot = SnapshotFile::verify(self.files.disk().clone(), &self.part, &self.name).await?;
        let rename = DiskOp::Rename { from: self.part.clone(), to: self.name.clone() };
        self.run(vec![rename, DiskOp::SyncDir]).await?;
        self.finished = true;
        self.files.add(snapshot.clone());
        Ok(snapshot)
    }

    async fn run(&self, ops: Vec<DiskOp>) -> io::Result<()> {
        run(&**self.files.disk(), DiskLane::Bulk, ops).await
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            let remove = vec![DiskOp::Remove { file: self.part.clone() }];
            // If this fails the next start removes it.
            self.files.disk().submit(DiskLane::Bulk, remove, Box::new(|_| {}));
        }
    }
}
