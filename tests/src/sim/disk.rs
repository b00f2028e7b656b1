//! A simulated node's disk: syncs take time, a power cut takes what was not synced, and it may be slow, stalled or full.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::world::{Disk, DiskDone, DiskLane, DiskOp};

use super::executor::{self, Shared, below, one_in, true_sleep};
use super::faults::{DiskTrouble, Moment, Place};
use super::moments::Moments;

/// What has to be done, and what to call then.
type Job = (Vec<DiskOp>, DiskDone);

/// How often a write that waits looks whether it may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What a full disk has left.
const NEARLY_NOTHING: u64 = 4_096;

#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    is_running: bool,
}

/// How a disk is. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Condition(Arc<Mutex<Troubles>>);

#[derive(Clone, Copy, Default)]
struct Troubles {
    is_slow: bool,
    is_stalled: bool,
    is_full: bool,
    is_bulk_stalled: bool,
}

impl Condition {
    pub(crate) fn set(&self, how: DiskTrouble, is_so: bool) {
        let mut troubles = self.0.lock().expect("one thread");
        match how {
            DiskTrouble::Slow => troubles.is_slow = is_so,
            DiskTrouble::Stalled => troubles.is_stalled = is_so,
            DiskTrouble::Full => troubles.is_full = is_so,
            DiskTrouble::BulkStalled => troubles.is_bulk_stalled = is_so,
        }
    }

    pub(crate) fn heal(&self) {
        *self.0.lock().expect("one thread") = Troubles::default();
    }

    fn get(&self) -> Troubles {
        *self.0.lock().expect("one thread")
    }

    /// Waits until the step can be done.
    async fn allows(&self, lane: DiskLane, op: &DiskOp) {
        loop {
            let troubles = self.get();
            let needs_room = matches!(op, DiskOp::Append { .. } | DiskOp::Create { .. });
            let is_stalled = troubles.is_stalled || (troubles.is_bulk_stalled && lane == DiskLane::Bulk);
            if !(is_stalled || troubles.is_full && needs_room) {
                return;
            }
            if troubles.is_full && needs_room {
                super::sometimes::saw("a write waited for room on a full disk");
            }
            true_sleep(LOOK_AGAIN).await;
        }
    }

    fn sync_time(&self) -> Duration {
        let micros = if one_in(60) { below(80_000) } else { 100 + below(2_000) };
        let factor = if self.get().is_slow { 20 } else { 1 };
        Duration::from_micros(micros * factor)
    }
}

/// The disk of one start of a node. The memory behind it outlives the node.
pub(crate) struct SimDisk {
    work: Work,
    log: Shared<Lane>,
    bulk: Shared<Lane>,
}

/// What the lanes work with.
#[derive(Clone)]
struct Work {
    node: u64,
    memory: Arc<MemoryDisk>,
    condition: Condition,
    moments: Moments,
}

impl SimDisk {
    pub(crate) fn new(node: u64, memory: Arc<MemoryDisk>, condition: Condition, moments: Moments) -> Self {
        let work = Work { node, memory, condition, moments };
        Self { work, log: Shared::default(), bulk: Shared::default() }
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
            executor::spawn_on(executor::running_on(), self.work.clone().run_lane(lane, queue));
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.work.memory.list()
    }

    fn len(&self, file: &str) -> io::Result<u64> {
        self.work.memory.len(file)
    }

    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.work.memory.read_at(file, offset, len)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(if self.work.condition.get().is_full { NEARLY_NOTHING } else { 1 << 40 })
    }
}

impl Work {
    /// Does the jobs of a lane, one after the other. It dies with its node: what it had not come to is never done.
    async fn run_lane(self, lane: DiskLane, queue: Shared<Lane>) {
        loop {
            let job = {
                let mut queue = queue.lock().expect("one thread");
                let job = queue.jobs.pop_front();
                queue.is_running = job.is_some();
                job
            };
            let Some((ops, done)) = job else { return };
            done(self.run(lane, ops).await);
        }
    }

    async fn run(&self, lane: DiskLane, ops: Vec<DiskOp>) -> io::Result<()> {
        for op in ops {
            self.condition.allows(lane, &op).await;
            if matches!(op, DiskOp::Sync { .. } | DiskOp::SyncDir) {
                true_sleep(self.condition.sync_time()).await;
                self.condition.allows(lane, &op).await;
            }
            let moment = moment_of(lane, &op);
            match moment {
                Some(Moment::SnapshotNamed) => super::sometimes::saw("a snapshot built"),
                Some(Moment::SegmentRemoved) => super::sometimes::saw("the log purged"),
                _ => {}
            }
            let told = Arc::new(Mutex::new(Ok(())));
            let tell = told.clone();
            self.memory.submit(
                lane,
                vec![op],
                Box::new(move |result| *tell.lock().expect("one thread") = result),
            );
            std::mem::replace(&mut *told.lock().expect("one thread"), Ok(()))?;
            if moment.is_some_and(|moment| self.moments.reach(moment, Place::at(self.node))) {
                executor::yield_now().await;
            }
        }
        Ok(())
    }
}

/// What the step was, for those who aim at it.
fn moment_of(lane: DiskLane, op: &DiskOp) -> Option<Moment> {
    match (lane, op) {
        (DiskLane::Log, DiskOp::Append { .. }) => Some(Moment::Written),
        (DiskLane::Log, DiskOp::Sync { .. }) => Some(Moment::Synced),
        (DiskLane::Bulk, DiskOp::Rename { to, .. }) if to.starts_with("snap-") => Some(Moment::SnapshotNamed),
        (DiskLane::Bulk, DiskOp::Remove { file }) if file.starts_with("log") => Some(Moment::SegmentRemoved),
        _ => None,
    }
}
