//! What a leader does about its members.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use holdfast_core::{NodeId as CoreNodeId, Op, StorageId};
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::impls::BasicNode;
use openraft::rt::WatchReceiver;
use openraft::{ChangeMembers, Membership};
use tokio::sync::oneshot;

use crate::consensus::Types;
use crate::members::{ChangeRefusal, Safety};
use crate::replica::Inner;
use crate::wire::{self, NodeReport, OperateReply, OperatorRequest};
use crate::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, Runtime};

/// How long a node that wants to join may take to say who it is.
const REACH_TIMEOUT: Duration = Duration::from_millis(1_000);
/// A learner that is further behind gets no vote, in log entries.
const PROMOTION_LAG_MAX: u64 = 1_000;
/// Most changes are over within a few round trips.
const TURN_PATIENCE: Duration = Duration::from_millis(500);
const TURN_PAUSE: Duration = Duration::from_millis(20);
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(500);

/// One change at a time: whose turn it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<AtomicBool>);

/// The right to change the members, until it is dropped.
struct Turn(Arc<AtomicBool>);

impl Turns {
    fn take(&self) -> Option<Turn> {
        let is_free = !self.0.swap(true, Ordering::AcqRel);
        is_free.then(|| Turn(self.0.clone()))
    }

    /// Whether a change is under way here.
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

type Change = ChangeMembers<NodeId, BasicNode>;

/// The members as the leader has them.
struct Roll(Membership<NodeId, BasicNode>);

impl Roll {
    fn addr(&self, node: NodeId) -> Option<&str> {
        self.0.get_node(&node).map(|known| known.addr.as_str())
    }

    fn is_joint(&self) -> bool {
        self.0.get_joint_config().len() > 1
    }

    fn voters(&self) -> BTreeSet<NodeId> {
        self.0.voter_ids().collect()
    }
}

type Checked = Result<(), ChangeRefusal>;

impl<R: Runtime> Inner<R> {
    /// Does what is asked for, if this node leads.
    pub(super) async fn lead_change(&self, request: &OperatorRequest, patience: Duration) -> OperateReply {
        let changed = match request {
            OperatorRequest::Transfer { to } => self.lead_transfer(*to).await,
            OperatorRequest::Removed => return OperateReply::NotLeader("it is not for the leader".into()),
            _ => match R::timeout(TURN_PATIENCE, self.next_turn()).await {
                Ok(turn) => self.lead_change_in(turn, request, patience).await,
                Err(_) => Err(ChangeRefusal::InProgress),
            },
        };
        changed.unwrap_or_else(OperateReply::Refused)
    }

    /// Waits until no other change is under way.
    async fn next_turn(&self) -> Turn {
        loop {
            if !self.roll().is_joint()
                && let Some(turn) = self.turns.take()
            {
                return turn;
            }
            R::sleep(TURN_PAUSE).await;
        }
    }

    async fn lead_change_in(
        &self,
        turn: Turn,
        request: &OperatorRequest,
        patience: Duration,
    ) -> Result<OperateReply, ChangeRefusal> {
        let roll = self.roll();
        let done = OperateReply::Done { leader: self.node_id };
        match request {
            OperatorRequest::Join { node, addr, storage } => {
                self.check_joiner(&roll, *node, addr, *storage)?;
                let mut reply = done;
                if roll.addr(*node) != Some(addr.as_str()) {
                    self.check_reach(*node, addr, *storage).await?;
                    tracing::info!(node, addr, "a node joins, or has moved");
                    let nodes = [(*node, BasicNode { addr: addr.clone() })].into();
                    reply = self.change(turn, ChangeMembers::SetNodes(nodes), patience).await;
                }
                if matches!(reply, OperateReply::Done { .. }) && self.storage_of(*node).is_none() {
                    // Only now: who is registered but no member has been removed.
                    self.run_errand(Op::Register { node: CoreNodeId(*node), storage: *storage });
                }
                Ok(reply)
            }
            OperatorRequest::Promote { node } => {
                if roll.voters().contains(node) {
                    return Ok(done);
                }
                self.check_promotion(&roll, *node).await?;
                tracing::info!(node, "a learner has caught up and gets a vote");
                Ok(self.change(turn, ChangeMembers::AddVoterIds([*node].into()), patience).await)
            }
            OperatorRequest::Remove { node, safety } => {
                if roll.addr(*node).is_none() && self.storage_of(*node).is_some() {
                    return Ok(done);
                }
                self.check_removal(&roll, *node, *safety).await?;
                if *node == self.node_id {
                    return self.make_way().await;
                }
                self.remove(turn, &roll, *node, patience).await
            }
            OperatorRequest::Transfer { .. } | OperatorRequest::Removed => {
                Err(ChangeRefusal::Invalid("it is no change of the members".into()))
            }
        }
    }

