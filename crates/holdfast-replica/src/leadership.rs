//! Who leads, whether it has a majority, and the leader's clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_core::ClusterTime;
use holdfast_core::planted::{self, Bug, planted};
use openraft::RaftMetrics;
use openraft::rt::WatchReceiver;
use openraft_rt::Instant as _;

use crate::consensus::{Raft, Types};
use crate::effects::{Effects, Progress};
use crate::handle::Timing;
use crate::tasks::Closing;
use crate::watch::Watched;
use crate::world::{NodeId, PeerAddress, Runtime};

/// The clock of a leader: cluster time goes on from what its state machine had when it came to lead.
pub(crate) struct Leading<R: Runtime> {
    pub(crate) term: u64,
    time: ClusterTime,
    at: R::Instant,
}

impl<R: Runtime> Clone for Leading<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Runtime> Copy for Leading<R> {}

impl<R: Runtime> Leading<R> {
    /// Cluster time now.
    pub(crate) fn now(&self) -> ClusterTime {
        if planted(Bug::LeaseJudgedByWallClock) {
            return ClusterTime(planted::wall_clock_ms());
        }
        self.time.after(millis(R::Instant::now() - self.at))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Who leads, as this node knows it.
pub(crate) enum Leader<R: Runtime> {
    /// This node, and it may stamp commands.
    Me(Leading<R>),
    /// Another node.
    Other(PeerAddress),
    /// Nobody that has a majority; says why.
    Nobody(&'static str),
}

/// What this node knows of leaders.
pub(crate) struct Leadership<R: Runtime> {
    node: NodeId,
    timing: Timing,
    raft: Raft<R>,
    leading: Watched<Option<Leading<R>>>,
    /// When this node last heard from a leader that had a majority.
    heard: Mutex<Option<R::Instant>>,
    /// The latest time that a leader has told, and its term.
    told: Mutex<(u64, ClusterTime)>,
    changes: AtomicU64,
}

impl<R: Runtime> Leadership<R> {
    pub(crate) fn new(node: NodeId, timing: Timing, raft: Raft<R>) -> Self {
        Self {
            node,
            timing,
            raft,
            leading: Watched::new(None),
            heard: Mutex::new(None),
            told: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// A message from this node's leader has arrived, with its cluster time (0 if it has none yet).
    pub(crate) fn heard_from_leader(&self, term: u64, now: ClusterTime, has_majority: bool) {
        if has_majority {
            *self.heard.lock().expect("no code panics while it holds this") = Some(R::Instant::now());
        }
        let mut told = self.told.lock().expect("no code panics while it holds this");
        *told = (*told).max((term, now));
    }

    /// About what cluster time it is: the leader's own clock, or what the leader has told with its last message. Not for
    /// decisions.
    pub(crate) fn about_now(&self, progress: &Progress) -> ClusterTime {
        if let Some(leading) = self.leading() {
            return leading.now();
        }
        let (term, told) = *self.told.lock().expect("no code panics while it holds this");
        if term >= progress.position.term { progress.now.max(told) } else { progress.now }
    }

    /// Where the clock of a leader begins whose first entry was applied at `progress`.
    ///
    /// What the leader before told goes on from the last entry only if it is the one that wrote that entry: another one,
    /// deposed without knowing, may have gone on counting beside its successor.
    fn clock_start(&self, progress: &Progress) -> ClusterTime {
        if planted(Bug::LeaderClockFromZero) {
            return ClusterTime(0);
        }
        let (term, told) = *self.told.lock().expect("no code panics while it holds this");
        match term == progress.term_before {
            true => progress.now.max(told),
            false => progress.now,
        }
    }

    /// This node's leadership, if it leads and has applied an entry of its term.
    pub(crate) fn leading(&self) -> Option<Leading<R>> {
        self.leading.get()
    }

    /// Leader changes that this node has seen.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Who leads now, with a majority.
    pub(crate) fn leader(&self) -> Leader<R> {
        // Borrowed once: a second borrow within the first waits for a writer that waits for the first, for ever.
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(leader) = metrics.current_leader else { return Leader::Nobody("no leader is elected") };
        if leader == self.node {
            return match self.leading() {
                Some(_) if !self.is_backed(&metrics) => Leader::Nobody("this node leads without a majority"),
                Some(leading) => Leader::Me(leading),
                None => Leader::Nobody("this node has just been elected"),
            };
        }
        if !self.is_fresh(*self.heard.lock().expect("no code panics while it holds this")) {
            return Leader::Nobody("the leader is silent or has no majority");
        }
        match metrics.membership_config.membership().get_node(&leader) {
            Some(node) => Leader::Other(PeerAddress { node: leader, addr: node.addr.clone() }),
            None => Leader::Nobody("the leader's address is not known"),
        }
    }

    /// Where a member is reached, as far as this node knows.
    pub(crate) fn address_of(&self, node: NodeId) -> Option<PeerAddress> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let known = metrics.membership_config.membership().get_node(&node)?;
        Some(PeerAddress { node, addr: known.addr.clone() })
    }

    /// Whether a majority has answered this leader within the last election timeout.
    pub(crate) fn has_majority(&self) -> bool {
        self.is_backed(&self.raft.metrics().borrow_watched())
    }

    fn is_backed(&self, metrics: &RaftMetrics<Types<R>>) -> bool {
        if planted(Bug::OldLeaderReadsStale) {
            return true;
        }
        let is_alone = metrics.membership_config.voter_ids().count() == 1;
        is_alone || self.is_fresh(metrics.last_quorum_acked.as_ref().map(|at| **at))
    }

    fn is_fresh(&self, at: Option<R::Instant>) -> bool {
        let patience = Duration::from_millis(self.timing.election_max_ms + self.timing.heartbeat_ms);
        at.is_some_and(|at| R::Instant::now() < at + patience)
    }

    /// Follows elections until the replica closes.
    pub(crate) async fn follow(&self, effects: &Effects, closing: Closing) {
        let mut metrics = self.raft.server_metrics();
        let mut progress = effects.progress.watch();
        let mut last = None;
        loop {
            let (state, leader, term) = {
                let now = metrics.borrow_watched();
                let term = openraft::vote::RaftVote::leader_id(&now.vote).term;
                (now.state, now.current_leader, term)
            };
            if leader.is_some() && leader != last {
                last = leader;
                self.changes.fetch_add(1, Ordering::Relaxed);
                tracing::info!(leader, term, "a leader is known");
            }
            self.update(state.is_leader().then_some(term), &progress.take());
            let changed = async {
                tokio::select! {
                    biased;
                    changed = metrics.changed() => changed.is_ok(),
                    () = progress.changed() => true,
                }
            };
            match R::select2(closing.closed(), changed).await {
                openraft_rt::Select2::Second(true) => {}
                _ => return,
            }
        }
    }

    /// Begins the clock once an entry of the own term is applied, and stops it with the leadership.
    fn update(&self, led_term: Option<u64>, progress: &Progress) {
        self.leading.change(|leading| {
            let wanted = led_term.filter(|term| progress.position.term == *term);
            if wanted == leading.map(|leading| leading.term) {
                return false;
            }
            if wanted.is_none() && led_term == leading.map(|leading| leading.term) {
                return false;
            }
            *leading =
                wanted.map(|term| Leading { term, time: self.clock_start(progress), at: R::Instant::now() });
            true
        });
    }
}
