//! Starting a replica from its folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_core::{ClusterId, Group, NodeId as CoreNodeId, Op, Rejection, StorageId};
use openraft::impls::BasicNode;
use rand::Rng as _;
use tokio::sync::mpsc;

use crate::claims::Claims;
use crate::consensus::config::config;
use crate::consensus::log_store::{LogStore, durable};
use crate::consensus::machine::Machine;
use crate::consensus::network::Network;
use crate::consensus::snapshots::SnapshotStore;
use crate::consensus::{Raft, codec};
use crate::disk::DiskStats;
use crate::effects::Effects;
use crate::groups::LockGroups;
use crate::handle::{CALL_TIMEOUT, Housekeeping, OnApplied, OpenError, Timing};
use crate::identity::Identity;
use crate::leadership::Leadership;
use crate::lock_counters::LockCounters;
use crate::log::{Log, LogLimits, LogPoint, TrimmedTail};
use crate::members::Turns;
use crate::node_store::{NodeStore, check_witness};
use crate::proposals::Driver;
use crate::reads::Rounds;
use crate::replica::{About, Inner, Replica};
use crate::snapshot_files::SnapshotFiles;
use crate::space::Space;
use crate::tasks::Tasks;
use crate::waiters::Waiters;
use crate::watch::Watched;
use crate::world::{Disk, NodeId, Runtime, Transport};

/// How much of the log is looked through at a time.
const LOG_READ_BYTES: usize = 4 << 20;

/// A folder that was opened and checked: everything that has to be known before the network is.
pub struct OpenFolder {
    /// Where it lies.
    pub disk: Arc<dyn Disk>,
    /// What is known of it from before, off the safety path.
    pub node_store: Arc<dyn NodeStore>,
    /// Whose it is.
    pub identity: Identity,
    /// Its log.
    pub log: Log,
    /// Its snapshots.
    pub snapshots: SnapshotFiles,
    /// What a crash had left incomplete at the end of the log.
    pub trimmed: Option<TrimmedTail>,
}

impl OpenFolder {
    /// Opens a node's folder, or makes a new one of an empty one.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if it is not what was written, or has lost what `node_store` has seen in it;
    /// [`OpenError::Refused`] if it belongs to another node.
    pub async fn open<R: Runtime>(
        disk: Arc<dyn Disk>,
        node_store: Arc<dyn NodeStore>,
        node_id: NodeId,
    ) -> Result<Self, OpenError> {
        Self::open_with::<R>(disk, node_store, node_id, LogLimits::default()).await
    }

    /// Like [`OpenFolder::open`], with other sizes of the log.
    ///
    /// # Errors
    /// See [`OpenFolder::open`].
    pub async fn open_with<R: Runtime>(
        disk: Arc<dyn Disk>,
        node_store: Arc<dyn NodeStore>,
        node_id: NodeId,
        limits: LogLimits,
    ) -> Result<Self, OpenError> {
        let identity = match Identity::load(&*disk).map_err(damaged)? {
            Some(identity) if identity.node_id != node_id => {
                return Err(OpenError::Refused(format!(
                    "the data folder belongs to node {}, but this node was started with id {node_id}: use the \
                     right id, or another folder",
                    identity.node_id
                )));
            }
            Some(identity) => identity,
            None => Identity::create(&*disk, node_id, random_u128::<R>()).await.map_err(damaged)?,
        };
        let (log, report) =
            Log::open_with(disk.clone(), identity.storage_id, limits).await.map_err(damaged)?;
        if report.fresh && identity.cluster_id.is_some() {
            return Err(OpenError::Damaged(
                "the log (log-*.hf) is missing, although the node has been part of a cluster. This node must not \
                 start without it. Remove the node from the cluster, then let it join anew with an empty data folder"
                    .into(),
            ));
        }
        if let Some(tail) = &report.trimmed {
            tracing::warn!(
                file = tail.file,
                offset = tail.offset,
                bytes = tail.bytes,
                what = tail.what,
                "trimmed an incomplete tail of the log that a crash had left"
            );
        }
        let (snapshots, found) = SnapshotFiles::open(disk.clone()).await.map_err(damaged)?;
        check_snapshots(&log, &snapshots, &found)?;
        check_witness(&log, node_store.witness().as_ref()).map_err(damaged)?;
        drop_contradicted(&log, &snapshots).await.map_err(damaged)?;
        Ok(Self { disk, node_store, identity, log, snapshots, trimmed: report.trimmed })
    }
}

