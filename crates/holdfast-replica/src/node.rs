//! A replica in the real world: tokio, a folder, TCP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::{NodeId as CoreNodeId, StorageId};
use openraft_rt_tokio::TokioRuntime;

use crate::disk::{FolderDisk, OpenFolderError};
use crate::events::EventStream;
use crate::groups::LockGroups;
use crate::handle::Housekeeping;
pub use crate::handle::{OpenError, Timing};
use crate::members::{SeatWish, Stay};
use crate::node_store::SledNodeStore;
use crate::open::{OpenFolder, ReplicaParts};
use crate::peers::{self, AddressBook, Hello, PeerIdentity, Peering, Refusal, RefusalReason, TcpTransport};
use crate::replica::{Inner, Replica};
use crate::world::{Disk, DiskLane, NodeId};

/// What a start needs on the disk, in bytes.
const START_BYTES_MIN: u64 = 4 << 20;
const ROOM_CHECK_EVERY: Duration = Duration::from_millis(100);

/// A replica on tokio.
pub type NodeReplica = Replica<TokioRuntime>;
/// What a node of the real world watches with.
pub type NodeEventStream = EventStream<TokioRuntime>;

/// What a node needs to start.
#[derive(Debug)]
pub struct NodeOptions {
    /// Its id within the cluster.
    pub node_id: NodeId,
    /// Its folder; made if it is not there.
    pub data_dir: PathBuf,
    /// Bound already.
    pub peer_listener: std::net::TcpListener,
    /// `HOST:PORT` that peers reach it by.
    pub peer_addr: String,
    /// Base URL that clients reach it by.
    pub client_url: String,
    /// The first members, by id with `HOST:PORT` for peers; empty: a cluster of one. With existing data only an address
    /// book: a member that does not answer at its stored address is tried at this one.
    pub initial_cluster: Vec<(NodeId, String)>,
    /// Whether the node forms a cluster, if it has none yet.
    pub origin: Origin,
    /// Whether it stays a learner.
    pub stay: Stay,
    /// Where the node is, if that is certain: the others are told if they think that it is elsewhere.
    pub announced: Option<String>,
    /// How quickly a lost leader is noticed.
    pub timing: Timing,
    /// Version of the program.
    pub version: String,
    /// What locks are counted by.
    pub lock_groups: LockGroups,
}

/// Where the cluster of a node with an empty folder comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// It forms one, with the other first members.
    #[default]
    Form,
    /// It waits until one lets it in.
    Join,
}

/// Starts a node.
///
/// # Errors
/// If its folder or its listener cannot be used, or the options contradict each other.
pub async fn open(options: NodeOptions) -> Result<NodeReplica, OpenError> {
    let first_members = first_members(&options)?;
    let listed = options.initial_cluster.iter().cloned().collect();
    let listener = listen(options.peer_listener)?;
    let disk = Arc::new(FolderDisk::open(&options.data_dir).map_err(refused_folder)?);
    wait_for_room(&*disk).await;
    let node_store = SledNodeStore::open(&options.data_dir)
        .map_err(|error| OpenError::Folder(format!("the node's own store cannot be opened: {error}")))?;
    let folder =
        OpenFolder::open::<TokioRuntime>(disk.clone(), Arc::new(node_store), options.node_id).await?;
    let identity = Arc::new(PeerIdentity::new(
        options.node_id,
        folder.identity.storage_id,
        folder.log.boot(),
        &options.version,
        cluster_of(&folder),
    ));
    let registry = Registry { from_log: Arc::new(folder.registered()?), ..Registry::default() };
    let peering = Peering::new(identity.clone(), Arc::new(registry.clone()));
    let transport = Arc::new(AddressBook::new(Arc::new(TcpTransport::new(peering.clone())), listed));
    let replica = NodeReplica::start(ReplicaParts {
        folder,
        transport,
        initial_cluster: first_members,
        log_disk_stats: disk.stats(DiskLane::Log),
        timing: options.timing,
        housekeeping: Housekeeping::default(),
        on_applied: None,
        client_url: options.client_url,
        version: options.version,
        lock_groups: Arc::new(options.lock_groups),
        wall_clock,
    })
    .await?;
    let _ = registry.replica.set(Arc::downgrade(&replica.0)); // The registry was made a few lines above.
    let tasks = &replica.0.tasks;
    let (service, closing) = (replica.service(), tasks.closing());
    tasks.start(async move { peers::serve(peering, listener, service, closing.closed()).await });
    let wish = SeatWish { addr: options.announced, stay: options.stay };
    let (seated, closing) = (replica.clone(), tasks.closing());
    tasks.start(async move { seated.take_seat(wish, closing).await });
    let (formed, closing) = (replica.clone(), tasks.closing());
    tasks.start(async move {
        tokio::select! {
            () = closing.closed() => {}
            cluster = formed.formed() => {
                if let Err(error) = identity.set_cluster(cluster.0) {
                    formed.0.failure.set(Some(error.to_string()));
                }
            }
        }
    });
    Ok(replica)
}

