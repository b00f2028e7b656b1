//! A run whose course a test writes: for what random ones seldom come to.

use std::sync::{Arc, Mutex};

use holdfast_core::{AttemptKey, Metadata, Owner, Ttl, Wait};
use holdfast_replica::handle::{Acquired, Attempt, CallFailure};
use holdfast_replica::world::NodeId;

use super::clients::SimReplica;
use super::cluster::World;
use super::executor::{self, MS, Nanos};
use super::faults::{Fault, Place};
use super::invariants::{self, Violation};
use super::lines::name;
use super::plan::{Plan, Profile, Tuning};

/// A cluster on which a test acts.
pub(super) struct Stage {
    pub(super) world: World,
}

/// What a call comes to, once it does.
pub(super) struct Told<T>(Arc<Mutex<Option<(T, Nanos)>>>);

impl<T: Clone> Told<T> {
    /// What was told, if it was.
    pub(super) fn now(&self) -> Option<T> {
        self.0.lock().unwrap().as_ref().map(|(told, _)| told.clone())
    }

    /// When it was told.
    pub(super) fn at(&self) -> Option<Nanos> {
        self.0.lock().unwrap().as_ref().map(|(_, at)| *at)
    }
}

impl Stage {
    /// Nodes that are up and have a leader.
    pub(super) fn new(nodes: u64, tuning: Tuning) -> Self {
        let plan = Plan { nodes, clients: 0, tuning, ..Plan::of(1, Profile::Mixed) };
        executor::begin(plan.seed);
        let mut world = World::new(&plan);
        for node in 1..=nodes {
            executor::set_rate(node, 1_000_000);
            world.start(node);
        }
        let mut stage = Self { world };
        stage.run_until("the cluster is formed", |stage| {
            stage.world.leader().is_some()
                && (1..=nodes).all(|node| stage.replica(node).status().not_ready.is_none())
        });
        stage
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        self.world.advance(executor::now() + ms * MS);
    }

    /// Runs until something is so.
    ///
    /// # Panics
    /// If it is not so within a minute.
    pub(super) fn run_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = executor::now() + 60_000 * MS;
        while !is_so(self) {
            assert!(executor::now() < deadline, "{what}, within a minute");
            self.run_ms(5);
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        self.world.strike(fault, Place::at(1));
    }

    pub(super) fn replica(&self, node: NodeId) -> SimReplica {
        self.world.replica(node).expect("the node runs")
    }

    pub(super) fn leader(&self) -> NodeId {
        self.world.leader().expect("somebody leads")
    }

    pub(super) fn followers(&self) -> Vec<NodeId> {
        let leader = self.leader();
        (1..=self.world.nodes).filter(|node| *node != leader).collect()
    }

    /// Calls a node and goes on; the call dies with the node.
    pub(super) fn call<T, F>(&self, node: NodeId, call: impl FnOnce(SimReplica) -> F) -> Told<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let told = Arc::new(Mutex::new(None));
        let (tell, future) = (told.clone(), call(self.replica(node)));
        executor::spawn_on(node, async move {
            let answer = future.await;
            *tell.lock().unwrap() = Some((answer, executor::now()));
        });
        Told(told)
    }

    /// Calls a node and waits for its answer.
    pub(super) fn ask<T, F>(&mut self, node: NodeId, call: impl FnOnce(SimReplica) -> F) -> T
    where
        T: Clone + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let told = self.call(node, call);
        self.run_until("an answer", |_| told.at().is_some());
        told.now().expect("that was waited for")
    }

    /// Asks for lock 0 and goes on.
    pub(super) fn acquire(
        &self,
        node: NodeId,
        attempt: u8,
        ttl_ms: u64,
        wait_ms: u64,
    ) -> Told<Result<Acquired, CallFailure>> {
        let wanted = Attempt {
            lock: name(0),
            key: key(attempt),
            owner: Owner::default(),
            ttl: Ttl::from_ms(ttl_ms).unwrap(),
            wait: Wait::from_ms(wait_ms).unwrap(),
            metadata: Metadata::default(),
            session: None,
            share: holdfast_core::Share::Exclusive,
            terms: holdfast_core::Terms::default(),
        };
        self.call(node, |replica| async move {
            let (acquired, delivery) = replica.acquire(wanted).await?;
            delivery.delivered();
            Ok(acquired)
        })
    }

    /// Gets lock 0, which is free, and its fence.
    pub(super) fn hold(&mut self, node: NodeId, attempt: u8, ttl_ms: u64) -> u64 {
        let told = self.acquire(node, attempt, ttl_ms, 0);
        self.run_until("a grant", |_| told.at().is_some());
        match told.now() {
            Some(Ok(Acquired::Granted(grant))) => grant.fence.0,
            other => panic!("lock 0 is free: {other:?}"),
        }
    }

    /// Who holds lock 0, as a follower of the log knows.
    pub(super) fn holder(&mut self) -> Option<u64> {
        let leader = self.leader();
        self.ask(leader, |replica| async move {
            let look = |table: &holdfast_core::LockTable, now| {
                table.view(&name(0), now).holders.first().map(|holder| holder.fence.0)
            };
            replica.read(holdfast_replica::handle::Consistency::Linearizable, look).await.unwrap()
        })
    }

    /// Writes so many entries that have nothing to do with lock 0.
    pub(super) fn write_entries(&mut self, count: u64) {
        for _ in 0..count {
            let leader = self.leader();
            let lock = name(9);
            drop(self.ask(leader, |replica| async move { replica.release(lock, key(99)).await }));
        }
    }

    /// Ends the run; what is wrong with it.
    pub(super) fn end(mut self) -> Vec<Violation> {
        self.world.note_digests();
        let violations = invariants::check(&self.world.journal.lock(), &[], &[], &[], (&[], 0));
        let failures = self.world.failures.lock().unwrap().clone();
        assert_eq!(failures, Vec::<String>::new());
        drop(self.world.end(0));
        violations
    }
}

/// An attempt's key.
pub(super) fn key(attempt: u8) -> AttemptKey {
    AttemptKey([attempt; 16])
}

/// As in service: nothing is shortened within a test.
pub(super) const AMPLE: Tuning = Tuning {
    snapshot_log_bytes: 1 << 20,
    log_kept_bytes: 1 << 20,
    segment_bytes: 1 << 20,
    housekeeping_ms: 500,
};

/// Snapshots and purges after a few entries.
pub(super) const TIGHT: Tuning =
    Tuning { snapshot_log_bytes: 1_000, log_kept_bytes: 300, segment_bytes: 1_000, housekeeping_ms: 100 };
