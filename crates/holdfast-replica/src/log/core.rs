//! The log in memory, and how a change becomes bytes.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::body::{HardState, Record};
use super::cache::Cache;
use super::index::{Index, Location};
use super::invalid;
use super::read::ReadPlan;
use super::record::{BODY_LEN_MAX, HEADER_LEN, Seal};
use super::segment::{self, Segment};
use super::{LogLimits, LogPoint, LogRecord};
use crate::identity::StorageId;
use crate::world::DiskOp;

/// What an entry may have besides its payload: its id and a few numbers.
const ENTRY_EXTRA_MAX: usize = 1 << 20;

/// Everything the log knows. What was staged last is in it, durable or not.
pub(super) struct Core {
    storage_id: StorageId,
    seal: Seal,
    limits: LogLimits,
    /// Oldest first; the last one is written to. Empty only while the log is being opened.
    segments: VecDeque<Segment>,
    last_seq: u64,
    state: HardState,
    /// Whether `state.committed` is newer than what was written.
    committed_is_new: bool,
    index: Index,
    cache: Cache,
}

/// Steps for the disk, and how far the log is durable when they are done.
pub(super) struct Staged {
    pub(super) ops: Vec<DiskOp>,
    pub(super) last_seq: u64,
    pub(super) end_of_log: u64,
}

impl Core {
    /// A log without any record or segment.
    pub(super) fn new(storage_id: StorageId, limits: LogLimits) -> Self {
        Self {
            storage_id,
            seal: Seal::new(storage_id),
            limits,
            segments: VecDeque::new(),
            last_seq: 0,
            state: HardState::default(),
            committed_is_new: false,
            index: Index::default(),
            cache: Cache::new(limits.cache_bytes),
        }
    }

    pub(super) fn state(&self) -> &HardState {
        &self.state
    }

    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Index of the first entry that there is.
    pub(super) fn first_entry(&self) -> u64 {
        self.index.first()
    }

    pub(super) fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    /// Takes up a segment that follows the last one.
    pub(super) fn add_segment(&mut self, first_seq: u64, len: u64) {
        let bytes_before = self.segments.back().map_or(0, |last| last.bytes_before + last.len);
        self.segments.push_back(Segment { first_seq, len, bytes_before });
    }

    /// Takes up a record that is, or is about to be, at `location`.
    ///
    /// # Errors
    /// What is wrong with it, if it cannot follow what came before.
    pub(super) fn apply(&mut self, seq: u64, record: Record, location: Location) -> Result<(), String> {
        match record {
            Record::Entry(entry) => self.apply_entry(seq, entry, location)?,
            Record::Vote(vote) => self.state.vote = Some(vote),
            Record::TruncateAfter(last) => {
                self.state.last = last;
                self.index.truncate(self.state.next_index());
                self.cache.truncate(self.state.next_index());
            }
            Record::Purge(point) => self.apply_purge(point),
            Record::Committed(committed) => self.state.committed = Some(committed),
            Record::Boot(boot) => self.state.boot = boot,
            Record::State(state) => self.apply_state(*state)?,
        }
        self.last_seq = seq;
        Ok(())
    }

    fn apply_entry(&mut self, seq: u64, entry: LogRecord, location: Location) -> Result<(), String> {
        let expected = self.state.next_index();
        if entry.index != expected {
            return Err(format!("entry {} is where entry {expected} should be", entry.index));
        }
        self.state.last = Some(LogPoint { index: entry.index, id: entry.id.clone() });
        self.index.push(location);
        self.cache.push(seq, entry);
        Ok(())
    }

    fn apply_purge(&mut self, point: LogPoint) {
        let next = self.state.next_index();
        if point.index + 1 > next || (point.index + 1 == next && self.state.last.as_ref() != Some(&point)) {
            // A snapshot from elsewhere: what is in memory may be of another history.
            self.cache.clear();
            self.state.last = Some(point.clone());
        }
        self.index.drop_before(point.index + 1);
        self.state.purged = Some(point);
    }

