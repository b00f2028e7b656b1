//! The world of a run: nodes on their disks, the network between them, clients, and what is to happen next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_replica::disk::{DiskStats, MemoryDisk};
use holdfast_replica::handle::{Housekeeping, Timing};
use holdfast_replica::log::LogLimits;
use holdfast_replica::node_store::MemoryNodeStore;
use holdfast_replica::open::{OpenFolder, ReplicaParts};
use holdfast_replica::world::NodeId;

use super::clients::{Client, Replicas, SimReplica};
use super::disk::{Condition, SimDisk};
use super::executor::{self, MS, Nanos, Shared, WORLD, below, run_until};
use super::faults::{Fault, Place};
use super::journal::SharedJournal;
use super::lines::History;
use super::moments::Moments;
use super::network::{Network, SimTransport};
use super::plan::{Plan, Tuning};
use super::runtime::SimRuntime;
use super::sometimes::saw;
use super::watchers::WATCHERS;

/// What clocks on the wall show when a run begins, in milliseconds since 1970.
const FIRST_DAY_MS: u64 = 1_700_000_000_000;
/// Clients count from here.
pub(super) const FIRST_CLIENT: u64 = 1_000;

/// What outlives a node.
struct Hardware {
    memory: Arc<MemoryDisk>,
    store: Arc<MemoryNodeStore>,
    condition: Condition,
}

