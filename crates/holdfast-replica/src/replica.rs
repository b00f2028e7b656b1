//! One member of a cluster, as its server uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use holdfast_core::planted::{Bug, planted};
use holdfast_core::{
    Answer, AttemptKey, ClusterTime, Fence, Grant, Intervention, Limit, LockName, LockTable, ManyGrant,
    Metadata, Op, Outcome, Owner, Place, Run, SessionGrant, SessionKey, SessionRef, Several, SnapshotView,
    Standing, StorageId, Ttl,
};
use openraft::rt::WatchReceiver;
use openraft_rt::Select2;
use tokio::sync::mpsc;

use crate::attempts;
pub use crate::attempts::Delivery;
use crate::chores;
use crate::consensus::Raft;
use crate::consensus::machine::Machine;
use crate::consensus::snapshots::SnapshotStore;
use crate::disk::DiskStats;
use crate::effects::Effects;
use crate::handle::{
    Acquired, Attempt, CALL_TIMEOUT, CallFailure, Consistency, Housekeeping, ManyAttempt, Released,
    Unanswered,
};
use crate::leadership::Leadership;
use crate::log::Log;
use crate::members::Turns;
use crate::node_store::NodeStore;
use crate::proposals::Proposals;
use crate::reads::Reads;
use crate::service::SharedService;
use crate::space::Space;
use crate::tasks::Tasks;
use crate::watch::Watched;
use crate::world::{Disk, NodeId, PeerService, Runtime, Transport};

/// One member of a cluster. Cheap to clone.
pub struct Replica<R: Runtime>(pub(crate) Arc<Inner<R>>);

impl<R: Runtime> Clone for Replica<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Runtime> std::fmt::Debug for Replica<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replica({})", self.0.node_id)
    }
}

/// What a node tells others of itself.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) client_url: String,
    pub(crate) version: String,
    pub(crate) storage: StorageId,
    /// The cluster that the folder belonged to at the start.
    pub(crate) cluster: Option<String>,
}

/// What the parts of a replica share.
pub(crate) struct Inner<R: Runtime> {
    pub(crate) node_id: NodeId,
    pub(crate) boot: u32,
    pub(crate) about: About,
    pub(crate) raft: Raft<R>,
    pub(crate) machine: Machine<R>,
    pub(crate) effects: Arc<Effects>,
    pub(crate) leadership: Arc<Leadership<R>>,
    pub(crate) proposals: Proposals<R>,
    pub(crate) reads: Reads<R>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log_disk_stats: Arc<DiskStats>,
    pub(crate) node_store: Arc<dyn NodeStore>,
    pub(crate) log: Log,
    pub(crate) snapshots: SnapshotStore<R>,
    pub(crate) tasks: Tasks<R>,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) errands: mpsc::UnboundedSender<Op>,
    pub(crate) next_call: AtomicU32,
    /// The state machine is at least as far as before the restart.
    pub(crate) has_recovered: AtomicBool,
    /// The cluster has its identity, and this node's id is tied to this folder.
    pub(crate) has_settled: AtomicBool,
    pub(crate) space: Space,
    /// No new calls are taken, and those that wait are sent elsewhere.
    pub(crate) is_draining: Watched<bool>,
    /// Of this node, in milliseconds since 1970: for people only.
    pub(crate) wall_clock: fn() -> u64,
    /// Whose turn it is to change the members.
    pub(crate) turns: Turns,
    /// Why this node is no member any more, if it was told so.
    pub(crate) removed: Watched<Option<String>>,
    /// Why this replica must stop, if it must.
    pub(crate) failure: Watched<Option<String>>,
}

impl<R: Runtime> Inner<R> {
    pub(crate) fn check_open(&self) -> Result<(), Unanswered> {
        if self.is_draining.get() { Err(Unanswered::Closing) } else { Ok(()) }
    }

    /// Whether something new may be taken.
    pub(crate) fn check_space(&self) -> Result<(), Unanswered> {
        match self.space.is_short() {
            true => Err(Unanswered::NoSpace(format!("node {} has nearly none left", self.node_id))),
            false => Ok(()),
        }
    }