impl OpenFolder {
    /// Which folder belongs to which node, as far as the log says so, also where it is not applied yet.
    ///
    /// After a restart of all nodes nothing may be applied for a while, and yet a wiped folder must not be counted on.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn registered(&self) -> Result<BTreeMap<NodeId, StorageId>, OpenError> {
        let mut registered = BTreeMap::new();
        let end = self.log.last().map_or(0, |last| last.index + 1);
        let mut next = self.log.first_index();
        while next < end {
            let records = self.log.entries(next..end, LOG_READ_BYTES).map_err(damaged)?;
            let Some(last) = records.last() else { break };
            next = last.index + 1;
            for bytes in records.iter().filter_map(codec::group_of) {
                let group = Group::decode(&bytes).map_err(damaged)?;
                registered.extend(group.ops.into_iter().filter_map(|op| match op {
                    Op::Register { node, storage } => Some((node.0, storage)),
                    _ => None,
                }));
            }
        }
        Ok(registered)
    }
}

fn damaged(error: impl std::fmt::Display) -> OpenError {
    OpenError::Damaged(error.to_string())
}

/// The log must go on where the newest sound snapshot ends.
fn check_snapshots(
    log: &Log,
    snapshots: &SnapshotFiles,
    found: &[crate::snapshot_files::FoundSnapshot],
) -> Result<(), OpenError> {
    let covered = snapshots.newest().map_or(0, |file| file.point().index + 1);
    for snapshot in found {
        if let Err(what) = &snapshot.snapshot {
            tracing::error!(file = snapshot.file, what, "a snapshot is damaged");
        }
    }
    if log.first_index() <= covered {
        return Ok(());
    }
    let broken =
        found.iter().find_map(|s| s.snapshot.as_ref().err().map(|what| (s.file.as_str(), what.as_str())));
    let (file, what) = broken.unwrap_or(("the snapshot", "it is missing"));
    Err(OpenError::Damaged(format!(
        "{file} is damaged ({what}), and the log begins only at entry {}. This node must not start with it. Remove \
         the node from the cluster, then let it join anew with an empty data folder",
        log.first_index()
    )))
}

/// Drops entries that contradict the newest snapshot.
///
/// A snapshot that came from a leader is kept before the log is changed to go on from it, and a crash may come in between.
/// What it covers is committed: where the log has another entry at its last index, that one and all behind it were not.
async fn drop_contradicted(log: &Log, snapshots: &SnapshotFiles) -> io::Result<()> {
    let Some(newest) = snapshots.newest() else { return Ok(()) };
    let LogPoint { index, id } = newest.point().clone();
    let is_covered = index < log.first_index() || log.last().is_none_or(|last| last.index < index);
    if is_covered || log.entries(index..index + 1, 0)?.pop().is_none_or(|entry| entry.id == id) {
        return Ok(());
    }
    tracing::warn!(index, "dropped entries of the log that a snapshot from the leader contradicts");
    durable(|done| log.truncate_after(index.checked_sub(1), done)).await?;
    durable(|done| log.purge(index, id, done)).await
}

pub(crate) fn random_u128<R: Runtime>() -> u128 {
    let mut rng = R::thread_rng();
    (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64())
}

/// What a replica is made of.
pub struct ReplicaParts {
    /// Its folder.
    pub folder: OpenFolder,
    /// The way to its peers.
    pub transport: Arc<dyn Transport>,
    /// The first members, by id with `HOST:PORT` for peers. Ignored with existing data. Without any, the node waits until
    /// the leader of a cluster lets it in.
    pub initial_cluster: BTreeMap<NodeId, String>,
    /// What the disk has counted, for metrics.
    pub log_disk_stats: Arc<DiskStats>,
    /// How quickly a lost leader is noticed.
    pub timing: Timing,
    /// When the log is shortened.
    pub housekeeping: Housekeeping,
    /// Hears of everything that is applied, if anybody wants to.
    pub on_applied: Option<OnApplied>,
    /// Base URL that clients reach it by.
    pub client_url: String,
    /// Version of the program.
    pub version: String,
    /// What locks are counted by.
    pub lock_groups: Arc<LockGroups>,
    /// This node's clock on the wall, in milliseconds since 1970. Only people are shown what it says.
    pub wall_clock: fn() -> u64,
}