/// Everything that a run is made of.
pub(super) struct World {
    pub(super) nodes: u64,
    pub(super) network: Network,
    pub(super) moments: Moments,
    pub(super) journal: SharedJournal,
    pub(super) history: History,
    /// What is to happen, by time and number.
    pub(super) agenda: BTreeMap<(Nanos, u64), Fault>,
    pub(super) agenda_number: u64,
    /// Nodes that were told to end.
    pub(super) stopping: Shared<BTreeSet<NodeId>>,
    /// Nodes that led when their power went.
    fallen: BTreeSet<NodeId>,
    /// Why nodes have ended by themselves or did not start.
    pub(super) failures: Arc<Mutex<Vec<String>>>,
    tuning: Tuning,
    hardware: BTreeMap<NodeId, Hardware>,
    running: BTreeSet<NodeId>,
    pub(super) replicas: Replicas,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        let hardware = |node| {
            let store = Arc::new(MemoryNodeStore::new());
            (node, Hardware { memory: Arc::default(), store, condition: Condition::default() })
        };
        let moments = Moments::default();
        for node in (1..=plan.nodes).chain(FIRST_CLIENT..FIRST_CLIENT + plan.clients) {
            executor::set_rate(node, 975_000 + below(50_001));
        }
        Self {
            nodes: plan.nodes,
            network: Network::new(moments.clone()),
            moments,
            journal: SharedJournal::default(),
            history: History::default(),
            agenda: BTreeMap::new(),
            agenda_number: 0,
            stopping: Shared::default(),
            fallen: BTreeSet::new(),
            failures: Arc::default(),
            tuning: plan.tuning,
            hardware: (1..=plan.nodes).map(hardware).collect(),
            running: BTreeSet::new(),
            replicas: Replicas::default(),
        }
    }

    pub(super) fn condition(&self, node: NodeId) -> &Condition {
        &self.hardware[&node].condition
    }

    /// Runs until this true time, and does meanwhile what is due or aimed.
    pub(super) fn advance(&mut self, until: Nanos) {
        loop {
            let next = self.agenda.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
            let is_there = run_until(next.unwrap_or(until));
            for (fault, there) in self.moments.take_due() {
                self.strike(fault, there);
            }
            if !is_there {
                continue;
            }
            if next.is_none() {
                return;
            }
            if let Some((_, fault)) = self.agenda.pop_first() {
                self.strike(fault, Place::at(1));
            }
        }
    }

    pub(super) fn start(&mut self, node: NodeId) {
        if !self.running.insert(node) {
            return;
        }
        executor::tell(|| format!("node {node} starts"));
        if let Some(down) = self.journal.lock().downs.iter_mut().rfind(|down| down.0 == node) {
            down.2 = executor::now();
        }
        let hardware = &self.hardware[&node];
        let (memory, store) = (hardware.memory.clone(), hardware.store.clone());
        let disk = Arc::new(SimDisk::new(node, memory, hardware.condition.clone(), self.moments.clone()));
        let (network, replicas, failures) =
            (self.network.clone(), self.replicas.clone(), self.failures.clone());
        let stopping = self.stopping.clone();
        let initial_cluster = (1..=self.nodes).map(|id| (id, format!("node-{id}"))).collect();
        let on_applied = self.journal.listener(node);
        let tuning = self.tuning;
        executor::spawn_on(node, async move {
            let fail = |why: String| {
                executor::tell(|| format!("node {node} FAILED: {why}"));
                failures.lock().expect("one thread").push(format!("node {node}: {why}"));
            };
            let limits = LogLimits { segment_bytes: tuning.segment_bytes, cache_bytes: 4_000 };
            let folder = match OpenFolder::open_with::<SimRuntime>(disk, store, node, limits).await {
                Ok(folder) => folder,
                Err(error) => return fail(error.to_string()),
            };
            if folder.trimmed.is_some() {
                saw("a torn tail trimmed");
            }
            let parts = ReplicaParts {
                lock_groups: Arc::default(),
                folder,
                transport: Arc::new(SimTransport { node, network: network.clone() }),
                initial_cluster,
                log_disk_stats: Arc::new(DiskStats::default()),
                timing: Timing::default(),
                housekeeping: Housekeeping {
                    every: Duration::from_millis(tuning.housekeeping_ms),
                    snapshot_log_bytes_min: tuning.snapshot_log_bytes,
                    log_kept_bytes: tuning.log_kept_bytes,
                },
                on_applied: Some(on_applied),
                client_url: format!("http://node-{node}"),
                version: "simulated".into(),
                wall_clock: || FIRST_DAY_MS + executor::now() / executor::MS,
            };
            match SimReplica::start(parts).await {
                Ok(replica) => {
                    network.register(node, replica.service());
                    replicas.lock().expect("one thread").insert(node, replica.clone());
                    let why = replica.failed().await;
                    if !stopping.lock().expect("one thread").contains(&node) {
                        fail(why);
                    }
                }
                Err(error) => fail(error.to_string()),
            }
        });
    }

    /// Ends a node between two steps; with `power` its disk loses what it had not synced. False if it does not run.
    pub(super) fn crash(&mut self, node: NodeId, power: bool) -> bool {
        if !self.running.remove(&node) {
            return false;
        }
        executor::tell(|| format!("node {node} {}", if power { "loses power" } else { "is killed" }));
        self.stopping.lock().expect("one thread").remove(&node);
        if self.note_leader(node) && power {
            self.fallen.insert(node);
        }
        self.journal.lock().downs.push((node, executor::now(), Nanos::MAX));
        self.network.deregister(node);
        let replica = self.replicas.lock().expect("one thread").remove(&node);
        executor::kill(node);
        drop(replica);
        if power {
            self.hardware[&node].memory.crash(|unsynced| {
                usize::try_from(below(unsynced as u64 + 1)).expect("no more than there was")
            });
        }
        if self.running.is_empty() {
            saw("all nodes down at once");
        }
        true
    }

    /// Tells a node to end: it hands leadership over, answers what is under way and closes.
    pub(super) fn stop(&mut self, node: NodeId) {
        let Some(replica) = self.replica(node) else { return };
        if !self.stopping.lock().expect("one thread").insert(node) {
            return;
        }
        executor::tell(|| format!("node {node} is told to end"));
        let led = replica.status().is_leader;
        executor::spawn_on(node, async move {
            replica.drain().await;
            if led && replica.status().leader_id.is_some_and(|leader| leader != node) {
                saw("leadership handed over by a node that stops");
            }
            replica.shutdown().await;
        });
    }

    /// A leader is about to be struck: notes what it has under way. False if it is none.
    pub(super) fn note_leader(&mut self, node: NodeId) -> bool {
        let Some(status) = self.replica(node).map(|replica| replica.status()) else { return false };
        if status.is_leader && status.last_log_index > status.committed_index {
            self.journal.lock().in_flight.push((status.term, status.last_log_index));
        }
        if status.is_leader && self.fallen.remove(&node) {
            saw("a leader restored after a power cut");
        }
        status.is_leader
    }

    pub(super) fn is_stopping(&self, node: NodeId) -> bool {
        self.stopping.lock().expect("one thread").contains(&node)
    }

    pub(super) fn replica(&self, node: NodeId) -> Option<SimReplica> {
        self.replicas.lock().expect("one thread").get(&node).cloned()
    }

    /// Who leads, as far as itself knows, in the latest term.
    pub(super) fn leader(&self) -> Option<NodeId> {
        let replicas: Vec<SimReplica> = self.replicas.lock().expect("one thread").values().cloned().collect();
        let leaders = replicas.iter().map(|replica| (replica.status(), replica.node_id()));
        let leading = leaders.filter(|(status, _)| status.is_leader);
        leading.map(|(status, node)| (status.term, node)).max().map(|(_, node)| node)
    }

    pub(super) fn client(&self, id: u64) -> Client {
        let (network, moments) = (self.network.clone(), self.moments.clone());
        Client::new(id, self.nodes, network, moments, self.replicas.clone(), self.history.clone())
    }

    /// Ends everything.
    pub(super) fn end(mut self, clients: u64) -> executor::Trace {
        for node in 1..=self.nodes {
            self.crash(node, false);
        }
        for client in FIRST_CLIENT..FIRST_CLIENT + clients {
            executor::kill(client);
        }
        for watcher in WATCHERS {
            executor::kill(watcher);
        }
        executor::kill(WORLD);
        executor::end()
    }

    /// Puts the state of every replica into the journal, with the index that it is true at.
    pub(super) fn note_digests(&mut self) {
        let replicas: Vec<SimReplica> = self.replicas.lock().expect("one thread").values().cloned().collect();
        for replica in replicas {
            let journal = self.journal.clone();
            executor::spawn_on(WORLD, async move {
                let (index, digest) = {
                    let (index, state) = replica.state();
                    (index, state.digest())
                };
                journal.lock().note_digest(replica.node_id(), index, digest);
            });
        }
        self.advance(executor::now() + MS);
    }
}
