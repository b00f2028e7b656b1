//! The Raft log and vote: one ordered, append-only sequence of checksummed records in a few files.
//!
//! It stores opaque bytes: what an id, a payload or a vote means is its user's business. Entries have consecutive
//! indexes from 0. Everything that must not be reordered (votes, entries, truncation, purge) goes through the one
//! sequence, and a callback tells when it is durable.
//!
//! - **Segments.** Files of about 16 MiB, each of which begins with a state record: what older segments said and cannot
//!   be derived without them. So whole segments are removed once all their entries are purged.
//! - **Damage.** A tail that a crash has left incomplete is trimmed when the log is opened, and said. Everything else
//!   that is not as it was written is an error with file, offset and what to do: a log that lost an acknowledged entry
//!   must not take part in elections.
//! - **Memory.** 16 bytes per entry, and the newest payloads up to a bound, so that replication does not read the disk.
//!
//! No clock, thread, or chance in here: it is pure logic over [`crate::world::Disk`].

mod body;
mod cache;
mod core;
mod error;
mod index;
mod open;
mod outbox;
mod read;
mod record;
mod removal;
mod replay;
mod scan;
mod segment;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use self::body::Record;
use self::core::{Core, Staged};
pub use self::error::{LogError, OpenReport, TrimmedTail};
use self::outbox::{Job, Outbox};
use self::removal::Removal;
use crate::identity::StorageId;
use crate::world::{Disk, DiskDone};

/// An entry of the log. The bytes are the user's; `id` is what [`LogPoint`]s give back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "said above")]
pub struct LogRecord {
    pub index: u64,
    pub id: Bytes,
    pub payload: Bytes,
}

/// A place in the log: an index and the id of the entry that is, or was, there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "said above")]
pub struct LogPoint {
    pub index: u64,
    pub id: Bytes,
}

/// Sizes of a log. The defaults are for service; tests want small ones.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// A segment is closed with the first write after it has grown to so many bytes.
    pub segment_bytes: u64,
    /// Payloads of the newest entries kept in memory, in bytes. Entries that are not yet durable are kept beyond it.
    pub cache_bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, cache_bytes: 4 << 20 }
    }
}

/// How far behind the end of the log the entry of [`Log::witness_point`] lies at least, in bytes: a sector.
///
/// A crash leaves at most an incomplete tail, which is trimmed and fetched again from the leader. The witness is for
/// losses beyond that.
pub const WITNESS_LAG_BYTES: u64 = 512;

/// The Raft log and vote of one node. Clones are handles of the same log.
///
/// Writes go to the disk in the order of the calls and show in reads at once. `done` is called when the write is
/// durable, or with the error that closed the log: after a failed write every later one fails too, and the process has
/// to open the log anew. `done` may run on the disk's thread or within the call, and must not block.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    disk: Arc<dyn Disk>,
    core: Mutex<Core>,
    outbox: Outbox,
    durable: Arc<Durable>,
    removal: Arc<Removal>,
}

/// How far the log is known to be durable. Only grows.
struct Durable {
    last_seq: AtomicU64,
    /// Counts as [`Core::end_of_log`] does.
    end_of_log: AtomicU64,
}

impl Log {
    /// Opens the log of a folder, or begins it, with the default sizes.
    ///
    /// Counts the boot durably before it returns. Reads all segments, one at a time.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if the log is not what was written, beyond an incomplete tail.
    pub async fn open(disk: Arc<dyn Disk>, storage_id: StorageId) -> Result<(Self, OpenReport), LogError> {
        Self::open_with(disk, storage_id, LogLimits::default()).await
    }

    /// Like [`Log::open`], with other sizes.
    ///
    /// # Errors
    /// See [`Log::open`].
    pub async fn open_with(
        disk: Arc<dyn Disk>,
        storage_id: StorageId,
        limits: LogLimits,
    ) -> Result<(Self, OpenReport), LogError> {
        let (core, report) = open::open(&disk, storage_id, limits).await?;
        let durable = Durable { last_seq: core.last_seq().into(), end_of_log: core.end_of_log().into() };
        let core = Mutex::new(core);
        let shared = Shared {
            disk,
            core,
            outbox: Outbox::default(),
            durable: Arc::new(durable),
            removal: Arc::default(),
        };
        let log = Self(Arc::new(shared));
        let superfluous = log.core().take_purged_segments();
        log.0.removal.remove(&*log.0.disk, superfluous);
        Ok((log, report))
    }