    /// Whether anything can be put into the log of this node, if that is where it has to go.
    fn check_room(&self) -> Result<(), Unanswered> {
        match self.space.is_full() && self.leadership.leading().is_some() {
            true => Err(Unanswered::NoSpace(format!("node {} leads and has none left", self.node_id))),
            false => Ok(()),
        }
    }

    /// Resolves once this node takes no more calls.
    pub(crate) async fn drained(&self) {
        self.is_draining.wait_for(|draining| *draining).await;
    }

    /// Proposes a command that nobody waits for.
    pub(crate) fn run_errand(&self, op: Op) {
        let _ = self.errands.send(op); // Closed only once the replica is.
    }

    pub(crate) async fn wait_until_applied(&self, index: u64, patience: Duration) -> bool {
        let reached = self.effects.progress.wait_for(|progress| progress.position.index >= index);
        R::timeout(patience, reached).await.is_ok()
    }

    async fn propose(&self, op: Op) -> Result<Outcome, Unanswered> {
        self.check_open()?;
        self.check_room()?;
        self.proposals.propose(&op, CALL_TIMEOUT).await
    }
}

impl<R: Runtime> Replica<R> {
    /// Takes the lock, or waits for it.
    ///
    /// Dropping the future means that the client has hung up: the attempt is given up.
    /// Answered within the attempt's wait + [`CALL_TIMEOUT`].
    pub async fn acquire(&self, attempt: Attempt) -> Result<(Acquired, Delivery), CallFailure> {
        attempts::acquire(self.0.clone(), attempt).await
    }

    /// Sets what is left of the lease to the TTL.
    pub async fn renew(
        &self,
        lock: LockName,
        key: AttemptKey,
        ttl: Option<Ttl>,
    ) -> Result<Grant, CallFailure> {
        if planted(Bug::RenewalAnsweredBeforeCommit)
            && let Standing::Held(grant) = self.0.machine.look(|state| state.table.standing(&lock, &key))
        {
            self.0.run_errand(Op::Renew { lock, key, ttl });
            return Ok(grant);
        }
        match self.0.propose(Op::Renew { lock, key, ttl }).await?? {
            Answer::Granted(grant) => Ok(grant),
            answer => unreachable!("a renewal is not answered with {answer:?}"),
        }
    }

    /// About how much is left of a lease, in thousandths of its TTL, as far as this node knows; none if it knows of no
    /// such lease, or a session keeps the hold. For numbers only.
    pub fn lease_margin(&self, place: &Place) -> Option<u64> {
        let now = self.0.leadership.about_now(&self.0.effects.progress.get());
        let (left_ms, ttl) = self.0.machine.look(|state| state.table.lease_left(place, now))?;
        Some((left_ms * 1_000 / ttl.ms()).min(1_000))
    }

    /// What an attempt at many locks holds or waits for, as far as this node knows.
    pub fn places_of_many(&self, key: &AttemptKey) -> Vec<Place> {
        self.0.machine.look(|state| state.table.places_of_many(key).unwrap_or_default().to_vec())
    }

    /// Frees the lock, or takes the attempt out of the queue (then there is no fence).
    pub async fn release(&self, lock: LockName, key: AttemptKey) -> Result<Option<Fence>, CallFailure> {
        Ok(self.release_by(Op::Release { lock, key }).await?.fence)
    }

    /// The same, with all that there is to tell. With `run` [`Run::Done`] the holder has done what it took the lock for.
    pub async fn release_run(
        &self,
        lock: LockName,
        key: AttemptKey,
        run: Run,
    ) -> Result<Released, CallFailure> {
        self.release_by(match run {
            Run::Open => Op::Release { lock, key },
            Run::Done => Op::ReleaseDone { lock, key },
        })
        .await
    }

    async fn release_by(&self, op: Op) -> Result<Released, CallFailure> {
        match self.0.propose(op).await?? {
            Answer::Released { fence } => Ok(Released { fence, effective_in_ms: 0, is_done: false }),
            Answer::ReleasedOnTerms { fence, effective_in_ms, is_done } => {
                Ok(Released { fence: Some(fence), effective_in_ms, is_done })
            }
            answer => unreachable!("a release is not answered with {answer:?}"),
        }
    }

