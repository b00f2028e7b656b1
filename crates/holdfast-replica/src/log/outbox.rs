//! Jobs on their way to the disk, in order, without a lock held while the disk takes them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::world::{Disk, DiskDone, DiskLane, DiskOp};

pub(super) struct Job {
    pub(super) ops: Vec<DiskOp>,
    pub(super) done: DiskDone,
}

/// A disk may call `done` while it takes a job, and `done` may write to the log again. So whoever comes first hands
/// over everything that is in line, also what others put there meanwhile, and the others go on.
#[derive(Default)]
pub(super) struct Outbox(Mutex<Line>);

#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    somebody_hands_over: bool,
}

impl Outbox {
    pub(super) fn push(&self, job: Job) {
        self.line().jobs.push_back(job);
    }

    /// Hands all jobs over, unless somebody is doing so already.
    pub(super) fn pump(&self, disk: &dyn Disk) {
        {
            let mut line = self.line();
            if line.somebody_hands_over {
                return;
            }
            line.somebody_hands_over = true;
        }
        while let Some(job) = self.next() {
            disk.submit(DiskLane::Log, job.ops, job.done);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut line = self.line();
        let job = line.jobs.pop_front();
        line.somebody_hands_over = job.is_some();
        job
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().expect("no code panics while it holds this")
    }
}
