//! A log that is a vector, and helpers to compare the real one with it.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::log::{Log, LogError, LogLimits, LogPoint, LogRecord, OpenReport};
use holdfast_replica::world::DiskDone;

pub(crate) const STORAGE: u128 = 0x5701;

/// Segments so small that every test has several, and a cache so small that reads go to disk.
pub(crate) const LIMITS: LogLimits = LogLimits { segment_bytes: 1_200, cache_bytes: 600 };

/// What a log should contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) vote: Option<Bytes>,
    pub(crate) purged: Option<LogPoint>,
    pub(crate) entries: Vec<LogRecord>,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Vote(u64),
    Append {
        count: u64,
        payload_len: usize,
        term: u64,
    },
    /// So many of the newest entries go.
    Truncate(usize),
    /// So many of the oldest entries go.
    Purge(usize),
    /// A snapshot from elsewhere: so far beyond the end.
    PurgeBeyond(u64),
}

impl Model {
    pub(crate) fn next_index(&self) -> u64 {
        let after = |last: &LogPoint| last.index + 1;
        self.last().as_ref().map_or(0, after)
    }

    pub(crate) fn last(&self) -> Option<LogPoint> {
        let point = |entry: &LogRecord| LogPoint { index: entry.index, id: entry.id.clone() };
        self.entries.last().map(point).or_else(|| self.purged.clone())
    }

    /// The model after the change, and the change made to the log.
    pub(crate) fn change(&self, log: &Log, change: &Change, done: DiskDone) -> Self {
        let mut after = self.clone();
        match *change {
            Change::Vote(vote) => {
                let vote = Bytes::from(format!("vote {vote}"));
                after.vote = Some(vote.clone());
                log.set_vote(vote, done);
            }
            Change::Append { count, payload_len, term } => {
                let next = self.next_index();
                let entries: Vec<_> =
                    (next..next + count).map(|index| entry(index, term, payload_len)).collect();
                after.entries.extend(entries.iter().cloned());
                log.set_committed(Bytes::from(next.to_string()));
                log.append(entries, done);
            }
            Change::Truncate(count) => {
                after.entries.truncate(self.entries.len().saturating_sub(count));
                log.truncate_after(after.last().map(|last| last.index), done);
            }
            Change::Purge(count) => {
                let gone = after.entries.drain(..count.min(self.entries.len())).next_back();
                after.purged = gone.map(|last| LogPoint { index: last.index, id: last.id }).or(after.purged);
                match &after.purged {
                    Some(LogPoint { index, id }) => log.purge(*index, id.clone(), done),
                    None => done(Ok(())),
                }
            }
            Change::PurgeBeyond(distance) => {
                let index = self.next_index() + distance;
                let id = Bytes::from(format!("elsewhere {index}"));
                after.entries.clear();
                after.purged = Some(LogPoint { index, id: id.clone() });
                log.purge(index, id, done);
            }
        }
        after
    }

    /// What the log says, in the model's terms. Reads everything, also from disk.
    pub(crate) fn of(log: &Log) -> Self {
        let entries = log.entries(log.first_index()..u64::MAX, usize::MAX).expect("all entries can be read");
        let model = Self { vote: log.vote(), purged: log.purged(), entries };
        assert_eq!(model.last(), log.last());
        let indexes: Vec<_> = model.entries.iter().map(|entry| entry.index).collect();
        assert!(indexes.iter().copied().eq((log.first_index()..).take(indexes.len())), "{indexes:?}");
        model
    }
}

pub(crate) fn entry(index: u64, term: u64, payload_len: usize) -> LogRecord {
    let byte = b'a' + u8::try_from((index + term) % 26).unwrap();
    LogRecord { index, id: Bytes::from(format!("{term}-{index}")), payload: vec![byte; payload_len].into() }
}

pub(crate) fn try_open(disk: &Arc<MemoryDisk>) -> Result<(Log, OpenReport), LogError> {
    Log::open_with(disk.clone(), STORAGE, LIMITS).now_or_never().expect("a disk in memory never waits")
}

pub(crate) fn open(disk: &Arc<MemoryDisk>) -> (Log, OpenReport) {
    try_open(disk).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes a change and returns what its `done` was told, which a disk in memory does at once.
pub(crate) fn apply(model: &Model, log: &Log, change: &Change) -> (Model, io::Result<()>) {
    let told = Arc::new(Mutex::new(None));
    let tell = told.clone();
    let after = model.change(log, change, Box::new(move |result| *tell.lock().unwrap() = Some(result)));
    let result = told.lock().unwrap().take().expect("done is called");
    (after, result)
}

/// A disk with several segments, and what is on it: one record a job.
pub(crate) fn filled() -> (Arc<MemoryDisk>, Model) {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    let mut model = Model::default();
    let append = |term| Change::Append { count: 1, payload_len: 60, term };
    let mut changes = vec![Change::Vote(1)];
    changes.extend((0..20).map(|_| append(1)));
    changes.extend([Change::Truncate(3), Change::Vote(2)]);
    changes.extend((0..20).map(|_| append(2)));
    changes.push(Change::Purge(16));
    changes.extend((0..5).map(|_| append(2)));
    for change in &changes {
        let (after, result) = apply(&model, &log, change);
        result.unwrap();
        model = after;
    }
    (disk, model)
}

/// Files of the log, oldest first.
pub(crate) fn segments(disk: &MemoryDisk) -> Vec<String> {
    use holdfast_replica::world::Disk;
    disk.list().unwrap()
}
