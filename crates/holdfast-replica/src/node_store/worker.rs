//! The thread that works with sled, and what becomes of it when sled fails.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::PastExtent;
use super::book::{Book, Pairs};
use super::sled_store::{Shared, Work};

/// Pause between two writes.
const PAUSE: Duration = Duration::from_secs(1);
/// The store is small.
const CACHE_BYTES: u64 = 1 << 20;
const FOLDER: &str = "node-store";
/// Of the blocks of the past.
const PAST: &[u8] = b"past";
/// Lies beside sled's files once they have content. sled opens some damaged files as an empty store.
const BEGUN: &str = "begun";
const SET_ASIDE_PREFIX: &str = "node-store.damaged-";

pub(super) struct Worker {
    data_folder: PathBuf,
    shared: Arc<Shared>,
}

/// A store that can be used, and what is in it.
struct Opened {
    store: sled::Db,
    book: Book,
    past: sled::Tree,
    extent: PastExtent,
}

/// Why a store is of no use.
pub(super) enum Failure {
    /// The files are there but not as they should be.
    Damaged(String),
    /// The system would not let us: a full disk, for instance. The files may be fine.
    Io(io::Error),
}

impl Worker {
    pub(super) fn new(data_folder: &Path, shared: Arc<Shared>) -> Self {
        Self { data_folder: data_folder.to_owned(), shared }
    }

    /// Opens the store, if need be a new one in place of a damaged one; `None` if there is no opening any.
    pub(super) fn open(&self) -> Option<sled::Db> {
        let opened = self.try_open().or_else(|failure| match failure {
            Failure::Damaged(what) => self.set_aside(&what).and_then(|()| self.try_open()),
            Failure::Io(_) => Err(failure),
        });
        let mut state = self.shared.state();
        state.health.set_aside = count_set_aside(&self.data_folder);
        match opened {
            Ok(Opened { store, book, past, extent }) => {
                (state.book, state.past) = (book, extent);
                drop(self.shared.past.set(past)); // It is opened once.
                Some(store)
            }
            Err(failure) => {
                state.health.stopped = true;
                tracing::error!(reason = %failure, "the node store cannot be opened; going on without it");
                None
            }
        }
    }

    /// Writes whatever changes until the store is closed or sled fails.
    pub(super) fn work(&self, store: &sled::Db) {
        let mut stored = match guarded(|| read_all(store)) {
            Ok(stored) => stored,
            Err(failure) => return self.stop(&failure),
        };
        while let Some(Work { book, new_past, stale_blocks }) = self.shared.next_work() {
            let wanted = book.map_or_else(|| stored.clone(), |book| book.to_pairs());
            let written = guarded(|| {
                if let Some(past) = self.shared.past.get() {
                    write_past(past, &new_past, stale_blocks)?;
                }
                self.write(store, &stored, &wanted)
            });
            if let Err(failure) = written {
                return self.stop(&failure);
            }
            self.shared.note_written(&new_past);
            stored = wanted;
            self.shared.pause(PAUSE);
        }
    }

    fn try_open(&self) -> Result<Opened, Failure> {
        let folder = self.folder();
        remove_half_written(&folder).map_err(Failure::Io)?;
        let (store, pairs, past, extent) = guarded(|| {
            let config = sled::Config::new().path(&folder).cache_capacity(CACHE_BYTES).flush_every_ms(None);
            let store = config.open()?;
            let pairs = read_all(&store)?;
            let past = store.open_tree(PAST)?;
            let last =
                past.last()?.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)));
            let extent = PastExtent { blocks: past.len() as u64, last: last.unwrap_or(0) };
            Ok((store, pairs, past, extent))
        })?;
        if pairs.is_empty() && !folder.join(BEGUN).exists() {
            let empty = Book::default();
            guarded(|| self.write(&store, &pairs, &empty.to_pairs()))?;
            File::create(folder.join(BEGUN)).map_err(Failure::Io)?;
            return Ok(Opened { store, book: empty, past, extent });
        }
        let book = Book::from_pairs(pairs);
        let book = book.ok_or_else(|| Failure::Damaged("its digest does not fit its content".to_owned()))?;
        Ok(Opened { store, book, past, extent })
    }

    /// Writes the differences as one batch. sled's own flush does not reach the medium: a sync of its file follows.
    fn write(&self, store: &sled::Db, stored: &Pairs, wanted: &Pairs) -> sled::Result<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in wanted.iter().filter(|(key, value)| stored.get(*key) != Some(value)) {
            batch.insert(key.as_slice(), value.as_slice());
        }
        for key in stored.keys().filter(|key| !wanted.contains_key(*key)) {
            batch.remove(key.as_slice());
        }
        store.apply_batch(batch)?;
        store.flush()?;
        Ok(File::open(self.folder().join("db"))?.sync_data()?)
    }

    fn set_aside(&self, what: &str) -> Result<(), Failure> {
        let free = (1_u64..).map(|n| self.data_folder.join(format!("{SET_ASIDE_PREFIX}{n}")));
        let to = free.into_iter().find(|path| !path.exists()).expect("numbers do not run out");
        tracing::error!(
            reason = what,
            kept_as = %to.display(),
            "the node store is damaged: beginning a new one. Locks are not affected; its history is lost"
        );
        fs::rename(self.folder(), to).map_err(Failure::Io)
    }

    fn stop(&self, failure: &Failure) {
        tracing::error!(reason = %failure, "the node store failed; going on without it until the next start");
        let mut state = self.shared.state();
        state.health.stopped = true;
        state.new_past.clear();
    }

    fn folder(&self) -> PathBuf {
        self.data_folder.join(FOLDER)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(what) => f.write_str(what),
            Self::Io(error) => error.fmt(f),
        }
    }
}

fn write_past(past: &sled::Tree, new: &BTreeMap<u64, Bytes>, stale_blocks: u64) -> sled::Result<()> {
    let mut batch = sled::Batch::default();
    new.iter().for_each(|(number, block)| batch.insert(&number.to_be_bytes(), &block[..]));
    past.apply_batch(batch)?;
    for _ in 0..stale_blocks {
        past.pop_min()?;
    }
    Ok(())
}

/// Runs something of sled's. Its panics mean that it found what it did not expect.
pub(super) fn guarded<T>(act: impl FnOnce() -> sled::Result<T>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(error))) if !speaks_of_content(&error) => Err(Failure::Io(error)),
        Ok(Err(error)) => Err(Failure::Damaged(error.to_string())),
        Err(_) => Err(Failure::Damaged("sled panicked".to_owned())),
    }
}

fn speaks_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

fn read_all(store: &sled::Db) -> sled::Result<Pairs> {
    store.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

/// A half-written `snap.*.generating`, which a crash may leave, would keep sled from opening.
fn remove_half_written(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "generating") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn count_set_aside(data_folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(data_folder) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(SET_ASIDE_PREFIX)).count() as u64
}
