//! A folder in memory that forgets what was not synced when the power goes.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;

use crate::world::{Disk, DiskDone, DiskLane, DiskOp};

/// For tests: deterministic, without threads; a job is over when `submit` returns, unless it waits for room.
///
/// Content and names become durable as on a strict file system: content with [`DiskOp::Sync`], names with
/// [`DiskOp::SyncDir`], neither with the other. [`MemoryDisk::crash`] takes away what is not durable.
#[derive(Default)]
pub struct MemoryDisk {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<u64, MemoryFile>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync of the folder, oldest first.
    name_changes: VecDeque<NameChange>,
    next_id: u64,
    capacity: Option<u64>,
    steps_left: Option<u64>,
    closed: BTreeMap<&'static str, String>,
    /// Jobs that wait for room, and those behind them, with what is left of each.
    stalled: BTreeMap<&'static str, VecDeque<(VecDeque<DiskOp>, DiskDone)>>,
}

#[derive(Default)]
struct MemoryFile {
    content: Vec<u8>,
    durable: Vec<u8>,
    changes: VecDeque<ContentChange>,
}

enum ContentChange {
    Appended(Bytes),
    Cut(u64),
}

enum NameChange {
    Set(String, u64),
    Moved { from: String, to: String },
    Removed(String),
}

impl MemoryDisk {
    /// An empty folder without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the sum of all files, in bytes; `None` lifts the limit. Jobs that have waited for room go on.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.inner().capacity = capacity;
        for lane in [DiskLane::Log, DiskLane::Bulk] {
            self.work(lane);
        }
    }

    /// After so many more steps every step fails and changes nothing, until the next [`MemoryDisk::crash`].
    pub fn stop_after(&self, steps: u64) {
        self.inner().steps_left = Some(steps);
    }

    /// The power goes and comes back.
    ///
    /// For the names and then for each file by name, `keep` is asked how much survives of what was not synced: it is
    /// given the number of unsynced name changes, or of unsynced bytes (a cut counts as one), and that many of the oldest
    /// survive. Lanes that a failure had closed work again; jobs that waited for room are gone without an answer.
    pub fn crash(&self, mut keep: impl FnMut(usize) -> usize) {
        let mut inner = self.inner();
        inner.keep_names(&mut keep);
        let ids: Vec<u64> = inner.names.values().copied().collect();
        inner.files.retain(|id, _| ids.contains(id));
        for id in ids {
            let file = inner.files.get_mut(&id).expect("a name stands for a file");
            file.crash(&mut keep);
        }
        inner.closed.clear();
        inner.stalled.clear();
        inner.steps_left = None;
    }

    /// Damages a file: writes over what is there, as if it had always been so.
    pub fn overwrite(&self, file: &str, offset: usize, bytes: &[u8]) {
        self.damage(file, |content| content[offset..offset + bytes.len()].copy_from_slice(bytes));
    }

    /// Damages a file: flips one bit.
    pub fn flip(&self, file: &str, offset: usize, bit: u8) {
        self.damage(file, |content| content[offset] ^= 1 << bit);
    }

    /// Damages a file: cuts it to `len` bytes.
    pub fn cut(&self, file: &str, len: usize) {
        self.damage(file, |content| content.truncate(len));
    }

    /// A second disk with the same files, all of them durable.
    pub fn copy(&self) -> Self {
        let inner = self.inner();
        let files = inner.files.iter().map(|(id, file)| (*id, MemoryFile::durable(file.content.clone())));
        let copy = Inner {
            files: files.collect(),
            names: inner.names.clone(),
            durable_names: inner.names.clone(),
            next_id: inner.next_id,
            ..Inner::default()
        };
        Self { inner: Mutex::new(copy) }
    }

    /// # Panics
    /// If there is no such file.
    fn damage(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner();
        let file = inner.file(file).expect("only a file that exists can be damaged");
        change(&mut file.content);
        *file = MemoryFile::durable(std::mem::take(&mut file.content));
    }

    /// Does the jobs of a lane until none is left or one finds no room.
    fn work(&self, lane: DiskLane) {
        loop {
            let Some((done, result)) = self.inner().next_done(name_of(lane)) else { return };
            done(result);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no code panics while it holds this")
    }
}

impl Disk for MemoryDisk {
    fn submit(&self, lane: DiskLane, ops: Vec<DiskOp>, done: DiskDone) {
        self.inner().stalled.entry(name_of(lane)).or_default().push_back((ops.into(), done));
        self.work(lane);
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().names.keys().cloned().collect())
    }

    fn len(&self, file: &str) -> io::Result<u64> {
        Ok(self.inner().file(file)?.content.len() as u64)
    }

    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        let mut inner = self.inner();
        let content = &inner.file(file)?.content;
        let from = usize::try_from(offset).map_or(content.len(), |offset| offset.min(content.len()));
        let to = from.saturating_add(len).min(content.len());
        Ok(Bytes::copy_from_slice(&content[from..to]))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let inner = self.inner();
        Ok(inner.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(inner.used())))
    }
}