impl<R: Runtime> Replica<R> {
    /// Starts a replica.
    ///
    /// # Errors
    /// If the folder cannot be used, or the timing makes no sense.
    pub async fn start(parts: ReplicaParts) -> Result<Self, OpenError> {
        let OpenFolder { disk, node_store, identity, log, snapshots, trimmed: _ } = parts.folder;
        let node_id = identity.node_id;
        let boot = u32::try_from(log.boot()).unwrap_or(u32::MAX);
        let snapshots = SnapshotStore::<R>::new(snapshots);
        let (errands, errands_in) = mpsc::unbounded_channel();
        let core_id = CoreNodeId(node_id);
        let waiters = Waiters::new(core_id, boot, errands.clone());
        let counters = LockCounters::new(parts.lock_groups, log.last().map_or(0, |last| last.index));
        let effects = Arc::new(Effects::new(waiters, Claims::new(core_id, boot), counters));
        let machine = Machine::open(snapshots.clone(), effects.clone(), parts.on_applied).map_err(damaged)?;
        let slot = Arc::new(OnceLock::new());
        let network = Network::new(parts.transport.clone(), slot.clone());
        let config = config(parts.timing).map_err(OpenError::Refused)?;
        let raft = Raft::<R>::new(node_id, config, network, LogStore::new(log.clone()), machine.clone())
            .await
            .map_err(damaged)?;
        let leadership = Arc::new(Leadership::new(node_id, parts.timing, raft.clone()));
        let _ = slot.set(Arc::downgrade(&leadership)); // The slot was made a few lines above.
        let (proposals, driver) = Driver::new(raft.clone(), parts.transport.clone(), leadership.clone());
        let (reads, rounds) = Rounds::new(raft.clone(), parts.transport.clone(), leadership.clone());
        let inner = Arc::new(Inner {
            node_id,
            boot,
            about: About {
                client_url: parts.client_url,
                version: parts.version,
                storage: StorageId(identity.storage_id),
                cluster: identity.cluster_id.clone(),
            },
            raft,
            machine,
            effects,
            leadership,
            proposals,
            reads,
            transport: parts.transport,
            disk,
            log_disk_stats: parts.log_disk_stats,
            node_store,
            log,
            snapshots,
            tasks: Tasks::new(),
            housekeeping: parts.housekeeping,
            errands,
            next_call: AtomicU32::new(1),
            has_recovered: AtomicBool::new(false),
            has_settled: AtomicBool::new(false),
            space: Space::default(),
            is_draining: Watched::new(false),
            wall_clock: parts.wall_clock,
            turns: Turns::default(),
            removed: Watched::new(None),
            failure: Watched::new(None),
        });
        start_tasks(&inner, driver, rounds, errands_in, identity);
        inner.form(parts.initial_cluster).await?;
        Ok(Self(inner))
    }

    /// The cluster's identity, as soon as it is known.
    pub async fn formed(&self) -> ClusterId {
        let progress = self.0.effects.progress.wait_for(|progress| progress.cluster.is_some()).await;
        progress.cluster.expect("that is what was waited for")
    }

    /// The folder that a node has registered, as far as this replica knows.
    pub fn storage_of(&self, node: NodeId) -> Option<StorageId> {
        self.0.machine.look(|state| state.table.storage_of(CoreNodeId(node)))
    }
}