    fn storage_of(&self, node: NodeId) -> Option<StorageId> {
        self.machine.look(|state| state.table.storage_of(CoreNodeId(node)))
    }

    fn roll(&self) -> Roll {
        let metrics = self.raft.metrics();
        Roll(metrics.borrow_watched().membership_config.membership().clone())
    }

    /// Whether enough of these voters answer now. One that has just died would still pass for alive by its heartbeats.
    async fn check_majority(&self, roll: &Roll, voters: &BTreeSet<NodeId>) -> Checked {
        let ask = |node: &NodeId| {
            let peer = PeerAddress { node: *node, addr: roll.addr(*node).unwrap_or_default().into() };
            async move { (peer.node, self.report_of(&peer).await.is_some()) }
        };
        let answers = join_all(voters.iter().map(ask)).await;
        let silent: Vec<_> =
            answers.iter().filter(|(_, answers)| !answers).map(|(node, _)| node.to_string()).collect();
        let (needed, answering) = (voters.len() / 2 + 1, voters.len() - silent.len());
        if answering >= needed {
            return Ok(());
        }
        Err(ChangeRefusal::Unsafe(format!(
            "the cluster would have {} voters and need {needed} of them, but only {answering} would answer. Silent: node \
             {}. Bring them back or remove them first",
            voters.len(),
            silent.join(", node ")
        )))
    }

    /// An id belongs to one folder for ever, and an address to one node.
    fn check_joiner(&self, roll: &Roll, node: NodeId, addr: &str, storage: StorageId) -> Checked {
        let refuse = |what: String| Err(ChangeRefusal::Unsafe(what));
        let known = self.storage_of(node);
        if known.is_some_and(|known| known != storage) {
            return refuse(format!(
                "node id {node} belongs to another data folder. Remove that node from the cluster if it is gone \
                 (holdfast cluster remove {node}), and start this one with an empty folder and an id that was never used"
            ));
        }
        let present = roll.addr(node);
        if known.is_some() && present.is_none() {
            return refuse(format!(
                "node {node} was removed from the cluster, and its id does not come back. Start it with an empty folder \
                 and an id that was never used"
            ));
        }
        if known.is_none() && present.is_some_and(|present| present != addr) {
            return refuse(format!(
                "node {node} is joining from {} already. If that was a mistake, remove it first (holdfast cluster \
                 remove {node})",
                present.unwrap_or_default()
            ));
        }
        let mut others = roll.0.nodes().filter(|(other, _)| **other != node);
        if let Some((other, _)) = others.find(|(_, known)| known.addr == addr) {
            return refuse(format!("the address {addr} is that of node {other}. Give each node its own"));
        }
        Ok(())
    }