impl Inner {
    /// The next job of a lane that is over, and what came of it.
    fn next_done(&mut self, lane: &'static str) -> Option<(DiskDone, io::Result<()>)> {
        let (mut ops, done) = self.stalled.get_mut(lane)?.pop_front()?;
        let result = self.run(lane, &mut ops);
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            self.stalled.get_mut(lane)?.push_front((ops, done));
            return None;
        }
        Some((done, result))
    }

    /// Does the steps of a job; leaves those that are not done.
    fn run(&mut self, lane: &'static str, ops: &mut VecDeque<DiskOp>) -> io::Result<()> {
        if let Some(why) = self.closed.get(lane) {
            return Err(io::Error::other(format!("this disk lane is closed since a write failed: {why}")));
        }
        while let Some(op) = ops.front() {
            if let Err(error) = self.step(op) {
                let is_write = matches!(op, DiskOp::Append { .. } | DiskOp::Sync { .. } | DiskOp::SyncDir);
                if is_write && error.kind() != io::ErrorKind::StorageFull {
                    self.closed.insert(lane, error.to_string());
                }
                return Err(error);
            }
            ops.pop_front();
        }
        Ok(())
    }

    fn step(&mut self, op: &DiskOp) -> io::Result<()> {
        if let Some(left) = &mut self.steps_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the power is gone"))?;
        }
        match op {
            DiskOp::Create { file } => self.create(file),
            DiskOp::Append { file, bytes } => self.append(file, bytes),
            DiskOp::Sync { file } => self.file(file).map(MemoryFile::sync),
            DiskOp::Truncate { file, len } => {
                self.file(file).map(|file| file.change(ContentChange::Cut(*len)))
            }
            DiskOp::Rename { from, to } => self.rename(from, to),
            DiskOp::Remove { file } => {
                if self.names.remove(file).is_some() {
                    self.name_changes.push_back(NameChange::Removed(file.clone()));
                }
                Ok(())
            }
            DiskOp::SyncDir => {
                self.durable_names = self.names.clone();
                self.name_changes.clear();
                Ok(())
            }
        }
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.next_id;
        self.next_id += 1;
        self.files.insert(id, MemoryFile::default());
        self.names.insert(name.to_owned(), id);
        self.name_changes.push_back(NameChange::Set(name.to_owned(), id));
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &Bytes) -> io::Result<()> {
        if self.capacity.is_some_and(|capacity| self.used() + bytes.len() as u64 > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file(name)?.change(ContentChange::Appended(bytes.clone()));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.to_owned(), id);
        self.name_changes.push_back(NameChange::Moved { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn file(&mut self, name: &str) -> io::Result<&mut MemoryFile> {
        let id = self.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.files.get_mut(id).expect("a name stands for a file"))
    }

    fn used(&self) -> u64 {
        self.names.values().map(|id| self.files[id].content.len() as u64).sum()
    }

    fn keep_names(&mut self, keep: &mut impl FnMut(usize) -> usize) {
        let kept = keep(self.name_changes.len());
        let mut names = std::mem::take(&mut self.durable_names);
        for change in self.name_changes.drain(..).take(kept) {
            match change {
                NameChange::Set(name, id) => {
                    names.insert(name, id);
                }
                NameChange::Moved { from, to } => {
                    let id = names.remove(&from).expect("its creation came first");
                    names.insert(to, id);
                }
                NameChange::Removed(name) => {
                    names.remove(&name);
                }
            }
        }
        self.durable_names = names.clone();
        self.names = names;
    }
}

fn name_of(lane: DiskLane) -> &'static str {
    match lane {
        DiskLane::Log => "log",
        DiskLane::Bulk => "bulk",
    }
}

impl MemoryFile {
    fn durable(content: Vec<u8>) -> Self {
        Self { durable: content.clone(), content, changes: VecDeque::new() }
    }

    fn change(&mut self, change: ContentChange) {
        change.apply(&mut self.content);
        self.changes.push_back(change);
    }

    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    fn crash(&mut self, keep: &mut impl FnMut(usize) -> usize) {
        let mut left = keep(self.changes.iter().map(ContentChange::size).sum());
        for change in self.changes.drain(..) {
            let size = change.size();
            change.up_to(left).apply(&mut self.durable);
            left = left.saturating_sub(size);
            if left == 0 {
                break;
            }
        }
        self.content.clone_from(&self.durable);
    }
}

impl ContentChange {
    /// In bytes, for a crash to choose from.
    fn size(&self) -> usize {
        match self {
            Self::Appended(bytes) => bytes.len(),
            Self::Cut(_) => 1,
        }
    }

    /// What of it is left when only its first `size` bytes reached the disk.
    fn up_to(self, size: usize) -> Self {
        match self {
            Self::Appended(bytes) => Self::Appended(bytes.slice(..size.min(bytes.len()))),
            Self::Cut(len) if size > 0 => Self::Cut(len),
            Self::Cut(_) => Self::Appended(Bytes::new()),
        }
    }

    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Appended(bytes) => content.extend_from_slice(bytes),
            Self::Cut(len) => content.truncate(usize::try_from(*len).unwrap_or(usize::MAX)),
        }
    }
}

#[cfg(test)]
mod tests;
