//! Taking up what the segments say, one after the other.

use bytes::Bytes;

use super::body::Record;
use super::core::Core;
use super::error::LogError;
use super::index::Location;
use super::record::Frame;
use super::scan::Scan;
use super::segment::{self, Header, SEGMENT_HEADER_LEN, VERSION};
use crate::identity::StorageId;

/// Where a segment stops being whole because of a crash, and how that shows. Offset 0: nothing of it is of use.
pub(super) struct Torn {
    pub(super) offset: usize,
    pub(super) what: String,
}

/// One file, with its whole content.
pub(super) struct SegmentFile {
    pub(super) first_seq: u64,
    pub(super) data: Bytes,
    /// Only the last one can end in a torn tail: it is durable before the next one is begun.
    pub(super) is_last: bool,
}

impl SegmentFile {
    /// Takes up all records of the segment, up to a torn tail if there is one.
    pub(super) fn replay(&self, core: &mut Core, storage_id: StorageId) -> Result<Option<Torn>, LogError> {
        self.check_order(core)?;
        let mut scan =
            Scan { data: &self.data, seal: core.seal(), at: SEGMENT_HEADER_LEN, next_seq: self.first_seq };
        if let Some(what) = self.check_header(core, storage_id)? {
            scan.at = 0;
            return self.torn_or_damaged(core, &scan, what).map(Some);
        }
        let mut torn = None;
        while let Some(next) = scan.next() {
            match next {
                Ok((at, frame)) => self.take_up(core, at, frame)?,
                Err(what) => {
                    torn = Some(self.torn_or_damaged(core, &scan, what)?);
                    break;
                }
            }
        }
        if scan.next_seq == self.first_seq {
            let what = torn.map_or_else(|| "it has no record".to_owned(), |torn| torn.what);
            return self.torn_or_damaged(core, &scan, what).map(|torn| Some(Torn { offset: 0, ..torn }));
        }
        core.add_segment(self.first_seq, scan.at as u64);
        Ok(torn)
    }

    fn check_order(&self, core: &Core) -> Result<(), LogError> {
        let expected = core.last_seq() + 1;
        if !core.segments().is_empty() && self.first_seq != expected {
            return Err(self.damaged(
                core,
                0,
                format!("the segment before it, with record {expected}, is missing"),
            ));
        }
        Ok(())
    }

    /// What is wrong with the header, if it is so that a crash may have done it.
    fn check_header(&self, core: &Core, storage_id: StorageId) -> Result<Option<String>, LogError> {
        let what = match segment::read_header(&self.data) {
            Header::Broken => return Ok(Some("its header is not complete".to_owned())),
            Header::OtherVersion(found) => {
                return Err(LogError::OtherVersion { file: self.file(), found, known: VERSION });
            }
            Header::Sound { storage_id: found, .. } if found != storage_id => {
                "it belongs to another data folder"
            }
            Header::Sound { first_seq, .. } if first_seq != self.first_seq => "it was given another name",
            Header::Sound { .. } => return Ok(None),
        };
        Err(self.damaged(core, 0, what.to_owned()))
    }

    fn take_up(&self, core: &mut Core, at: usize, frame: Frame) -> Result<(), LogError> {
        let seq = frame.seq;
        let location = Location {
            segment: self.first_seq,
            offset: u32::try_from(at).map_err(|_| self.damaged(core, at, "it is too long".to_owned()))?,
            len: u32::try_from(frame.len()).expect("a record is at most 64 MiB"),
        };
        // A copy, or whoever keeps the record would keep the whole segment in memory.
        let applied = match Record::read(frame.kind, Bytes::copy_from_slice(&frame.body)) {
            None => Err("it is no record that this version knows".to_owned()),
            Some(Record::State(_)) if seq != self.first_seq => {
                Err("a state record is out of place".to_owned())
            }
            Some(record) if seq == self.first_seq && !matches!(record, Record::State(_)) => {
                Err("it does not begin with a state record".to_owned())
            }
            Some(record) => core.apply(seq, record, location),
        };
        applied.map_err(|what| self.damaged(core, at, what))?;
        core.shrink(seq);
        Ok(())
    }

    fn torn_or_damaged(&self, core: &Core, scan: &Scan<'_>, what: String) -> Result<Torn, LogError> {
        let is_needed = scan.next_seq == self.first_seq && core.segments().is_empty() && self.first_seq != 1;
        if self.is_last && !is_needed && scan.is_torn_here() {
            return Ok(Torn { offset: scan.at, what });
        }
        Err(self.damaged(core, scan.at, what))
    }

    fn file(&self) -> String {
        segment::file_name(self.first_seq)
    }

    fn damaged(&self, core: &Core, offset: usize, what: String) -> LogError {
        let index = (core.last_seq() > 0).then(|| core.state().next_index());
        LogError::Damaged { file: self.file(), offset: offset as u64, index, what }
    }
}