    /// Changes what the holder says about itself. The lease stays as it is.
    pub async fn proclaim(
        &self,
        lock: LockName,
        key: AttemptKey,
        metadata: Metadata,
    ) -> Result<Grant, CallFailure> {
        match self.0.propose(Op::Proclaim { lock, key, metadata }).await?? {
            Answer::Granted(grant) => Ok(grant),
            answer => unreachable!("a proclamation is not answered with {answer:?}"),
        }
    }

    /// Ends the hold and grants the lock to the first attempt of `to` that waits for it. Gives the fence of what ended.
    pub async fn hand_over(&self, lock: LockName, key: AttemptKey, to: Owner) -> Result<Fence, CallFailure> {
        match self.0.propose(Op::HandOver { lock, key, to }).await?? {
            Answer::Released { fence: Some(fence) } => Ok(fence),
            answer => unreachable!("a hand-over is not answered with {answer:?}"),
        }
    }

    /// Takes all of the locks, or waits for them: else as [`Replica::acquire`].
    pub async fn acquire_many(
        &self,
        attempt: ManyAttempt,
    ) -> Result<(Acquired<ManyGrant>, Delivery), CallFailure> {
        attempts::acquire_many(self.0.clone(), attempt).await
    }

    /// Sets what is left of all the leases to the TTL: of those that are named, else of all that the attempt holds.
    pub async fn renew_many(
        &self,
        key: AttemptKey,
        named: Option<Several<Place>>,
        ttl: Option<Ttl>,
    ) -> Result<ManyGrant, CallFailure> {
        match self.0.propose(Op::RenewMany { key, named, ttl }).await?? {
            Answer::GrantedMany(grant) => Ok(grant),
            answer => unreachable!("a renewal of many is not answered with {answer:?}"),
        }
    }

    /// Frees those that are named, else all that the attempt holds, or takes it out of the queues (then there are no
    /// fences).
    pub async fn release_many(
        &self,
        key: AttemptKey,
        named: Option<Several<Place>>,
    ) -> Result<Vec<(LockName, Option<Fence>)>, CallFailure> {
        match self.0.propose(Op::ReleaseMany { key, named }).await?? {
            Answer::ReleasedMany { fences } => Ok(fences),
            answer => unreachable!("a release of many is not answered with {answer:?}"),
        }
    }

    /// Changes how many permits a lock has, while anybody holds some or waits for some.
    pub async fn set_limit(&self, lock: LockName, limit: Limit) -> Result<(), CallFailure> {
        match self.0.propose(Op::SetLimit { lock, limit }).await?? {
            Answer::Done => Ok(()),
            answer => unreachable!("a change of a limit is not answered with {answer:?}"),
        }
    }

    /// Ends a hold as an operator does, if it is this one that holds the lock.
    pub async fn force_release(
        &self,
        lock: LockName,
        fence: Fence,
        by: Intervention,
    ) -> Result<(), CallFailure> {
        match self.0.propose(Op::ForceRelease { lock, fence, by }).await?? {
            Answer::Released { .. } => Ok(()),
            answer => unreachable!("an end by force is not answered with {answer:?}"),
        }
    }

    /// Takes all of an owner's attempts out of the queue, as an operator does. How many there were.
    pub async fn force_leave(
        &self,
        lock: LockName,
        owner: Owner,
        by: Intervention,
    ) -> Result<u64, CallFailure> {
        match self.0.propose(Op::ForceLeave { lock, owner, by }).await?? {
            Answer::Left { count } => Ok(count),
            answer => unreachable!("leaving by force is not answered with {answer:?}"),
        }
    }

    /// Opens a session, or finds the one that this key has opened.
    pub async fn open_session(
        &self,
        key: SessionKey,
        owner: Owner,
        ttl: Ttl,
    ) -> Result<SessionGrant, CallFailure> {
        self.0.check_space()?;
        self.keep_session(Op::OpenSession { key, owner, ttl }).await
    }

