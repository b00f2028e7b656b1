//! A complete, verified snapshot.

use std::fmt::{Debug, Formatter};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::format::{self, CHUNK_HEADER_LEN, HEADER_LEN, Sum, TRAILER_LEN};
use crate::disk::read_exact_at;
use crate::log::LogPoint;
use crate::world::Disk;

/// A snapshot whose every byte was found right when it was written or found. Chunks are read and checked again one
/// at a time. The file stays as long as somebody has a clone of this.
#[derive(Clone)]
pub struct SnapshotFile(Arc<Content>);

struct Content {
    disk: Arc<dyn Disk>,
    file: String,
    point: LogPoint,
    meta: Bytes,
    sum: Sum,
    file_len: u64,
    chunks: Vec<Chunk>,
}

struct Chunk {
    offset: u64,
    len: u32,
    crc: u32,
}

impl SnapshotFile {
    /// Name of the file in the node's folder.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The last entry that the snapshot covers.
    pub fn point(&self) -> &LogPoint {
        &self.0.point
    }

    /// What its writer said of it.
    pub fn meta(&self) -> &Bytes {
        &self.0.meta
    }

    /// Number of chunks.
    pub fn chunk_count(&self) -> usize {
        self.0.chunks.len()
    }

    /// Bytes in all chunks together.
    pub fn content_len(&self) -> u64 {
        self.0.sum.bytes
    }

    /// Length of the file, in bytes.
    pub fn file_len(&self) -> u64 {
        self.0.file_len
    }

    /// One chunk, counted from 0.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such chunk, `InvalidData` if it is not what was written.
    pub fn read_chunk(&self, number: usize) -> io::Result<Bytes> {
        let content = &*self.0;
        let Some(chunk) = content.chunks.get(number) else {
            let text = format!("{} has no chunk {number}", content.file);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        read_chunk(&*content.disk, &content.file, chunk)
    }

    /// Reads all of `file`, which has or is to get the name `name`.
    pub(super) async fn verify(disk: Arc<dyn Disk>, file: &str, name: &str) -> io::Result<Self> {
        let damaged = |what| damaged(file, what);
        let (point, meta, mut offset) = read_header(&*disk, file)?;
        if format::file_name(&point) != name {
            return Err(damaged("its name is that of another snapshot".to_owned()));
        }
        let mut sum = Sum::default();
        let mut chunks = Vec::new();
        loop {
            let header = disk.read_at(file, offset, CHUNK_HEADER_LEN)?;
            let Some((len, crc)) = format::read_chunk_header(&header).map_err(damaged)? else { break };
            let len_u32 = u32::try_from(len).expect("a chunk is at most 1 MiB");
            let chunk = Chunk { offset: offset + CHUNK_HEADER_LEN as u64, len: len_u32, crc };
            read_chunk(&*disk, file, &chunk)?;
            offset = chunk.offset + len as u64;
            sum.add(len, crc);
            chunks.push(chunk);
            let_others_run().await;
        }
        if disk.read_at(file, offset, TRAILER_LEN + 1)? != sum.trailer() {
            return Err(damaged("its trailer does not fit its chunks".to_owned()));
        }
        let file_len = offset + TRAILER_LEN as u64;
        Ok(Self(Arc::new(Content { disk, file: name.to_owned(), point, meta, sum, file_len, chunks })))
    }

    /// Whether anybody but one holds this.
    pub(super) fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Debug for SnapshotFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotFile").field("file", &self.0.file).field("sum", &self.0.sum).finish()
    }
}

fn read_header(disk: &dyn Disk, file: &str) -> io::Result<(LogPoint, Bytes, u64)> {
    let header = disk.read_at(file, 0, HEADER_LEN)?;
    let (rest_len, crc_so_far, crc) = format::read_header(&header).map_err(|what| damaged(file, what))?;
    let rest = disk.read_at(file, HEADER_LEN as u64, rest_len)?;
    let (point, meta) = format::read_header_rest(rest, crc_so_far, crc)
        .ok_or_else(|| damaged(file, "the checksum of its header is wrong".to_owned()))?;
    Ok((point, meta, (HEADER_LEN + rest_len) as u64))
}

fn read_chunk(disk: &dyn Disk, file: &str, chunk: &Chunk) -> io::Result<Bytes> {
    let bytes = read_exact_at(disk, file, chunk.offset, chunk.len as usize)?;
    if crc32c::crc32c(&bytes) != chunk.crc {
        return Err(damaged(file, format!("the checksum of the chunk at offset {} is wrong", chunk.offset)));
    }
    Ok(bytes)
}

fn damaged(file: &str, what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{file} is damaged: {what}"))
}

/// Gives way once: a large file is not read in one go.
async fn let_others_run() {
    let mut gave_way = false;
    poll_fn(|context| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