fn first_members(options: &NodeOptions) -> Result<BTreeMap<NodeId, String>, OpenError> {
    if options.origin == Origin::Join {
        return Ok(BTreeMap::new());
    }
    if options.initial_cluster.is_empty() {
        return Ok(BTreeMap::from([(options.node_id, options.peer_addr.clone())]));
    }
    let members: BTreeMap<_, _> = options.initial_cluster.iter().cloned().collect();
    if members.contains_key(&options.node_id) {
        return Ok(members);
    }
    Err(OpenError::Refused(format!("the initial cluster does not name this node, {}", options.node_id)))
}

fn listen(listener: std::net::TcpListener) -> Result<tokio::net::TcpListener, OpenError> {
    let refused = |error| OpenError::Refused(format!("the peer listener cannot be used: {error}"));
    listener.set_nonblocking(true).map_err(refused)?;
    tokio::net::TcpListener::from_std(listener).map_err(refused)
}

/// The node's own store cannot be opened on a full disk, and may be damaged by trying.
async fn wait_for_room(disk: &dyn Disk) {
    let mut is_told = false;
    while disk.free_bytes().is_ok_and(|free| free < START_BYTES_MIN) {
        if !std::mem::replace(&mut is_told, true) {
            tracing::error!(needed = START_BYTES_MIN, "the disk is full: the node starts once there is room");
        }
        tokio::time::sleep(ROOM_CHECK_EVERY).await;
    }
}

fn refused_folder(error: OpenFolderError) -> OpenError {
    OpenError::Folder(error.to_string())
}

fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn cluster_of(folder: &OpenFolder) -> Option<u128> {
    folder.identity.cluster_id.as_deref().and_then(|id| u128::from_str_radix(id, 16).ok())
}

/// Which folder belongs to which node, as the replicated state has it.
#[derive(Clone, Default)]
struct Registry {
    /// What the log said at the start, applied or not.
    from_log: Arc<BTreeMap<NodeId, StorageId>>,
    /// Empty until the replica is there.
    replica: Arc<OnceLock<Weak<Inner<TokioRuntime>>>>,
}

impl Registry {
    fn inner(&self) -> Option<Arc<Inner<TokioRuntime>>> {
        self.replica.get().and_then(Weak::upgrade)
    }

    fn storage_of(&self, node: NodeId) -> Option<StorageId> {
        let applied = self
            .inner()
            .and_then(|inner| inner.machine.look(|state| state.table.storage_of(CoreNodeId(node))));
        applied.or_else(|| self.from_log.get(&node).copied())
    }
}

impl peers::PeerDirectory for Registry {
    fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        let known = self.storage_of(hello.node);
        match known {
            Some(storage) if storage.0 != hello.storage => Err(Refusal::new(
                RefusalReason::OtherStorage,
                format!(
                    "node {} has registered another data folder ({storage}): remove the node from the cluster, then \
                     let it join with an id that was never used",
                    hello.node
                ),
            )),
            _ if self.inner().is_some_and(|inner| inner.was_removed(hello.node)) => Err(Refusal::new(
                RefusalReason::NotMember,
                format!("node {} was removed from the cluster, and its id does not come back", hello.node),
            )),
            _ => Ok(()),
        }
    }

    fn turned_away(&self, reason: Option<RefusalReason>) {
        if let (Some(RefusalReason::NotMember), Some(inner)) = (reason, self.inner()) {
            inner.note_removal();
        }
    }
}
