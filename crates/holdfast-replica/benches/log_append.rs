//! How long it takes to make a batch of log entries durable, against the floor and against another log.
//!
//! `cargo bench -p holdfast-replica --bench log_append` prints the tenth percentile and the median in µs for batches of
//! entries of 200 bytes: a bare append and `fdatasync` of as many bytes by one writer, this crate's log, and the
//! `raft-log` crate. They take turns batch by batch, so that a busy disk is unfair to none; the tenth percentile is what
//! they take when it is not busy.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_types,
    reason = "a program for the terminal that takes the time"
)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_replica::disk::FolderDisk;
use holdfast_replica::log::{Log, LogRecord};
use raft_log::api::raft_log_writer::RaftLogWriter;

const BATCHES: usize = 500;
const BATCH_SIZES: [usize; 4] = [1, 16, 128, 1_024];
const ENTRY_LEN: usize = 200;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut engines: Vec<Box<dyn Engine>> = vec![
        Box::new(Bare::open(folder.path())),
        Box::new(Ours::open(folder.path())),
        Box::new(Other::open(folder.path())),
    ];
    println!("p10 / p50 in µs, entries of {ENTRY_LEN} bytes, {BATCHES} batches each");
    println!("{:<26}{:>14}{:>14}{:>14}{:>14}", "entries a sync", 1, 16, 128, 1_024);
    let mut table = vec![String::new(); engines.len()];
    for size in BATCH_SIZES {
        let mut samples = vec![Vec::new(); engines.len()];
        for _ in 0..BATCHES {
            for (engine, samples) in engines.iter_mut().zip(&mut samples) {
                samples.push(engine.timed(size).as_micros());
            }
        }
        for (row, mut samples) in table.iter_mut().zip(samples) {
            samples.sort_unstable();
            let cell = format!("{} / {}", samples[BATCHES / 10], samples[BATCHES / 2]);
            row.push_str(&format!("{cell:>14}"));
        }
    }
    for (engine, row) in engines.iter().zip(table) {
        println!("{:<26}{row}", engine.name());
    }
}

/// Something that makes entries durable.
trait Engine {
    fn name(&self) -> &'static str;
    /// Makes so many further entries durable and says how long it took, without the making of the entries.
    fn timed(&mut self, entries: usize) -> Duration;
}

struct Bare(File);

impl Bare {
    fn open(folder: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(folder.join("bare")).unwrap())
    }
}

impl Engine for Bare {
    fn name(&self) -> &'static str {
        "bare append + fdatasync"
    }

    fn timed(&mut self, entries: usize) -> Duration {
        let bytes = vec![b'x'; entries * ENTRY_LEN];
        let begun = Instant::now();
        self.0.write_all(&bytes).unwrap();
        self.0.sync_data().unwrap();
        begun.elapsed()
    }
}

struct Ours {
    log: Log,
    next_index: u64,
    tell: SyncSender<()>,
    told: Receiver<()>,
}

impl Ours {
    fn open(folder: &Path) -> Self {
        let disk = Arc::new(FolderDisk::open(&folder.join("holdfast")).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (log, _) = runtime.block_on(Log::open(disk, 1)).unwrap();
        let (tell, told) = sync_channel(1);
        Self { log, next_index: 0, tell, told }
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        "holdfast"
    }

    fn timed(&mut self, entries: usize) -> Duration {
        let payload = Bytes::from(vec![b'x'; ENTRY_LEN]);
        let indexes = self.next_index..self.next_index + entries as u64;
        self.next_index = indexes.end;
        let record = |index: u64| LogRecord {
            index,
            id: Bytes::copy_from_slice(&[index.to_le_bytes(), 1_u64.to_le_bytes()].concat()),
            payload: payload.clone(),
        };
        let records: Vec<_> = indexes.map(record).collect();
        let tell = self.tell.clone();
        let done = Box::new(move |result: std::io::Result<()>| {
            result.unwrap();
            tell.send(()).unwrap();
        });
        let begun = Instant::now();
        self.log.append(records, done);
        self.told.recv().unwrap();
        begun.elapsed()
    }
}

/// The `raft-log` crate. By default it waits a millisecond for company before each sync; here nobody else comes.
struct Other {
    log: raft_log::RaftLog<OtherTypes>,
    next_index: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OtherTypes;

impl raft_log::Types for OtherTypes {
    type LogId = (u64, u64);
    type LogPayload = Vec<u8>;
    type Vote = (u64, u64);
    type Callback = SyncSender<std::io::Result<()>>;
    type UserData = String;

    fn log_index(log_id: &Self::LogId) -> u64 {
        log_id.1
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        payload.len() as u64
    }
}

impl Other {
    fn open(folder: &Path) -> Self {
        let folder = folder.join("raft-log");
        std::fs::create_dir(&folder).unwrap();
        let mut config = raft_log::Config::new(folder.to_str().unwrap());
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        Self { log: raft_log::RaftLog::open(Arc::new(config)).unwrap(), next_index: 0 }
    }
}

impl Engine for Other {
    fn name(&self) -> &'static str {
        "raft-log 0.4.6"
    }

    fn timed(&mut self, entries: usize) -> Duration {
        let indexes = self.next_index..self.next_index + entries as u64;
        self.next_index = indexes.end;
        let entries: Vec<_> = indexes.map(|index| ((1, index), vec![b'x'; ENTRY_LEN])).collect();
        let (tell, told) = sync_channel(1);
        let begun = Instant::now();
        self.log.append(entries).unwrap();
        self.log.flush(true, Some(tell)).unwrap();
        told.recv().unwrap().unwrap();
        begun.elapsed()
    }
}
