//! The whole table as bytes, and back.
//!
//! A snapshot is a stream of records, each a length (u32, little endian) and a postcard-encoded [`Record`]; the first
//! is the header. The stream may be cut into pieces anywhere.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::ending::{Ending, Endings};
use crate::ids::{AttemptKey, ClusterId};
use crate::lock::Lock;
use crate::name::LockName;
use crate::node::Nodes;
use crate::table::LockTable;
use crate::time::ClusterTime;
use crate::timers::Timers;

/// Version of the stream; readers refuse newer ones.
const FORMAT: u16 = 1;
/// A piece is handed out once it has this many bytes.
const PIECE_LEN: usize = 256 * 1024;
/// No record is longer: a lock with a full queue of the longest labels and metadata.
const RECORD_LEN_MAX: usize = 512 * 1024 * 1024;

/// The order of the variants is the encoding: append, never insert or reorder.
#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Header(Header),
    Lock(LockName, Arc<Lock>),
    Ending(AttemptKey, Ending),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    format: u16,
    now: ClusterTime,
    cluster: Option<ClusterId>,
    fence: u64,
    ticket: u64,
    seq: u64,
    nodes: Nodes,
    /// How many records of each kind follow, so that a stream that lacks its end is found out.
    locks: u64,
    endings: u64,
}

/// Why a stream is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Written by a version of the program that this one does not know.
    #[error("the snapshot has format {0}, this program reads up to {FORMAT}")]
    Format(u16),
    /// Not what this program writes.
    #[error("the snapshot is malformed")]
    Malformed,
    /// The stream ended early.
    #[error("the snapshot is incomplete")]
    Incomplete,
}

/// What comes next in the stream.
#[derive(Clone, Debug)]
enum Position {
    Header,
    LocksAfter(Option<LockName>),
    EndingsAfter(Option<AttemptKey>),
    End,
}

/// The table as it was at one moment, to be written out at leisure.
///
/// Making one costs the same for a million locks as for none: it shares its memory with the table.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    header: Header,
    locks: OrdMap<LockName, Arc<Lock>>,
    endings: OrdMap<AttemptKey, Ending>,
    position: Position,
}

impl SnapshotView {
    /// The next piece of the stream; none after the last.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_LEN {
            match self.next_record() {
                Some(record) => write_record(&mut piece, &record),
                None => break,
            }
        }
        (!piece.is_empty()).then_some(piece)
    }

    fn next_record(&mut self) -> Option<Record> {
        loop {
            match &self.position {
                Position::Header => {
                    self.position = Position::LocksAfter(None);
                    return Some(Record::Header(self.header.clone()));
                }
                Position::LocksAfter(last) => match next_after(&self.locks, last.as_ref()) {
                    Some((name, lock)) => {
                        self.position = Position::LocksAfter(Some(name.clone()));
                        return Some(Record::Lock(name, lock));
                    }
                    None => self.position = Position::EndingsAfter(None),
                },
                Position::EndingsAfter(last) => match next_after(&self.endings, last.as_ref()) {
                    Some((key, ending)) => {
                        self.position = Position::EndingsAfter(Some(key));
                        return Some(Record::Ending(key, ending));
                    }
                    None => self.position = Position::End,
                },
                Position::End => return None,
            }
        }
    }
}

fn next_after<K: Ord + Clone, V: Clone>(map: &OrdMap<K, V>, last: Option<&K>) -> Option<(K, V)> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    map.range::<(Bound<&K>, Bound<&K>), K>((from, Bound::Unbounded))
        .next()
        .map(|(key, value)| (key.clone(), value.clone()))
}

fn write_record(piece: &mut Vec<u8>, record: &Record) {
    let start = piece.len();
    piece.extend_from_slice(&[0; 4]);
    let taken = std::mem::take(piece);
    *piece = postcard::to_extend(record, taken).expect("records contain nothing that postcard cannot encode");
    let len = u32::try_from(piece.len() - start - 4).expect("a record is shorter than RECORD_LEN_MAX");
    piece[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Builds a table from a stream of pieces, cut in any way.
#[derive(Debug, Default)]
pub struct SnapshotReader {
    buffer: Vec<u8>,
    header: Option<Header>,
    locks: OrdMap<LockName, Arc<Lock>>,
    endings: OrdMap<AttemptKey, Ending>,
}

impl SnapshotReader {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), SnapshotError> {
        self.buffer.extend_from_slice(piece);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        while let Some((len, body)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            if len > RECORD_LEN_MAX {
                return Err(SnapshotError::Malformed);
            }
            let Some((record, tail)) = body.split_at_checked(len) else { break };
            self.take(record)?;
            rest = tail;
        }
        self.buffer = rest.to_vec();
        Ok(())
    }

    fn take(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        match postcard::from_bytes(record).map_err(|_| SnapshotError::Malformed)? {
            Record::Header(header) if header.format != FORMAT => Err(SnapshotError::Format(header.format)),
            Record::Header(header) if self.header.is_none() => {
                self.header = Some(header);
                Ok(())
            }
            Record::Lock(name, lock) if self.header.is_some() => {
                self.locks.insert(name, lock);
                Ok(())
            }
            Record::Ending(key, ending) if self.header.is_some() => {
                self.endings.insert(key, ending);
                Ok(())
            }
            _ => Err(SnapshotError::Malformed),
        }
    }

    /// The table, once every piece was taken.
    pub fn finish(self) -> Result<LockTable, SnapshotError> {
        let header = self.header.ok_or(SnapshotError::Incomplete)?;
        let complete = self.buffer.is_empty()
            && self.locks.len() as u64 == header.locks
            && self.endings.len() as u64 == header.endings;
        if !complete {
            return Err(SnapshotError::Incomplete);
        }
        Ok(LockTable::restore(header, self.locks, Endings::restore(self.endings)))
    }
}

impl LockTable {
    /// The table as it is now, for writing it out.
    pub fn snapshot(&self) -> SnapshotView {
        let header = Header {
            format: FORMAT,
            now: self.now,
            cluster: self.cluster,
            fence: self.fence,
            ticket: self.ticket,
            seq: self.seq,
            nodes: self.nodes.clone(),
            locks: self.locks.len() as u64,
            endings: self.endings.map().len() as u64,
        };
        let (locks, endings) = (self.locks.clone(), self.endings.map().clone());
        SnapshotView { header, locks, endings, position: Position::Header }
    }

    /// A hash of the whole replicated state: equal on every replica that has applied the same log (FNV-1a, 64 bits).
    pub fn digest(&self) -> u64 {
        let mut view = self.snapshot();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        while let Some(piece) = view.next_piece() {
            hash = piece
                .iter()
                .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        }
        hash
    }

    fn restore(header: Header, locks: OrdMap<LockName, Arc<Lock>>, endings: Endings) -> Self {
        let mut timers = Timers::default();
        let mut stalled = BTreeSet::new();
        for (name, lock) in &locks {
            for hold in &lock.holders {
                timers.set(hold.lease.deadline, hold.ticket, name);
            }
            for waiter in lock.waiters() {
                timers.set(waiter.until, waiter.ticket, name);
            }
            if lock.has_room() {
                stalled.insert(name.clone());
            }
        }
        Self {
            now: header.now,
            cluster: header.cluster,
            fence: header.fence,
            ticket: header.ticket,
            seq: header.seq,
            locks,
            endings,
            nodes: header.nodes,
            timers,
            stalled,
            ..Self::default()
        }
    }
}
