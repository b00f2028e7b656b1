//! Reading entries: some from memory, older ones from disk, checked again.

use std::io;

use bytes::Bytes;

use super::LogRecord;
use super::body::Record;
use super::index::Location;
use super::record::Seal;
use super::segment;
use crate::disk::read_exact_at;
use crate::world::Disk;

/// Entries that lie no further apart than this are read together, in bytes.
const GAP_MAX: u64 = 64 << 10;

/// Consecutive entries: first those on disk, then those in memory.
pub(super) struct ReadPlan {
    seal: Seal,
    first: u64,
    on_disk: Vec<Location>,
    in_memory: Vec<LogRecord>,
}

impl ReadPlan {
    pub(super) fn new(seal: Seal, first: u64) -> Self {
        Self { seal, first, on_disk: Vec::new(), in_memory: Vec::new() }
    }

    pub(super) fn add_on_disk(&mut self, location: Location) {
        self.on_disk.push(location);
    }

    pub(super) fn add_cached(&mut self, entry: LogRecord) {
        self.in_memory.push(entry);
    }

    pub(super) fn first_on_disk(&self) -> Option<u64> {
        (!self.on_disk.is_empty()).then_some(self.first)
    }

    /// Reads what has to be read.
    pub(super) fn run(&self, disk: &dyn Disk) -> io::Result<Vec<LogRecord>> {
        let mut entries = Vec::with_capacity(self.on_disk.len() + self.in_memory.len());
        for stretch in self.on_disk.chunk_by(|a, b| are_near(*a, *b)) {
            let (first, last) = (stretch[0], stretch[stretch.len() - 1]);
            let file = segment::file_name(first.segment);
            let len =
                usize::try_from(last.end() - u64::from(first.offset)).expect("a segment is below 4 GiB");
            let bytes = read_exact_at(disk, &file, first.offset.into(), len)?;
            for location in stretch {
                let at = (location.offset - first.offset) as usize;
                let record = bytes.slice(at..at + location.len as usize);
                let index = self.first + entries.len() as u64;
                let entry = self.entry(record, index).ok_or_else(|| damaged(&file, *location, index))?;
                entries.push(entry);
            }
        }
        entries.extend_from_slice(&self.in_memory);
        Ok(entries)
    }

    fn entry(&self, record: Bytes, index: u64) -> Option<LogRecord> {
        let frame = self.seal.read(&record).ok()?;
        match Record::read(frame.kind, frame.body)? {
            Record::Entry(entry) if entry.index == index => Some(entry),
            _ => None,
        }
    }
}

fn are_near(a: Location, b: Location) -> bool {
    a.segment == b.segment && u64::from(b.offset) - a.end() <= GAP_MAX
}

fn damaged(file: &str, location: Location, index: u64) -> io::Error {
    let text = format!(
        "{file} is damaged at offset {}: entry {index} is not what was written. This node must not go on with it. \
         Remove the node from the cluster, then let it join anew with an empty data folder",
        location.offset
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}
