//! The whole table as bytes, and back.
//!
//! A snapshot is a stream of records, each a length (u32, little endian) and a postcard-encoded [`Record`]; the first
//! is the header. The stream may be cut into pieces anywhere.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};

use crate::ending::{Ending, Endings};
use crate::event::Event;
use crate::event_history::EventHistory;
use crate::ids::{AttemptKey, ClusterId, SessionId};
use crate::kept::KeptUntil;
use crate::lock::Lock;
use crate::many::{Many, ManyBook};
use crate::name::LockName;
use crate::node::Nodes;
use crate::planted::{Bug, planted};
use crate::session::{EndedSession, Session, Sessions};
use crate::table::LockTable;
use crate::time::ClusterTime;
use crate::timers::Timers;
use crate::waits::Waits;
use crate::wall_clock::WallClock;

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
    Many(AttemptKey, Arc<Many>),
    Session(SessionId, Session),
    EndedSession(SessionId, EndedSession),
    Event(Event),
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
    many: u64,
    sessions: u64,
    ended_sessions: u64,
    events: u64,
    wall_clock: WallClock,
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
    ManyAfter(Option<AttemptKey>),
    SessionsAfter(Option<SessionId>),
    EndedSessionsAfter(Option<SessionId>),
    /// How many of them are written.
    EventsFrom(usize),
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
    many: OrdMap<AttemptKey, Arc<Many>>,
    sessions: OrdMap<SessionId, Session>,
    ended_sessions: OrdMap<SessionId, EndedSession>,
    events: Vector<Event>,
    position: Position,
}

impl SnapshotView {
    /// The next piece of the stream; none after the last.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_LEN && !matches!(self.position, Position::End) {
            self.position = self.write_at_position(&mut piece);
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// A hash of the whole state: equal on every replica that has applied the same log (FNV-1a, 64 bits).
    pub fn digest(mut self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        while let Some(piece) = self.next_piece() {
            hash = piece
                .iter()
                .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        }
        hash
    }

    /// Writes records of one kind until the piece is full or there are no more, and returns where it goes on.
    fn write_at_position(&self, piece: &mut Vec<u8>) -> Position {
        match &self.position {
            Position::Header => {
                write_record(piece, &Record::Header(self.header.clone()));
                Position::LocksAfter(None)
            }
            Position::LocksAfter(last) => match write_after(piece, &self.locks, last, Record::Lock) {
                Some(last) => Position::LocksAfter(Some(last)),
                None => Position::EndingsAfter(None),
            },
            Position::EndingsAfter(last) => match write_after(piece, &self.endings, last, Record::Ending) {
                Some(last) => Position::EndingsAfter(Some(last)),
                None => Position::ManyAfter(None),
            },
            Position::ManyAfter(last) => match write_after(piece, &self.many, last, Record::Many) {
                Some(last) => Position::ManyAfter(Some(last)),
                None => Position::SessionsAfter(None),
            },
            Position::SessionsAfter(last) => {
                match write_after(piece, &self.sessions, last, Record::Session) {
                    Some(last) => Position::SessionsAfter(Some(last)),
                    None => Position::EndedSessionsAfter(None),
                }
            }
            Position::EndedSessionsAfter(last) => {
                match write_after(piece, &self.ended_sessions, last, Record::EndedSession) {
                    Some(last) => Position::EndedSessionsAfter(Some(last)),
                    None => Position::EventsFrom(0),
                }
            }
            Position::EventsFrom(at) => match self.events.get(*at) {
                Some(event) => {
                    write_record(piece, &Record::Event(event.clone()));
                    Position::EventsFrom(at + 1)
                }
                None => Position::End,
            },
            Position::End => Position::End,
        }
    }
}

/// Writes what comes after `last` until the piece is full; returns the last key written then, or none at the end.
fn write_after<K: Ord + Clone, V: Clone>(
    piece: &mut Vec<u8>,
    map: &OrdMap<K, V>,
    last: &Option<K>,
    record: impl Fn(K, V) -> Record,
) -> Option<K> {
    let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    for (key, value) in map.range::<(Bound<&K>, Bound<&K>), K>((from, Bound::Unbounded)) {
        write_record(piece, &record(key.clone(), value.clone()));
        if piece.len() >= PIECE_LEN {
            return Some(key.clone());
        }
    }
    None
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
    many: OrdMap<AttemptKey, Arc<Many>>,
    sessions: OrdMap<SessionId, Session>,
    ended_sessions: OrdMap<SessionId, EndedSession>,
    events: Vector<Event>,
}