    fn apply_state(&mut self, state: HardState) -> Result<(), String> {
        if self.last_seq == 0 {
            self.index.begin_at(state.next_index());
            self.state = state;
            return Ok(());
        }
        // The newest committed point may have gone to disk with the segment itself.
        self.state.committed.clone_from(&state.committed);
        if self.state != state {
            return Err(format!(
                "it begins with {state:?}, but the segment before it ends with {:?}",
                self.state
            ));
        }
        Ok(())
    }

    /// Makes bytes of `records` and takes them up. The caller has checked that they fit.
    pub(super) fn stage(&mut self, records: Vec<Record>, durable_seq: u64) -> Staged {
        let mut ops = Vec::with_capacity(2);
        if self.active().len >= self.limits.segment_bytes {
            ops.push(DiskOp::Sync { file: self.active().file() });
            self.begin_segment(&mut ops, durable_seq);
        }
        let committed = self.state.committed.clone().filter(|_| std::mem::take(&mut self.committed_is_new));
        self.append(committed.map(Record::Committed), records, durable_seq, &mut ops);
        self.shrink(durable_seq);
        Staged { ops, last_seq: self.last_seq, end_of_log: self.end_of_log() }
    }

    /// Drops what need not be in memory; entries up to `durable_seq` can be read from disk.
    pub(super) fn shrink(&mut self, durable_seq: u64) {
        self.cache.shrink(durable_seq, self.state.first_index());
    }

    /// Begins a segment with the present state; it is durable before anything else is written.
    pub(super) fn begin_segment(&mut self, ops: &mut Vec<DiskOp>, durable_seq: u64) {
        let first_seq = self.last_seq + 1;
        let file = segment::file_name(first_seq);
        let mut bytes = BytesMut::new();
        segment::write_header(&mut bytes, first_seq, self.storage_id);
        let state = Record::State(Box::new(self.state.clone()));
        self.seal.write(&mut bytes, state.kind(), first_seq, durable_seq, |out| state.write_body(out));
        self.add_segment(first_seq, bytes.len() as u64);
        self.last_seq = first_seq;
        self.committed_is_new = false;
        ops.extend([
            DiskOp::Create { file: file.clone() },
            DiskOp::Append { file: file.clone(), bytes: bytes.freeze() },
            DiskOp::Sync { file },
            DiskOp::SyncDir,
        ]);
    }

    fn append(
        &mut self,
        first: Option<Record>,
        records: Vec<Record>,
        durable_seq: u64,
        ops: &mut Vec<DiskOp>,
    ) {
        let Segment { first_seq: segment, len: start, .. } = *self.active();
        let file = self.active().file();
        let len_hint = records.iter().chain(&first).map(|record| HEADER_LEN + record.body_len_hint()).sum();
        let mut out = BytesMut::with_capacity(len_hint);
        for record in first.into_iter().chain(records) {
            let (seq, at) = (self.last_seq + 1, out.len());
            self.seal.write(&mut out, record.kind(), seq, durable_seq, |out| record.write_body(out));
            let location = Location {
                segment,
                offset: u32::try_from(start + at as u64).expect("a segment is far below 4 GiB"),
                len: u32::try_from(out.len() - at).expect("a record is at most 64 MiB"),
            };
            self.apply(seq, record, location).expect("it was checked before it was staged");
        }
        self.segments.back_mut().expect("an open log has a segment").len += out.len() as u64;
        if !out.is_empty() {
            ops.push(DiskOp::Append { file: file.clone(), bytes: out.freeze() });
        }
        ops.push(DiskOp::Sync { file });
    }

