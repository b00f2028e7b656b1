//! A simulated node's disk: syncs take time, and a power cut takes what was not synced.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::world::{Disk, DiskDone, DiskLane, DiskOp};

use super::executor::{self, Shared, below, one_in, true_sleep};

/// What has to be done, and what to call then.
type Job = (Vec<DiskOp>, DiskDone);

#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    is_running: bool,
}

/// The disk of one start of a node. The memory behind it outlives the node.
pub(crate) struct SimDisk {
    memory: Arc<MemoryDisk>,
    log: Shared<Lane>,
    bulk: Shared<Lane>,
}

impl SimDisk {
    pub(crate) fn new(memory: Arc<MemoryDisk>) -> Self {
        Self { memory, log: Shared::default(), bulk: Shared::default() }
    }
}

impl Disk for SimDisk {
    fn submit(&self, lane: DiskLane, ops: Vec<DiskOp>, done: DiskDone) {
        let queue = match lane {
            DiskLane::Log => self.log.clone(),
            DiskLane::Bulk => self.bulk.clone(),
        };
        let begins = {
            let mut queue = queue.lock().expect("one thread");
            queue.jobs.push_back((ops, done));
            !std::mem::replace(&mut queue.is_running, true)
        };
        if begins {
            executor::spawn_on(executor::running_on(), work(self.memory.clone(), lane, queue));
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn len(&self, file: &str) -> io::Result<u64> {
        self.memory.len(file)
    }

    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.memory.read_at(file, offset, len)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }
}

/// Does the jobs of a lane, one after the other. It dies with its node: what it had not come to is never done.
async fn work(memory: Arc<MemoryDisk>, lane: DiskLane, queue: Shared<Lane>) {
    loop {
        let job = {
            let mut queue = queue.lock().expect("one thread");
            let job = queue.jobs.pop_front();
            queue.is_running = job.is_some();
            job
        };
        let Some((ops, done)) = job else { return };
        done(run(&memory, lane, ops).await);
    }
}

async fn run(memory: &MemoryDisk, lane: DiskLane, ops: Vec<DiskOp>) -> io::Result<()> {
    for op in ops {
        if matches!(op, DiskOp::Sync { .. } | DiskOp::SyncDir) {
            true_sleep(sync_time()).await;
        }
        let told = Arc::new(Mutex::new(Ok(())));
        let tell = told.clone();
        memory.submit(lane, vec![op], Box::new(move |result| *tell.lock().expect("one thread") = result));
        let result = std::mem::replace(&mut *told.lock().expect("one thread"), Ok(()));
        result?;
    }
    Ok(())
}

fn sync_time() -> Duration {
    let micros = if one_in(60) { below(80_000) } else { 100 + below(2_000) };
    Duration::from_micros(micros)
}