impl SnapshotReader {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), SnapshotError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(piece);
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
        let taken = buffer.len() - rest.len();
        buffer.drain(..taken);
        self.buffer = buffer;
        Ok(())
    }

    fn take(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        if self.header.is_none() {
            self.header = Some(read_header(record)?);
            return Ok(());
        }
        match decode(record)? {
            Record::Header(_) => return Err(SnapshotError::Malformed),
            Record::Lock(_, lock) if !lock.is_in_order() => return Err(SnapshotError::Malformed),
            Record::Lock(name, lock) => drop(self.locks.insert(name, lock)),
            Record::Ending(key, ending) => drop(self.endings.insert(key, ending)),
            Record::Many(key, many) => drop(self.many.insert(key, many)),
            Record::Session(id, session) => drop(self.sessions.insert(id, session)),
            Record::EndedSession(id, ended) => drop(self.ended_sessions.insert(id, ended)),
            Record::Event(event) => self.events.push_back(event),
        }
        Ok(())
    }

    /// The table, once every piece was taken.
    pub fn finish(self) -> Result<LockTable, SnapshotError> {
        let header = self.header.ok_or(SnapshotError::Incomplete)?;
        let complete = self.buffer.is_empty()
            && self.locks.len() as u64 == header.locks
            && self.endings.len() as u64 == header.endings
            && self.many.len() as u64 == header.many
            && self.sessions.len() as u64 == header.sessions
            && self.ended_sessions.len() as u64 == header.ended_sessions
            && self.events.len() as u64 == header.events;
        if !complete {
            return Err(SnapshotError::Incomplete);
        }
        let (endings, many) = (Endings::restore(self.endings), ManyBook::restore(self.many));
        let mut sessions = Sessions::restore(self.sessions, self.ended_sessions);
        let are_known = self.locks.iter().all(|(name, lock)| sessions.restore_contents(name, lock));
        if !are_known || !many.is_of(&self.locks) {
            return Err(SnapshotError::Malformed);
        }
        let history = EventHistory::restore(self.events, header.seq).ok_or(SnapshotError::Malformed)?;
        Ok(LockTable { history, ..LockTable::restore(header, self.locks, endings, many, sessions) })
    }
}

/// The format first: a header of another version may look different behind it.
fn read_header(record: &[u8]) -> Result<Header, SnapshotError> {
    match postcard::take_from_bytes::<(u32, u16)>(record) {
        Ok(((0, format), _)) if format != FORMAT => return Err(SnapshotError::Format(format)),
        _ => {}
    }
    match decode(record)? {
        Record::Header(header) => Ok(header),
        _ => Err(SnapshotError::Malformed),
    }
}

fn decode(record: &[u8]) -> Result<Record, SnapshotError> {
    match postcard::take_from_bytes(record) {
        Ok((record, [])) => Ok(record),
        _ => Err(SnapshotError::Malformed),
    }
}

impl LockTable {
    /// The table as it is now, for writing it out.
    pub fn snapshot(&self) -> SnapshotView {
        let header = Header {
            format: FORMAT,
            now: self.now,
            cluster: self.cluster,
            fence: if planted(Bug::FenceKeptInMemory) { self.highest_held() } else { self.fence },
            ticket: self.ticket,
            seq: self.seq,
            nodes: self.nodes.clone(),
            locks: self.locks.len() as u64,
            endings: self.endings.map().len() as u64,
            many: self.many.records().len() as u64,
            sessions: self.sessions.live().len() as u64,
            ended_sessions: self.sessions.ended_map().len() as u64,
            events: self.history.kept().len() as u64,
            wall_clock: self.wall_clock.clone(),
        };
        SnapshotView {
            header,
            locks: self.locks.clone(),
            endings: self.endings.map().clone(),
            many: self.many.records().clone(),
            sessions: self.sessions.live().clone(),
            ended_sessions: self.sessions.ended_map().clone(),
            events: self.history.kept().clone(),
            position: Position::Header,
        }
    }

    /// A hash of the whole replicated state: equal on every replica that has applied the same log.
    ///
    /// It takes about a second for a million locks; [`SnapshotView::digest`] needs the table for a moment only.
    pub fn digest(&self) -> u64 {
        self.snapshot().digest()
    }

    fn restore(
        header: Header,
        mut locks: OrdMap<LockName, Arc<Lock>>,
        endings: Endings,
        many: ManyBook,
        sessions: Sessions,
    ) -> Self {
        if planted(Bug::WaiterLostInSnapshot)
            || planted(Bug::LimitLostInSnapshot)
            || planted(Bug::PermitsLostInSnapshot)
            || planted(Bug::DelayLostInSnapshot)
            || planted(Bug::DoneLostInSnapshot)
        {
            locks = locks.iter().map(|(name, lock)| (name.clone(), Arc::new(lock.with_losses()))).collect();
        }
        let mut timers = Timers::default();
        let mut waits = Waits::default();
        let mut to_file = BTreeSet::new();
        let mut deadlines = 0;
        let mut kept = KeptUntil::default();
        for (name, lock) in &locks {
            for hold in &lock.holders {
                if let Some(at) = hold.own_deadline() {
                    timers.set(at, hold.ticket, name);
                    deadlines += 1;
                }
            }
            for waiter in lock.waiters() {
                if many.has_timer_at(&waiter.key) {
                    timers.set(waiter.waiting.until, waiter.ticket, name);
                }
                waits.insert(name, waiter, &many);
            }
            if let Some(of_lock) = &lock.kept {
                kept.restore(name, of_lock);
            }
            if lock.queue.is_some() || lock.kept.is_some() {
                to_file.insert(name.clone());
            }
        }
        for (id, session) in sessions.live() {
            timers.set_session(session.term.deadline, *id);
        }
        let mut table = Self {
            now: header.now,
            cluster: header.cluster,
            fence: if planted(Bug::FenceResetBySnapshot) { 0 } else { header.fence },
            ticket: header.ticket,
            seq: header.seq,
            locks,
            endings,
            nodes: header.nodes,
            wall_clock: header.wall_clock,
            sessions,
            timers,
            many,
            waits,
            deadlines,
            kept,
            ..Self::default()
        };
        to_file.iter().for_each(|name| table.file(name));
        table
    }
}