fn start_tasks<R: Runtime>(
    inner: &Arc<Inner<R>>,
    driver: Driver<R>,
    rounds: Rounds<R>,
    errands: mpsc::UnboundedReceiver<Op>,
    identity: Identity,
) {
    let tasks = &inner.tasks;
    tasks.start(driver.run(tasks.closing()));
    tasks.start(rounds.run(tasks.closing()));
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.leadership.follow(&me.effects, closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.tick(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.vouch(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.check_claims(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.run_errands(errands, closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.tell_wall_clock(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.keep_past(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move { me.keep_house(closing).await });
    let (me, closing) = (inner.clone(), tasks.closing());
    tasks.start(async move {
        let _ = R::select2(closing.closed(), me.settle_in(identity)).await;
    });
}

impl<R: Runtime> Inner<R> {
    /// Forms the cluster, unless this node has been in one. All first members may do so, with the same list.
    async fn form(&self, initial_cluster: BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        let is_formed = self.raft.is_initialized().await.map_err(damaged)?;
        if is_formed || initial_cluster.is_empty() {
            return Ok(());
        }
        let members: BTreeMap<_, _> =
            initial_cluster.into_iter().map(|(id, addr)| (id, BasicNode { addr })).collect();
        match self.raft.initialize(members).await {
            Ok(()) => Ok(()),
            // A leader of the same cluster has been quicker.
            Err(_) if self.raft.is_initialized().await.unwrap_or(false) => Ok(()),
            Err(error) => Err(OpenError::Refused(format!("the cluster cannot be formed: {error}"))),
        }
    }

    /// What a node has to get done once after each start: recover, give the cluster its identity, say whose folder
    /// this is.
    async fn settle_in(&self, mut identity: Identity) {
        let recovered = async {
            while self.raft.wait_for_recovery(Some(Duration::from_secs(60))).await.is_err() {
                if crate::chores::core_failure(&self.raft).is_some() {
                    std::future::pending::<()>().await;
                }
            }
            self.has_recovered.store(true, Ordering::Relaxed);
        };
        recovered.await;
        let cluster = self.find_cluster().await;
        if let Err(error) = identity.set_cluster_id(&*self.disk, &cluster.to_string()).await {
            self.failure.set(Some(error.to_string()));
            return;
        }
        if self.register(StorageId(identity.storage_id)).await {
            self.has_settled.store(true, Ordering::Relaxed);
        }
    }

    /// The cluster's identity; the first leader makes it.
    async fn find_cluster(&self) -> ClusterId {
        let mut progress = self.effects.progress.watch();
        loop {
            if let Some(cluster) = progress.take().cluster {
                return cluster;
            }
            if self.leadership.leading().is_some() {
                let found = Op::Found { cluster: ClusterId(random_u128::<R>()) };
                let _ = self.proposals.propose(&found, CALL_TIMEOUT).await; // Tried until somebody's is applied.
            }
            let pause = R::sleep(Duration::from_millis(100));
            R::select2(progress.changed(), pause).await;
        }
    }

    /// Ties this node's id to its folder, and stops the node if the id is tied to another one: then it is false.
    async fn register(&self, storage: StorageId) -> bool {
        let register = Op::Register { node: CoreNodeId(self.node_id), storage };
        loop {
            let known = self.machine.look(|state| state.table.storage_of(CoreNodeId(self.node_id)));
            if known == Some(storage) {
                return true;
            }
            match self.proposals.propose(&register, CALL_TIMEOUT).await {
                Ok(Ok(_)) => return true,
                Ok(Err(Rejection::ForeignStorage)) => {
                    self.failure.set(Some(format!(
                        "node id {} belongs to another data folder. Remove that node from the cluster, then let \
                         this one join with an id that was never used",
                        self.node_id
                    )));
                    return false;
                }
                Ok(Err(_)) | Err(_) => R::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::log::LogRecord;

    /// A log of entries 0 to 9 from term "b", and a snapshot up to 7 whose last entry is from term `id`.
    async fn opened(id: &'static str) -> (Log, SnapshotFiles) {
        let disk = Arc::new(MemoryDisk::new());
        let (log, _) = Log::open(disk.clone(), 1).await.unwrap();
        let entry = |index| LogRecord { index, id: Bytes::from_static(b"b"), payload: Bytes::new() };
        durable(|done| log.append((0..10).map(entry).collect(), done)).await.unwrap();
        let (snapshots, _) = SnapshotFiles::open(disk).await.unwrap();
        let point = LogPoint { index: 7, id: Bytes::from_static(id.as_bytes()) };
        let mut writer = snapshots.create(point, Bytes::new()).await.unwrap();
        writer.write_chunk(Bytes::from_static(b"state")).await.unwrap();
        writer.finish().await.unwrap();
        drop_contradicted(&log, &snapshots).await.unwrap();
        (log, snapshots)
    }

    #[tokio::test]
    async fn entries_that_a_snapshot_from_the_leader_contradicts_are_dropped() {
        let (log, snapshots) = opened("c").await;
        assert_eq!(log.last().as_ref(), Some(snapshots.newest().unwrap().point()));
        assert_eq!(log.first_index(), 8);
    }

    #[tokio::test]
    async fn entries_behind_a_snapshot_that_they_follow_are_kept() {
        let (log, _) = opened("b").await;
        assert_eq!((log.first_index(), log.last().map(|last| last.index)), (0, Some(9)));
    }
}