    /// The last vote set.
    pub fn vote(&self) -> Option<Bytes> {
        self.core().state().vote.clone()
    }

    /// Replaces the vote.
    pub fn set_vote(&self, vote: Bytes, done: DiskDone) {
        self.write(|_| Ok(vec![Record::Vote(vote)]), done);
    }

    /// Appends entries, as one write: the first index must follow [`Log::last`].
    ///
    /// Keeps the newest as they are given: bytes that are part of something larger keep that in memory, too.
    ///
    /// `done` gets `InvalidInput`, and nothing is written, if the indexes have a gap or an entry is over 63 MiB.
    pub fn append(&self, entries: Vec<LogRecord>, done: DiskDone) {
        self.write(
            |core| core.check_entries(&entries).map(|()| entries.into_iter().map(Record::Entry).collect()),
            done,
        );
    }

    /// Removes all entries behind `index`, or all entries. Memory forgets them at once.
    ///
    /// `done` gets `InvalidInput`, and nothing is written, if `index` is purged.
    pub fn truncate_after(&self, index: Option<u64>, done: DiskDone) {
        self.write(|core| Ok(vec![Record::TruncateAfter(self.point_to_keep(core, index)?)]), done);
    }

    /// Says that the entries up to `index`, whose id is `id`, are covered by a snapshot.
    ///
    /// `index` may lie beyond the end: then the log is empty and goes on behind it. Segments without any other entry are
    /// removed once the purge is durable. `done` gets `InvalidInput` if more than that is purged already.
    pub fn purge(&self, index: u64, id: Bytes, done: DiskDone) {
        let point = LogPoint { index, id };
        let job = {
            let mut core = self.core();
            match core.check_purge(&point) {
                Ok(()) => {
                    let staged = core.stage(vec![Record::Purge(point)], self.durable_seq());
                    let files = core.take_purged_segments();
                    self.send(staged, self.removing(files, done));
                    None
                }
                Err(error) => Some((done, error)),
            }
        };
        self.finish(job);
    }

    /// Remembers how far the log is committed. Not durable by itself: it goes to disk with the next write.
    pub fn set_committed(&self, committed: Bytes) {
        self.core().set_committed(committed);
    }

    /// What [`Log::set_committed`] last said, as far as it reached the disk before the log was opened.
    ///
    /// It may name an entry that is not in the log: clamp it to [`Log::last`].
    pub fn committed(&self) -> Option<Bytes> {
        self.core().state().committed.clone()
    }

    /// The lowest index that is not purged. There is an entry at it unless the log is empty.
    pub fn first_index(&self) -> u64 {
        self.core().state().first_index()
    }

    /// The last entry, or the purged point if there is none behind it; `None` for a log that never had an entry.
    pub fn last(&self) -> Option<LogPoint> {
        self.core().state().last.clone()
    }

    /// The last entry that is purged.
    pub fn purged(&self) -> Option<LogPoint> {
        self.core().state().purged.clone()
    }

    /// How often the log was opened, this time included.
    pub fn boot(&self) -> u64 {
        self.core().state().boot
    }

