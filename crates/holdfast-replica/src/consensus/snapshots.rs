//! Snapshots as openraft wants them: built from a copy of the state, kept as files, read back into a table.

use std::io;
use std::marker::PhantomData;

use bytes::Bytes;
use holdfast_core::{LockTable, SnapshotReader, SnapshotView};
use openraft::storage::{RaftSnapshotBuilder, Snapshot};

use crate::consensus::codec;
use crate::consensus::types::{SnapshotMeta, Types};
use crate::log::LogPoint;
use crate::snapshot_files::{CHUNK_LEN_MAX, SnapshotFile, SnapshotFiles, SnapshotWriter};
use crate::world::Runtime;

/// So many snapshots are kept: the newest, and one in case that it cannot be read.
const KEPT: usize = 2;

/// The snapshots of this node.
pub(crate) struct SnapshotStore<R> {
    files: SnapshotFiles,
    _runtime: PhantomData<fn() -> R>,
}

impl<R> Clone for SnapshotStore<R> {
    fn clone(&self) -> Self {
        Self { files: self.files.clone(), _runtime: PhantomData }
    }
}

impl<R: Runtime> SnapshotStore<R> {
    pub(crate) fn new(files: SnapshotFiles) -> Self {
        Self { files, _runtime: PhantomData }
    }

    /// The newest one. A heading that cannot be read is as good as no snapshot.
    pub(crate) fn current(&self) -> Option<(SnapshotMeta<R>, SnapshotFile)> {
        let file = self.files.newest()?;
        match codec::decode_meta::<R>(file.meta()) {
            Ok(meta) => Some((meta, file)),
            Err(error) => {
                tracing::error!(file = file.file(), %error, "a snapshot has an unknown heading");
                None
            }
        }
    }

    /// Index and size in bytes of the newest one; zeros if there is none.
    pub(crate) fn newest(&self) -> (u64, u64) {
        self.files.newest().map_or((0, 0), |file| (file.point().index, file.file_len()))
    }

    /// File name of the newest one.
    pub(crate) fn newest_file(&self) -> Option<String> {
        self.files.newest().map(|file| file.file().to_owned())
    }

    /// Begins one that ends where `meta` says.
    pub(crate) async fn begin(&self, meta: &SnapshotMeta<R>) -> io::Result<SnapshotWriter> {
        let point = match &meta.last_log_id {
            Some(last) => LogPoint { index: last.index, id: codec::encode_term::<R>(last) },
            None => LogPoint { index: 0, id: Bytes::new() }, // Nothing is applied yet.
        };
        self.files.create(point, codec::encode_meta::<R>(meta)).await
    }

    /// Makes sure that a snapshot that comes from elsewhere is kept here.
    ///
    /// What was received from a leader is already: this is for whoever has it from another folder.
    pub(crate) async fn adopt(&self, meta: &SnapshotMeta<R>, file: &SnapshotFile) -> io::Result<()> {
        let has_it = self.files.newest().is_some_and(|newest| newest.point().index >= file.point().index);
        if !has_it {
            let mut writer = self.begin(meta).await?;
            for number in 0..file.chunk_count() {
                writer.write_chunk(file.read_chunk(number)?).await?;
            }
            writer.finish().await?;
        }
        self.retire_old().await
    }

    /// Drops the ones that are not needed any more.
    pub(crate) async fn retire_old(&self) -> io::Result<()> {
        self.files.retain(KEPT).await
    }
}

/// Writes out a copy of the state.
pub(crate) struct SnapshotBuilder<R: Runtime> {
    meta: SnapshotMeta<R>,
    view: SnapshotView,
    store: SnapshotStore<R>,
}

impl<R: Runtime> SnapshotBuilder<R> {
    pub(crate) fn new(meta: SnapshotMeta<R>, view: SnapshotView, store: SnapshotStore<R>) -> Self {
        Self { meta, view, store }
    }
}

impl<R: Runtime> RaftSnapshotBuilder<Types<R>> for SnapshotBuilder<R> {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(
        &mut self,
    ) -> Result<openraft::alias::SnapshotOf<Types<R>, SnapshotFile>, io::Error> {
        let mut writer = self.store.begin(&self.meta).await?;
        while let Some(piece) = self.view.next_piece() {
            let mut piece = Bytes::from(piece);
            while !piece.is_empty() {
                writer.write_chunk(piece.split_to(piece.len().min(CHUNK_LEN_MAX))).await?;
            }
        }
        let snapshot = writer.finish().await?;
        self.store.retire_old().await?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot })
    }
}

/// The table that a snapshot holds.
pub(crate) fn read_table(file: &SnapshotFile) -> io::Result<LockTable> {
    let mut reader = SnapshotReader::default();
    for number in 0..file.chunk_count() {
        reader.push(&file.read_chunk(number)?).map_err(io::Error::other)?;
    }
    reader.finish().map_err(io::Error::other)
}
