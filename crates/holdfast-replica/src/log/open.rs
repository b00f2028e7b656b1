//! Opening a log: read it, cut a torn tail off, count the boot.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::LogLimits;
use super::body::Record;
use super::core::Core;
use super::error::{LogError, OpenReport, TrimmedTail};
use super::replay::{SegmentFile, Torn};
use super::segment;
use crate::disk::{read_exact_at, run};
use crate::identity::StorageId;
use crate::world::{Disk, DiskLane, DiskOp};

/// Everything in the log once this returns is durable, and the boot is counted.
pub(super) async fn open(
    disk: &Arc<dyn Disk>,
    storage_id: StorageId,
    limits: LogLimits,
) -> Result<(Core, OpenReport), LogError> {
    let mut core = Core::new(storage_id, limits);
    let trimmed = read_all(&**disk, &mut core, storage_id)?;
    check_beginning(&core)?;
    let fresh = core.segments().is_empty();
    let mut ops = trimmed.as_ref().map(repair).unwrap_or_default();
    // A process that was killed may have named files whose names would not outlive a power cut.
    ops.push(DiskOp::SyncDir);
    let boot = Record::Boot(core.state().boot + 1);
    if fresh {
        core.begin_segment(&mut ops, 0);
    }
    let last_seq = core.last_seq();
    // Nothing is known to be durable yet of what a crash may have left unsynced.
    ops.extend(core.stage(vec![boot], if fresh { last_seq } else { 0 }).ops);
    run(&**disk, DiskLane::Log, ops).await.map_err(failed("write the boot record"))?;
    Ok((core, OpenReport { fresh, trimmed }))
}

fn read_all(
    disk: &dyn Disk,
    core: &mut Core,
    storage_id: StorageId,
) -> Result<Option<TrimmedTail>, LogError> {
    let segments = list(disk)?;
    let last = segments.last().copied();
    let mut trimmed = None;
    for first_seq in segments {
        let data = read(disk, &segment::file_name(first_seq))?;
        let len = data.len() as u64;
        let file = SegmentFile { first_seq, data, is_last: Some(first_seq) == last };
        if let Some(Torn { offset, what }) = file.replay(core, storage_id)? {
            let offset = offset as u64;
            trimmed =
                Some(TrimmedTail { file: segment::file_name(first_seq), offset, bytes: len - offset, what });
        }
    }
    Ok(trimmed)
}

/// The first sequence numbers of all segments, lowest first.
fn list(disk: &dyn Disk) -> Result<Vec<u64>, LogError> {
    let files = disk.list().map_err(failed("list the folder"))?;
    let mut segments = Vec::new();
    for file in files {
        match segment::parse_file_name(&file) {
            None => {}
            Some(Some(first_seq)) => segments.push(first_seq),
            Some(None) => {
                let what = "its name is none that this log gives".to_owned();
                return Err(LogError::Damaged { file, offset: 0, index: None, what });
            }
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

fn read(disk: &dyn Disk, file: &str) -> Result<Bytes, LogError> {
    let whole = || {
        let len = usize::try_from(disk.len(file)?).expect("addresses have 64 bits");
        read_exact_at(disk, file, 0, len)
    };
    whole().map_err(failed(&format!("read {file}")))
}

/// The oldest segment must reach back to the first entry that is not purged.
fn check_beginning(core: &Core) -> Result<(), LogError> {
    let Some(oldest) = core.segments().front() else { return Ok(()) };
    let needed = core.state().first_index();
    if core.first_entry() == needed {
        return Ok(());
    }
    let what = format!("the segment before it, with entry {needed}, is missing");
    Err(LogError::Damaged { file: oldest.file(), offset: 0, index: Some(needed), what })
}

/// Cuts the tail off, durably, before anything is written behind it.
fn repair(tail: &TrimmedTail) -> Vec<DiskOp> {
    let file = tail.file.clone();
    match tail.offset {
        0 => vec![DiskOp::Remove { file }, DiskOp::SyncDir],
        len => vec![DiskOp::Truncate { file: file.clone(), len }, DiskOp::Sync { file }],
    }
}

fn failed(doing: &str) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { doing: doing.to_owned(), source }
}