    /// Sets what is left of a session to its TTL.
    pub async fn renew_session(&self, session: SessionRef) -> Result<SessionGrant, CallFailure> {
        self.keep_session(Op::RenewSession(session)).await
    }

    async fn keep_session(&self, op: Op) -> Result<SessionGrant, CallFailure> {
        match self.0.propose(op).await?? {
            Answer::Session(session) => Ok(session),
            answer => unreachable!("a session is not answered with {answer:?}"),
        }
    }

    /// Frees all that a session holds, and gives up all that it waits for. How many locks it held.
    pub async fn end_session(&self, session: SessionRef) -> Result<u64, CallFailure> {
        match self.0.propose(Op::EndSession(session)).await?? {
            Answer::SessionEnded { released } => Ok(released),
            answer => unreachable!("the end of a session is not answered with {answer:?}"),
        }
    }

    /// Looks at the state; `look` also gets the leader's present cluster time (the table's own for a stale read).
    pub async fn read<T>(
        &self,
        consistency: Consistency,
        look: impl FnOnce(&LockTable, ClusterTime) -> T + Send,
    ) -> Result<T, Unanswered> {
        self.0.check_open()?;
        let now = match consistency {
            Consistency::Linearizable => self.0.read_now().await?,
            Consistency::Stale if !self.0.has_recovered.load(Ordering::Relaxed) => {
                return Err(Unanswered::NoLeader("this node is still catching up after its start".into()));
            }
            Consistency::Stale => ClusterTime(0), // Never ahead of the table's own.
        };
        Ok(self.0.machine.look(|state| look(&state.table, now.max(state.table.now()))))
    }

    /// Index of the last applied entry and the whole state at it, to be hashed at leisure.
    pub fn state(&self) -> (u64, SnapshotView) {
        self.0.machine.look(|state| (state.position().index, state.table.snapshot()))
    }

    /// This node's id.
    pub fn node_id(&self) -> NodeId {
        self.0.node_id
    }

    /// What this replica answers to its peers.
    pub fn service(&self) -> Arc<dyn PeerService> {
        Arc::new(SharedService::new(self.0.clone()))
    }

    /// Resolves when the replica has stopped by itself (a broken disk, a bug), with the reason: the process must exit.
    pub async fn failed(&self) -> String {
        let told = async {
            let failure = self.0.failure.wait_for(Option::is_some).await;
            failure.expect("that is what was waited for")
        };
        match R::select2(told, self.core_stopped()).await {
            Select2::First(why) | Select2::Second(why) => why,
        }
    }

    async fn core_stopped(&self) -> String {
        let mut metrics = self.0.raft.server_metrics();
        loop {
            if let Some(why) = chores::core_failure(&self.0.raft) {
                return why;
            }
            if metrics.changed().await.is_err() {
                return chores::core_failure(&self.0.raft).unwrap_or_else(|| "the core has stopped".into());
            }
        }
    }

    /// Takes no more calls, sends those that wait elsewhere, and hands leadership over if this node leads. Calls that
    /// are under way are still answered. Idempotent.
    pub async fn drain(&self) {
        self.0.is_draining.set(true);
        self.0.hand_over().await;
    }

    /// Drains, then stops everything. Idempotent.
    pub async fn shutdown(&self) {
        self.drain().await;
        self.0.tasks.close().await;
        let _ = self.0.raft.shutdown().await; // It fails only if the core has panicked, which is as good as stopped.
    }
}

impl<R: Runtime> Inner<R> {
    /// Waits until this node's state shows everything that was answered before now; gives the leader's cluster time.
    pub(crate) async fn read_now(&self) -> Result<ClusterTime, Unanswered> {
        let reached = async {
            let point = self.reads.point(false).await?;
            self.effects.progress.wait_for(|progress| progress.position.index >= point.index).await;
            Ok(point.now)
        };
        R::timeout(CALL_TIMEOUT, reached)
            .await
            .unwrap_or_else(|_| Err(Unanswered::NoLeader("no answer came in time".into())))
    }
}