    /// A node that the leader cannot reach could not follow it either.
    async fn check_reach(&self, node: NodeId, addr: &str, storage: StorageId) -> Checked {
        if node == self.node_id {
            return Ok(());
        }
        let peer = PeerAddress { node, addr: addr.into() };
        let (lane, kind) = (PeerLane::Forward, CallKind::Status);
        let answer = self.transport.call(&peer, lane, kind, Bytes::new(), REACH_TIMEOUT).await;
        let report = answer.map(|bytes| wire::decode::<NodeReport>(&bytes));
        let why = match report {
            Ok(Some(report)) if report.storage == storage => return Ok(()),
            Ok(Some(_)) => "it has another data folder than it says".into(),
            Ok(None) => "what it answers makes no sense".into(),
            Err(CallError::NotSent(why) | CallError::NoAnswer(why)) => why,
        };
        Err(ChangeRefusal::Unsafe(format!(
            "the leader, node {}, does not reach node {node} at {addr}: {why}. Check --peer-listen and --peer-advertise of \
             the new node, and that its folder is empty",
            self.node_id
        )))
    }

    async fn check_promotion(&self, roll: &Roll, node: NodeId) -> Checked {
        if roll.addr(node).is_none() {
            return Err(no_such_member(node));
        }
        if self.storage_of(node).is_none() {
            return Err(ChangeRefusal::Unsafe(format!("node {node} has not said yet whose folder it has")));
        }
        let lag = self.lag_of(node);
        if lag.is_none_or(|lag| lag > PROMOTION_LAG_MAX) {
            let behind = lag.map_or_else(|| "all".into(), |lag| lag.to_string());
            return Err(ChangeRefusal::Unsafe(format!(
                "node {node} still lacks {behind} entries of the log"
            )));
        }
        let mut voters = roll.voters();
        voters.insert(node);
        self.check_majority(roll, &voters).await
    }

    fn lag_of(&self, node: NodeId) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matching = metrics.replication.as_ref()?.get(&node)?.as_ref()?.index;
        Some(metrics.last_log_index.unwrap_or(0).saturating_sub(matching))
    }

    async fn check_removal(&self, roll: &Roll, node: NodeId, safety: Safety) -> Checked {
        if roll.addr(node).is_none() {
            return Err(no_such_member(node));
        }
        let mut voters = roll.voters();
        if !voters.remove(&node) {
            return Ok(()); // It has no vote.
        }
        if voters.is_empty() {
            let why = format!("node {node} is the last voter: without it there is no cluster");
            return Err(ChangeRefusal::Unsafe(why));
        }
        match safety {
            Safety::Checked => self.check_majority(roll, &voters).await,
            Safety::Forced => Ok(()),
        }
    }

    async fn remove(
        &self,
        turn: Turn,
        roll: &Roll,
        node: NodeId,
        patience: Duration,
    ) -> Result<OperateReply, ChangeRefusal> {
        tracing::info!(node, "a member is removed");
        let change = match roll.voters().contains(&node) {
            true => ChangeMembers::RemoveVoters([node].into()),
            false => ChangeMembers::RemoveNodes([node].into()),
        };
        let reply = self.change(turn, change, patience).await;
        if let (OperateReply::Done { .. }, Some(addr)) = (&reply, roll.addr(node)) {
            self.bid_farewell(PeerAddress { node, addr: addr.into() });
        }
        Ok(reply)
    }

    /// Tells a removed node so, if it still hears; else it is told when it calls.
    fn bid_farewell(&self, peer: PeerAddress) {
        let call =
            wire::OperateCall { may_pass_on: false, patience_ms: 0, request: OperatorRequest::Removed };
        // Where it is connected already: it would not be greeted again.
        let (lane, kind) = (PeerLane::Consensus, CallKind::Operate);
        let told = self.transport.call(&peer, lane, kind, wire::encode(&call), FAREWELL_TIMEOUT);
        drop(R::spawn(async move {
            let _ = told.await;
        }));
    }

    /// A leader that is to go lets another one lead, which then removes it.
    async fn make_way(&self) -> Result<OperateReply, ChangeRefusal> {
        self.hand_over().await;
        match self.raft.is_leader() {
            true => {
                Err(ChangeRefusal::Unsafe("no other voter has taken over from this leader in time".into()))
            }
            false => Ok(OperateReply::NotLeader("the leader was to go, and has let another one lead".into())),
        }
    }

