//! One lane of a folder: a thread that runs jobs in order and lets one sync serve as many as it can.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::handles::{Handles, append_all};
use super::stats::DiskStats;
use crate::world::{DiskDone, DiskOp};

/// So many jobs at most are taken up at once: a bound on how long the first of them waits for its sync.
const TAKEN_UP_MAX: usize = 256;
/// How often a lane looks whether a full disk has room again.
const ROOM_CHECK_EVERY: Duration = Duration::from_millis(100);

struct Job {
    ops: Vec<DiskOp>,
    done: DiskDone,
}

/// The lane as its folder sees it. Dropping it lets the queued jobs finish first, but for those that wait for room.
pub(super) struct Lane {
    /// Dropped to tell the thread that nobody waits for room any more.
    open: Option<Sender<()>>,
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts the thread. `lock` is released only when no lane can write any more.
    pub(super) fn start(
        name: &str,
        folder: &Path,
        stats: Arc<DiskStats>,
        lock: Arc<File>,
    ) -> io::Result<Self> {
        let (queue, jobs) = channel();
        let (open, closed) = channel();
        let worker = Worker {
            folder: folder.to_owned(),
            // Kept open: a process that has run out of descriptors must still be able to go on.
            folder_handle: File::open(folder)?,
            handles: Handles::new(folder),
            stats,
            failure: None,
            closed,
            is_full: false,
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _lock = lock;
            worker.work(&jobs);
        })?;
        Ok(Self { open: Some(open), queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn submit(&self, ops: Vec<DiskOp>, done: DiskDone) {
        let queue = self.queue.as_ref().expect("the queue lives until the lane is dropped");
        if let Err(unsent) = queue.send(Job { ops, done }) {
            (unsent.0.done)(Err(io::Error::other("the thread of this disk lane is gone")));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        drop(self.open.take());
        drop(self.queue.take());
        let Some(thread) = self.thread.take() else { return };
        // The last user of the folder may be a callback that runs on this very thread.
        if thread.thread().id() != thread::current().id() {
            // A panic in it was a panic in somebody's callback, and was reported then.
            let _ = thread.join();
        }
    }
}

struct Worker {
    folder: PathBuf,
    folder_handle: File,
    handles: Handles,
    stats: Arc<DiskStats>,
    /// Why the lane is closed for ever. Once a write or sync has failed, nobody knows what the kernel has dropped.
    failure: Option<String>,
    /// Disconnected once the lane is dropped.
    closed: Receiver<()>,
    /// A write waits for room.
    is_full: bool,
}

impl Worker {
    fn work(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let mut taken: Vec<Job> = vec![first];
            taken.extend(jobs.try_iter().take(TAKEN_UP_MAX - 1));
            let mut taken = taken.into_iter().peekable();
            while let Some(job) = taken.next() {
                match appended_file(&job.ops).map(str::to_owned) {
                    Some(file) => {
                        let mut group = vec![job];
                        while let Some(next) = taken.next_if(|next| appended_file(&next.ops) == Some(&file)) {
                            group.push(next);
                        }
                        self.run_group(&file, group);
                    }
                    None => self.run_alone(job),
                }
            }
        }
    }

    /// Runs jobs that all append to one file and sync it, as one write and one sync.
    fn run_group(&mut self, file: &str, group: Vec<Job>) {
        let result = self.open_for_work().and_then(|()| {
            let buffers =
                group.iter().flat_map(|job| &job.ops).filter_map(appended_bytes).collect::<Vec<_>>();
            let appended = self.append(file, &buffers).and_then(|()| self.sync(file));
            self.note(appended)
        });
        for job in group {
            (job.done)(again(&result));
        }
    }

    fn run_alone(&mut self, job: Job) {
        let result = self.open_for_work().and_then(|()| job.ops.iter().try_for_each(|op| self.step(op)));
        (job.done)(result);
    }

    fn step(&mut self, op: &DiskOp) -> io::Result<()> {
        match op {
            DiskOp::Create { file } => self.with_room(|worker| worker.handles.create(file)),
            DiskOp::Append { file, bytes } => {
                let result = self.append(file, &[bytes]);
                self.note(result)
            }
            DiskOp::Sync { file } => {
                let result = self.sync(file);
                self.note(result)
            }
            DiskOp::Truncate { file, len } => {
                let result = self.handles.get(file).and_then(|open| open.set_len(*len));
                self.note(result)
            }
            DiskOp::Rename { from, to } => {
                self.handles.forget(from);
                self.handles.forget(to);
                self.with_room(|worker| fs::rename(worker.folder.join(from), worker.folder.join(to)))
            }
            DiskOp::Remove { file } => {
                self.handles.forget(file);
                remove_if_there(&self.folder.join(file))
            }
            DiskOp::SyncDir => {
                let result = self.sync_folder();
                self.note(result)
            }
        }
        .map_err(|error| with_step(op, &error))
    }

    fn append(&mut self, file: &str, buffers: &[&Bytes]) -> io::Result<()> {
        self.with_room(|worker| append_all(worker.handles.get(file)?, buffers))?;
        for bytes in buffers {
            self.stats.appended(bytes.len() as u64);
        }
        Ok(())
    }

    fn sync(&mut self, file: &str) -> io::Result<()> {
        let open = self.handles.get(file)?;
        let begun = Instant::now();
        open.sync_data()?;
        self.stats.synced(begun.elapsed());
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let begun = Instant::now();
        self.folder_handle.sync_all()?;
        self.stats.synced(begun.elapsed());
        Ok(())
    }

    /// Does a step that leaves nothing behind when there is no room for it, again and again until there is.
    ///
    /// What has not reached the kernel can be tried again, unlike a sync that has failed.
    fn with_room(&mut self, mut step: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        loop {
            let result = step(self);
            if !result.as_ref().is_err_and(is_full) {
                if std::mem::take(&mut self.is_full) {
                    tracing::info!(folder = %self.folder.display(), "there is room on the disk again: writing goes on");
                }
                return result;
            }
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::error!(
                    folder = %self.folder.display(),
                    "the disk is full: nothing is written or acknowledged until there is room"
                );
            }
            if self.closed.recv_timeout(ROOM_CHECK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return result;
            }
        }
    }

    fn open_for_work(&self) -> io::Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(why) => {
                Err(io::Error::other(format!("this disk lane is closed since a write failed: {why}")))
            }
        }
    }

    /// Closes the lane if a write or sync failed.
    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result {
            tracing::error!(folder = %self.folder.display(), %error, "a disk write failed; this lane is closed");
            self.failure.get_or_insert_with(|| error.to_string());
        }
        result
    }
}

/// The file, if the job does nothing but append to it and then make it durable.
fn appended_file(ops: &[DiskOp]) -> Option<&str> {
    let (last, appends) = ops.split_last()?;
    let DiskOp::Sync { file } = last else { return None };
    let to_same = |op: &DiskOp| matches!(op, DiskOp::Append { file: other, .. } if other == file);
    appends.iter().all(to_same).then_some(file)
}

fn appended_bytes(op: &DiskOp) -> Option<&Bytes> {
    match op {
        DiskOp::Append { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn with_step(op: &DiskOp, error: &io::Error) -> io::Error {
    let step = match op {
        DiskOp::Create { file } => format!("create {file}"),
        DiskOp::Append { file, .. } => format!("append to {file}"),
        DiskOp::Sync { file } => format!("sync {file}"),
        DiskOp::Truncate { file, len } => format!("cut {file} to {len} bytes"),
        DiskOp::Rename { from, to } => format!("rename {from} to {to}"),
        DiskOp::Remove { file } => format!("remove {file}"),
        DiskOp::SyncDir => "sync the folder".to_owned(),
    };
    io::Error::new(error.kind(), format!("{step}: {error}"))
}

/// The same result once more, for the next job of a group.
fn again(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}
