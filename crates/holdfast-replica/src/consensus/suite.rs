//! openraft's own tests for log and state machine, run on ours.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_core::NodeId as CoreNodeId;
use openraft::StorageError;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft_rt_tokio::TokioRuntime;
use tokio::sync::mpsc;

use crate::claims::Claims;
use crate::consensus::codec;
use crate::consensus::log_store::LogStore;
use crate::consensus::machine::Machine;
use crate::consensus::snapshots::SnapshotStore;
use crate::consensus::types::{Entry, LogId, Types, VoteOf};
use crate::disk::{FolderDisk, MemoryDisk};
use crate::effects::Effects;
use crate::lock_counters::LockCounters;
use crate::log::Log;
use crate::snapshot_files::SnapshotFiles;
use crate::waiters::Waiters;
use crate::world::Disk;

type C = Types<TokioRuntime>;
type Stores = (FromAnywhere, Machine<TokioRuntime>);

/// Our log, but that it may begin anywhere, and forgets at once what is purged.
///
/// The suite begins most logs with entry 1, which no cluster does: what is missing in front is purged with an id that no
/// entry has, and not shown. And it wants purged entries to be gone, which ours keeps for a while on purpose.
#[derive(Clone)]
struct FromAnywhere {
    store: LogStore<TokioRuntime>,
    log: Log,
}

impl RaftLogReader<C> for FromAnywhere {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry<TokioRuntime>>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        let mut entries = self.store.try_get_log_entries(range).await?;
        entries.retain(|entry| entry.log_id.index >= self.log.first_index());
        Ok(entries)
    }

    async fn read_vote(&mut self) -> Result<Option<VoteOf<TokioRuntime>>, io::Error> {
        self.store.read_vote().await
    }
}

impl RaftLogStorage<C> for FromAnywhere {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, io::Error> {
        if self.log.purged().is_none_or(|purged| !purged.id.is_empty()) {
            return self.store.get_log_state().await;
        }
        let last = self.log.last().filter(|last| !last.id.is_empty());
        let last_log_id = last.map(|last| codec::decode_point::<TokioRuntime>(&last)).transpose()?;
        Ok(LogState { last_purged_log_id: None, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<TokioRuntime>) -> Result<(), io::Error> {
        self.store.save_vote(vote).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry<TokioRuntime>> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let first = entries.first().map_or(0, |entry| entry.log_id.index);
        if first > 0 && self.log.last().is_none() {
            self.log.purge(first - 1, Bytes::new(), Box::new(|purged| purged.unwrap()));
        }
        self.store.append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogId<TokioRuntime>>) -> Result<(), io::Error> {
        self.store.truncate_after(last).await
    }

    async fn purge(&mut self, log_id: LogId<TokioRuntime>) -> Result<(), io::Error> {
        self.store.purge(log_id).await
    }
}

async fn stores(disk: Arc<dyn Disk>) -> Stores {
    let (log, _) = Log::open(disk.clone(), 1).await.unwrap();
    let (files, _) = SnapshotFiles::open(disk).await.unwrap();
    let (errands, _) = mpsc::unbounded_channel();
    let waiters = Waiters::new(CoreNodeId(1), 1, errands);
    let effects =
        Arc::new(Effects::new(waiters, Claims::new(CoreNodeId(1), 1), LockCounters::new(Arc::default(), 0)));
    let machine = Machine::open(SnapshotStore::new(files), effects, None).unwrap();
    (FromAnywhere { store: LogStore::new(log.clone()), log }, machine)
}

struct InMemory;

impl StoreBuilder<C, FromAnywhere, Machine<TokioRuntime>> for InMemory {
    async fn build(&self) -> Result<((), FromAnywhere, Machine<TokioRuntime>), StorageError<C>> {
        let (log, machine) = stores(Arc::new(MemoryDisk::new())).await;
        Ok(((), log, machine))
    }
}

struct InFolder;

impl StoreBuilder<C, FromAnywhere, Machine<TokioRuntime>, tempfile::TempDir> for InFolder {
    async fn build(
        &self,
    ) -> Result<(tempfile::TempDir, FromAnywhere, Machine<TokioRuntime>), StorageError<C>> {
        let folder = tempfile::tempdir().unwrap();
        let (log, machine) = stores(Arc::new(FolderDisk::open(folder.path()).unwrap())).await;
        Ok((folder, log, machine))
    }
}

#[tokio::test]
async fn log_and_state_machine_pass_openrafts_own_suite_in_memory() {
    Suite::test_all(InMemory).await.unwrap();
}

#[tokio::test]
async fn log_and_state_machine_pass_openrafts_own_suite_in_a_folder() {
    Suite::test_all(InFolder).await.unwrap();
}