    /// The entries of `range`, oldest first, up to `max_bytes` of records but at least one.
    ///
    /// Purged entries are included as long as they are in memory. So the answer may begin later than asked, or be
    /// empty; from its first entry on it has no gap. Reads the disk for what is not in memory.
    ///
    /// # Errors
    /// `InvalidData` if an entry on disk is not what was written.
    pub fn entries(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<LogRecord>> {
        loop {
            let plan = self.core().plan_read(range.clone(), max_bytes);
            match plan.run(&*self.0.disk) {
                Ok(entries) => return Ok(entries),
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_outdated(&plan) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes of log behind the entry at `index`: what a replica that has it would still have to read.
    ///
    /// Counts from the oldest entry left if `index` is purged.
    pub fn bytes_since(&self, index: u64) -> u64 {
        self.core().bytes_since(index)
    }

    /// Bytes of all segments.
    pub fn disk_bytes(&self) -> u64 {
        self.core().disk_bytes()
    }

    /// The newest entry up to `committed` that the witness may vouch for: durable, and more than
    /// [`WITNESS_LAG_BYTES`] before the end. None if no entry that is left is that old.
    ///
    /// # Errors
    /// If the entry has to be read and cannot be.
    pub fn witness_point(&self, committed: u64) -> io::Result<Option<LogPoint>> {
        let limit = self.0.durable.end_of_log.load(Ordering::Acquire).saturating_sub(WITNESS_LAG_BYTES);
        let newest = self.core().newest_before(limit, committed);
        let Some(index) = newest else { return Ok(None) };
        let entry = self.entries(index..index + 1, 0)?.pop();
        Ok(entry.map(|entry| LogPoint { index: entry.index, id: entry.id }))
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock().expect("no code panics while it holds this")
    }

    fn durable_seq(&self) -> u64 {
        self.0.durable.last_seq.load(Ordering::Acquire)
    }

    /// Writes what `records` makes of the present state, as one job.
    fn write(&self, records: impl FnOnce(&Core) -> io::Result<Vec<Record>>, done: DiskDone) {
        let refused = {
            let mut core = self.core();
            match records(&core) {
                Ok(records) => {
                    let staged = core.stage(records, self.durable_seq());
                    self.send(staged, done);
                    None
                }
                Err(error) => Some((done, error)),
            }
        };
        self.finish(refused);
    }

    /// Puts a job in line. Called with the core locked, so that the order of jobs is that of the records.
    fn send(&self, staged: Staged, done: DiskDone) {
        let durable = self.0.durable.clone();
        let done = Box::new(move |result: io::Result<()>| {
            if result.is_ok() {
                durable.last_seq.fetch_max(staged.last_seq, Ordering::AcqRel);
                durable.end_of_log.fetch_max(staged.end_of_log, Ordering::AcqRel);
            }
            done(result);
        });
        self.0.outbox.push(Job { ops: staged.ops, done });
    }

    /// Hands over what is in line, or tells a caller that was refused. Called without the lock, since `done` may run.
    fn finish(&self, refused: Option<(DiskDone, io::Error)>) {
        self.0.outbox.pump(&*self.0.disk);
        if let Some((done, error)) = refused {
            done(Err(error));
        }
    }

    /// The last entry that a truncation leaves. Reads it if it is neither the last nor in memory.
    fn point_to_keep(&self, core: &Core, index: Option<u64>) -> io::Result<Option<LogPoint>> {
        let state = core.state();
        let next = index.map_or(0, |index| index.saturating_add(1));
        if next < state.first_index() {
            return Err(invalid(format!("cannot truncate after {index:?}: purged up to {:?}", state.purged)));
        }
        if next >= state.next_index() {
            return Ok(state.last.clone());
        }
        if next == state.first_index() {
            return Ok(state.purged.clone());
        }
        let entries = core.plan_read(next - 1..next, 0).run(&*self.0.disk)?;
        let [entry] = &entries[..] else {
            return Err(io::Error::other(format!("entry {} is missing", next - 1)));
        };
        Ok(Some(LogPoint { index: entry.index, id: entry.id.clone() }))
    }

    /// Whether an entry that a plan wanted to read has been purged meanwhile.
    fn is_outdated(&self, plan: &read::ReadPlan) -> bool {
        plan.first_on_disk().is_some_and(|index| index < self.first_index())
    }

    /// Removes segments once the purge that made them superfluous is durable, and then passes the result on.
    fn removing(&self, files: Vec<String>, done: DiskDone) -> DiskDone {
        let (disk, removal) = (self.0.disk.clone(), self.0.removal.clone());
        Box::new(move |result| {
            if result.is_ok() {
                removal.remove(&*disk, files);
            }
            done(result);
        })
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests;