    /// Makes the change to its end, whether or not somebody waits for it that long.
    async fn change(&self, turn: Turn, change: Change, patience: Duration) -> OperateReply {
        let (raft, leader) = (self.raft.clone(), self.node_id);
        let (done, changed) = oneshot::channel();
        drop(R::spawn(async move {
            let result = raft.change_membership(change, false).await;
            drop(turn);
            let _ = done.send(result.map(|_| ())); // The caller may have left.
        }));
        match R::timeout(patience, changed).await {
            Ok(Ok(Ok(()))) => OperateReply::Done { leader },
            Ok(Ok(Err(error))) => refused::<R>(&error),
            Ok(Err(_)) => OperateReply::Unknown("the node is stopping".into()),
            Err(_) => OperateReply::Unknown("the change is under way, but not done yet".into()),
        }
    }

    async fn lead_transfer(&self, to: Option<NodeId>) -> Result<OperateReply, ChangeRefusal> {
        let roll = self.roll();
        let Some(to) = to else {
            if roll.voters().len() < 2 {
                let why = format!("node {} is the only voter", self.node_id);
                return Err(ChangeRefusal::Unsafe(why));
            }
            self.hand_over().await;
            let leader = self.raft.metrics().borrow_watched().current_leader;
            return match leader.filter(|leader| *leader != self.node_id) {
                Some(leader) => Ok(OperateReply::Done { leader }),
                None => Err(ChangeRefusal::Unsafe("no other voter has taken over in time".into())),
            };
        };
        if to == self.node_id {
            return Ok(OperateReply::Done { leader: to });
        }
        let addr = roll.addr(to).ok_or_else(|| no_such_member(to))?;
        if !roll.voters().contains(&to) {
            return Err(ChangeRefusal::Invalid(format!(
                "node {to} is a learner: it has no vote and cannot lead"
            )));
        }
        let report = self.report_of(&PeerAddress { node: to, addr: addr.into() }).await;
        match report {
            None => Err(ChangeRefusal::Unsafe(format!("node {to} does not answer"))),
            Some(report) if report.is_draining => {
                Err(ChangeRefusal::Unsafe(format!("node {to} is shutting down")))
            }
            Some(_) if self.hand_over_to(to).await => Ok(OperateReply::Done { leader: to }),
            Some(_) => Err(ChangeRefusal::Unsafe(format!("node {to} has not taken over in time"))),
        }
    }

    /// Finishes a change that a leader before this one has left half done.
    pub(crate) async fn finish_change(&self) {
        if self.leadership.leading().is_none() || !self.roll().is_joint() {
            return;
        }
        let Some(turn) = self.turns.take() else { return };
        tracing::info!("finishing a change of the members that was begun by another leader");
        // It changes nothing but the two sets of voters, of which the new one stays.
        let reply = self.change(turn, ChangeMembers::AddVoterIds(BTreeSet::new()), FAREWELL_TIMEOUT).await;
        tracing::info!(?reply, "finished");
    }

    /// Whether a node was a member and is none any more. Its id never comes back.
    pub(crate) fn was_removed(&self, node: NodeId) -> bool {
        self.machine.look(|state| {
            state.table.storage_of(CoreNodeId(node)).is_some()
                && state.membership.membership().get_node(&node).is_none()
        })
    }
}

fn no_such_member(node: NodeId) -> ChangeRefusal {
    ChangeRefusal::NoSuchMember(format!("node {node} is no member of this cluster"))
}

fn refused<R: Runtime>(error: &RaftError<Types<R>, ClientWriteError<Types<R>>>) -> OperateReply {
    match error {
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
            OperateReply::Refused(match error {
                ChangeMembershipError::InProgress(_) => ChangeRefusal::InProgress,
                other => ChangeRefusal::Unsafe(other.to_string()),
            })
        }
        // Perhaps within the second step of two.
        other => OperateReply::Unknown(other.to_string()),
    }
}