    pub(super) fn check_entries(&self, entries: &[LogRecord]) -> io::Result<()> {
        for (entry, expected) in entries.iter().zip(self.state.next_index()..) {
            if entry.index != expected {
                return Err(invalid(format!("entry {} cannot be appended, {expected} is next", entry.index)));
            }
            if entry.payload.len() > BODY_LEN_MAX - ENTRY_EXTRA_MAX || entry.id.len() > ENTRY_EXTRA_MAX / 2 {
                return Err(invalid(format!("entry {} is too large", entry.index)));
            }
        }
        let bytes: usize = entries.iter().map(|entry| entry.id.len() + entry.payload.len() + 64).sum();
        if self.active().len + bytes as u64 > u64::from(u32::MAX) {
            return Err(invalid(format!("{bytes} bytes of entries are too many at once")));
        }
        Ok(())
    }

    pub(super) fn check_purge(&self, point: &LogPoint) -> io::Result<()> {
        match &self.state.purged {
            Some(purged) if purged.index > point.index => Err(invalid(format!(
                "cannot purge up to {}: {} is purged already",
                point.index, purged.index
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn set_committed(&mut self, committed: Bytes) {
        self.state.committed = Some(committed);
        self.committed_is_new = true;
    }

    /// Forgets the segments that have no entry which is still needed, and names their files. The last one stays.
    pub(super) fn take_purged_segments(&mut self) -> Vec<String> {
        let needed = self.index.get(self.index.first()).map_or(u64::MAX, |location| location.segment);
        let is_needed = |segment: &Segment| segment.first_seq >= needed;
        let count = self.segments.iter().position(is_needed).unwrap_or(self.segments.len());
        let count = count.min(self.segments.len() - 1);
        self.segments.drain(..count).map(|segment| segment.file()).collect()
    }

    /// Which entries of `range` to answer with, and where they are.
    pub(super) fn plan_read(&self, range: Range<u64>, bytes_max: usize) -> ReadPlan {
        let in_memory = self.cache.first().unwrap_or(u64::MAX);
        let first = range.start.max(self.index.first().min(in_memory));
        let mut plan = ReadPlan::new(self.seal, first);
        let mut bytes = 0;
        for index in first..range.end.min(self.state.next_index()) {
            let cached = self.cache.get(index);
            let len = match (cached, self.index.get(index)) {
                (Some(entry), _) => HEADER_LEN + entry.id.len() + entry.payload.len(),
                (None, Some(location)) => location.len as usize,
                (None, None) => break,
            };
            bytes += len;
            if bytes > bytes_max && index > first {
                break;
            }
            match cached {
                Some(entry) => plan.add_cached(entry.clone()),
                None => plan.add_on_disk(self.index.get(index).expect("looked up above")),
            }
        }
        plan
    }

    pub(super) fn bytes_since(&self, index: u64) -> u64 {
        let end = self.end_of_log();
        match self.index.get(index.max(self.index.first())) {
            Some(location) if index >= self.index.first() => {
                end - self.position(location) - u64::from(location.len)
            }
            Some(location) => end - self.position(location),
            None => 0,
        }
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// The newest entry up to `committed` that ends before `limit`, which counts as [`Core::end_of_log`] does.
    pub(super) fn newest_before(&self, limit: u64, committed: u64) -> Option<u64> {
        let ends_before = |location: &Location| self.position(*location) + u64::from(location.len) <= limit;
        let before = self.index.partition_point(ends_before);
        let newest = (self.index.first() + before).checked_sub(1)?.min(committed);
        (newest >= self.index.first()).then_some(newest)
    }

    /// How many bytes of log lie before a record, counted since the log was opened.
    fn position(&self, location: Location) -> u64 {
        let at = self.segments.partition_point(|segment| segment.first_seq < location.segment);
        self.segments[at].bytes_before + u64::from(location.offset)
    }

    /// Bytes of log written or under way, counted since the log was opened.
    pub(super) fn end_of_log(&self) -> u64 {
        self.active().bytes_before + self.active().len
    }

    fn active(&self) -> &Segment {
        self.segments.back().expect("an open log has a segment")
    }
}
