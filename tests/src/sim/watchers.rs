//! Simulated watchers: they follow the stream of events from node to node, and write down what they are told.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_core::Event;
use holdfast_replica::events::Watched;
use holdfast_replica::world::{AsyncRuntime, NodeId};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::clients::{Replicas, SimReplica};
use super::cluster::World;
use super::executor::{self, Nanos, below, now, one_in};
use super::lines::name;
use super::network::Network;
use super::runtime::SimRuntime;

/// Beyond the clients and the probes.
pub(super) const WATCHERS: RangeInclusive<u64> = 1_900..=1_901;

/// What a watcher was told at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Events {
        events: Vec<Event>,
        /// Nothing up to this number is left out.
        seq: u64,
    },
    Reset {
        seq: u64,
    },
}

/// What came over one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) node: NodeId,
    /// When it was asked for.
    pub(crate) begun: Nanos,
    /// Behind which event.
    pub(crate) since: u64,
    pub(crate) told: Vec<Told>,
}

/// All that a watcher was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watching {
    /// Of the names of the locks that it asks for.
    pub(crate) prefix: String,
    pub(crate) connections: Vec<Connected>,
    /// The number that it goes on from.
    pub(crate) seq: u64,
}

pub(super) type SharedWatching = Arc<Mutex<Watching>>;

/// One watches all locks, the other the first one.
pub(super) fn spawn(world: &World) -> Vec<SharedWatching> {
    let prefixes = [String::new(), name(0).as_str().to_owned()];
    let spawned = WATCHERS.zip(prefixes).map(|(id, prefix)| {
        let watching = Arc::new(Mutex::new(Watching { prefix, ..Watching::default() }));
        let (network, replicas) = (world.network.clone(), world.replicas.clone());
        let watcher = Watcher { id, nodes: world.nodes, network, replicas, watching: watching.clone() };
        executor::spawn_on(id, watcher.run());
        watching
    });
    spawned.collect()
}

struct Watcher {
    id: u64,
    nodes: u64,
    network: Network,
    replicas: Replicas,
    watching: SharedWatching,
}

impl Watcher {
    async fn run(self) {
        loop {
            self.follow(1 + below(self.nodes)).await;
            let away_ms = if one_in(4) { below(3_000) } else { 1 + below(300) };
            SimRuntime::sleep(Duration::from_millis(away_ms)).await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Watching) -> T) -> T {
        act(&mut self.watching.lock().expect("one thread"))
    }

    /// Goes on at a node, until it has been told enough or nothing for a while.
    async fn follow(&self, node: NodeId) {
        let (prefix, since) = self.with(|watching| (watching.prefix.clone(), watching.seq));
        let connected = Connected { node, begun: now(), since, told: Vec::new() };
        self.with(|watching| watching.connections.push(connected));
        if !self.network.cross(self.id, node).await {
            return;
        }
        let replica = self.replicas.lock().expect("one thread").get(&node).cloned();
        let Some(replica) = replica else { return };
        let (tell, mut hear) = mpsc::unbounded_channel();
        executor::spawn_on(node, serve(replica, prefix, since, self.network.clone(), self.id, tell));
        for _ in 0..=below(12) {
            let patience = Duration::from_millis(500 + below(2_500));
            let Some(watched) = self.hear(&mut hear, patience).await else { return };
            let is_cut = self.note(watched);
            if is_cut {
                return;
            }
        }
    }

    async fn hear(&self, hear: &mut UnboundedReceiver<Watched>, patience: Duration) -> Option<Watched> {
        SimRuntime::timeout(patience, Box::pin(hear.recv())).await.ok().flatten()
    }

    /// Writes down what it was told; true if the connection was cut in the middle of it.
    fn note(&self, watched: Watched) -> bool {
        let (told, seq, is_cut) = match watched {
            Watched::Reset { seq, .. } => (Told::Reset { seq }, seq, false),
            Watched::Events { mut events, mut seq } => {
                let is_cut = events.len() > 1 && one_in(4);
                if is_cut {
                    let kept = 1 + below(events.len() as u64 - 1);
                    events.truncate(usize::try_from(kept).expect("no more than there were"));
                    seq = events.last().expect("one at least is kept").seq;
                }
                (Told::Events { events, seq }, seq, is_cut)
            }
        };
        executor::tell(|| format!("watcher {} is told up to {seq}", self.id));
        self.with(|watching| {
            watching.seq = seq;
            watching.connections.last_mut().expect("it is connected").told.push(told);
        });
        is_cut
    }
}

/// A node's end of the connection. What gets lost ends it.
async fn serve(
    replica: SimReplica,
    prefix: String,
    since: u64,
    network: Network,
    watcher: u64,
    tell: UnboundedSender<Watched>,
) {
    let told = async {
        let Ok(mut stream) = replica.watch(&prefix, Some(since)).await else { return };
        while let Ok(watched) = stream.next().await {
            let arrives = network.cross(replica.node_id(), watcher).await;
            if !arrives || tell.send(watched).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = tell.closed() => {}
        () = told => {}
    }
}
