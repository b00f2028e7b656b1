//! A run: nodes, clients, faults for a while, then none, and what must be true at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_replica::disk::{DiskStats, MemoryDisk};
use holdfast_replica::handle::Timing;
use holdfast_replica::node_store::MemoryNodeStore;
use holdfast_replica::open::{OpenFolder, ReplicaParts};
use holdfast_replica::world::NodeId;

use super::checks::{Report, check};
use super::clients::{Client, History, Replicas, SimReplica};
use super::disk::SimDisk;
use super::executor::{self, Nanos, WORLD, below, one_in, run_until};
use super::network::{Network, SimTransport};
use super::runtime::SimRuntime;

/// Clients count from here.
pub(super) const FIRST_CLIENT: u64 = 1_000;
const MS: Nanos = 1_000_000;
/// After the faults, everything has to be well again within this time.
const HEALING: Nanos = 12_000 * MS;

/// What kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Replicas.
    pub nodes: u64,
    /// Clients that use all locks at once.
    pub clients: u64,
    /// Locks.
    pub locks: u64,
    /// How long there are faults.
    pub seconds: u64,
}

/// A node's disk, which outlives the node.
struct Hardware {
    memory: Arc<MemoryDisk>,
    store: Arc<MemoryNodeStore>,
}

/// Everything that a run is made of.
pub(super) struct World {
    pub(super) nodes: u64,
    pub(super) clients: u64,
    pub(super) network: Network,
    pub(super) paused: Vec<u64>,
    hardware: BTreeMap<NodeId, Hardware>,
    running: BTreeSet<NodeId>,
    replicas: Replicas,
    failures: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(profile: Profile) -> Self {
        let hardware =
            |node| (node, Hardware { memory: Arc::default(), store: Arc::new(MemoryNodeStore::new()) });
        let world = Self {
            nodes: profile.nodes,
            clients: profile.clients,
            network: Network::default(),
            paused: Vec::new(),
            hardware: (1..=profile.nodes).map(hardware).collect(),
            running: BTreeSet::new(),
            replicas: Replicas::default(),
            failures: Arc::default(),
        };
        for node in (1..=profile.nodes).chain(FIRST_CLIENT..FIRST_CLIENT + profile.clients) {
            executor::set_rate(node, 980_000 + below(40_001));
        }
        world
    }

    pub(super) fn start_all(&mut self) {
        for node in 1..=self.nodes {
            self.start(node);
        }
    }

    fn start(&mut self, node: NodeId) {
        if !self.running.insert(node) {
            return;
        }
        tracing::info!(at = executor::now() / MS, node, "start");
        let hardware = &self.hardware[&node];
        let (memory, store) = (hardware.memory.clone(), hardware.store.clone());
        let (network, replicas, failures) =
            (self.network.clone(), self.replicas.clone(), self.failures.clone());
        let initial_cluster = (1..=self.nodes).map(|id| (id, format!("node-{id}"))).collect();
        executor::spawn_on(node, async move {
            let disk = Arc::new(SimDisk::new(memory));
            let opened = OpenFolder::open::<SimRuntime>(disk, store, node).await;
            let folder = match opened {
                Ok(folder) => folder,
                Err(error) => {
                    return failures.lock().expect("one thread").push(format!("node {node}: {error}"));
                }
            };
            let parts = ReplicaParts {
                folder,
                transport: Arc::new(SimTransport { node, network: network.clone() }),
                initial_cluster,
                log_disk_stats: Arc::new(DiskStats::default()),
                timing: Timing::default(),
                client_url: format!("http://node-{node}"),
                version: "simulated".into(),
            };
            match SimReplica::start(parts).await {
                Ok(replica) => {
                    network.register(node, replica.service());
                    replicas.lock().expect("one thread").insert(node, replica.clone());
                    let why = replica.failed().await;
                    failures.lock().expect("one thread").push(format!("node {node}: {why}"));
                }
                Err(error) => failures.lock().expect("one thread").push(format!("node {node}: {error}")),
            }
        });
    }

    /// Ends a node between two steps; with `power` its disk loses what it had not synced.
    pub(super) fn crash(&mut self, node: NodeId, power: bool) {
        if !self.running.remove(&node) {
            return;
        }
        tracing::info!(at = executor::now() / MS, node, power, "crash");
        self.paused.retain(|paused| *paused != node);
        self.network.deregister(node);
        let replica = self.replicas.lock().expect("one thread").remove(&node);
        executor::kill(node);
        drop(replica);
        if power {
            self.hardware[&node].memory.crash(|unsynced| {
                usize::try_from(below(unsynced as u64 + 1)).expect("no more than there was")
            });
        }
    }

    fn client(&self, id: u64, history: &History) -> Client {
        Client {
            id,
            nodes: self.nodes,
            network: self.network.clone(),
            replicas: self.replicas.clone(),
            history: history.clone(),
        }
    }
}

/// Runs a seed.
pub fn simulate(seed: u64, profile: Profile) -> Report {
    executor::begin(seed);
    let mut world = World::new(profile);
    let history = History::default();
    world.heal();
    let begin = 3_000 * MS;
    run_until(begin);
    let end = begin + profile.seconds * 1_000 * MS;
    for id in FIRST_CLIENT..FIRST_CLIENT + profile.clients {
        let client = world.client(id, &history);
        executor::spawn_on(id, client.run(profile.locks, end));
    }
    let mut at = begin;
    while at < end {
        at += (50 + below(850)) * MS;
        run_until(at.min(end));
        match one_in(5) {
            true => {
                world.heal();
                at += (500 + below(2_000)) * MS;
                run_until(at.min(end));
            }
            false => world.disturb(),
        }
    }
    world.heal();
    let healed = Arc::new(Mutex::new(BTreeSet::new()));
    for lock in 0..profile.locks {
        let (client, healed) =
            (world.client(FIRST_CLIENT + profile.clients + lock, &history), healed.clone());
        executor::spawn_on(FIRST_CLIENT + profile.clients + lock, async move {
            client.probe(lock).await;
            healed.lock().expect("one thread").insert(lock);
        });
    }
    run_until(end + HEALING);
    let mut report = check(&history.lock().expect("one thread"));
    let healed = healed.lock().expect("one thread").len() as u64;
    if healed < profile.locks {
        report.violations.push(format!("only {healed} of {} locks were granted again", profile.locks));
    }
    report.violations.extend(world.failures.lock().expect("one thread").drain(..));
    report.violations.extend(replicas_agree(&world));
    for node in 1..=profile.nodes {
        world.crash(node, false);
    }
    for client in FIRST_CLIENT..FIRST_CLIENT + profile.clients + profile.locks {
        executor::kill(client);
    }
    executor::kill(WORLD);
    (report.trace, report.polls) = executor::end();
    report
}

/// At the same index every replica has the same state, byte for byte.
fn replicas_agree(world: &World) -> Vec<String> {
    let replicas: Vec<SimReplica> = world.replicas.lock().expect("one thread").values().cloned().collect();
    let digests = Arc::new(Mutex::new(BTreeMap::<u64, BTreeSet<u64>>::new()));
    for replica in replicas {
        let digests = digests.clone();
        executor::spawn_on(WORLD, async move {
            let (index, digest) = replica.digest().await;
            digests.lock().expect("one thread").entry(index).or_default().insert(digest);
        });
    }
    run_until(executor::now() + Duration::from_millis(1).as_nanos() as u64);
    let digests = digests.lock().expect("one thread");
    let differing = digests.iter().filter(|(_, digests)| digests.len() > 1);
    differing.map(|(index, _)| format!("replicas differ at index {index}")).collect()
}
