//! A node's own place among the members: where it is, whether it votes, and whether it still is one.

use std::time::Duration;

use openraft::rt::WatchReceiver;
use openraft_rt::Instant as _;

use crate::chores::pause;
use crate::leadership::Leader;
use crate::members::ChangeRefusal;
use crate::replica::{Inner, Replica};
use crate::tasks::Closing;
use crate::wire::{OperateReply, OperatorRequest};
use crate::world::{NodeId, PeerAddress, Runtime};

/// Between two looks at how far a learner is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two lines about it.
const TELL_EVERY: Duration = Duration::from_secs(1);
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a learner wants a vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    /// As soon as it has caught up.
    #[default]
    UntilCaughtUp,
    /// Never.
    Learner,
}

/// What a node wants to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatWish {
    /// `HOST:PORT` that peers reach it by, if that is certain.
    pub addr: Option<String>,
    /// Whether it wants a vote.
    pub stay: Stay,
}

/// A node's place, as it knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seat {
    /// It is no member yet, as far as it knows.
    None,
    Learner(String),
    Voter(String),
}

impl<R: Runtime> Replica<R> {
    /// This node's data folder.
    pub fn storage(&self) -> holdfast_core::StorageId {
        self.0.about.storage
    }

    /// The cluster that this node's folder belonged to when it started; empty if it had not learnt the id yet.
    pub fn cluster_at_start(&self) -> Option<String> {
        let known = self.0.about.cluster.clone();
        known.or_else(|| (self.0.seat() != Seat::None).then(String::new))
    }

    /// Sees to it that the node is what it wants to be: its address in the membership is its own, and a learner that has
    /// caught up gets a vote. Ends when that is so, or the replica closes.
    pub(crate) async fn take_seat(&self, wish: SeatWish, closing: Closing) {
        let _ = R::select2(closing.closed(), async {
            if let Some(addr) = &wish.addr {
                self.0.settle_address(addr, &closing).await;
            }
            if wish.stay == Stay::UntilCaughtUp {
                self.0.become_voter(&closing).await;
            }
        })
        .await;
    }
}

impl<R: Runtime> Inner<R> {
    fn seat(&self) -> Seat {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        match membership.get_node(&self.node_id) {
            None => Seat::None,
            Some(known) if membership.voter_ids().any(|id| id == self.node_id) => {
                Seat::Voter(known.addr.clone())
            }
            Some(known) => Seat::Learner(known.addr.clone()),
        }
    }

    /// Tells the leader where this node is now, if the others think that it is elsewhere.
    async fn settle_address(&self, addr: &str, closing: &Closing) {
        let mut told = None;
        loop {
            let mut wait = LOOK_EVERY;
            match self.seat() {
                Seat::Learner(known) | Seat::Voter(known) if known == addr => return,
                Seat::None => {}
                Seat::Learner(known) | Seat::Voter(known) => {
                    let (node, storage) = (self.node_id, self.about.storage);
                    let request = OperatorRequest::Join { node, addr: addr.into(), storage };
                    let reply = self.ask_anybody(&request).await;
                    wait = if matches!(reply, OperateReply::Done { .. }) { LOOK_EVERY } else { TELL_EVERY };
                    if told.as_ref() != Some(&reply) {
                        tracing::info!(known, now = addr, ?reply, "this node has moved");
                        told = Some(reply);
                    }
                }
            }
            if !pause::<R>(closing, wait).await {
                return;
            }
        }
    }

    /// Asks for a vote until this node has one, and says how far it is while that takes long.
    async fn become_voter(&self, closing: &Closing) {
        let mut told = R::Instant::now();
        let mut was_learner = false;
        loop {
            match self.seat() {
                Seat::Voter(_) => break,
                Seat::None => {}
                Seat::Learner(_) => {
                    was_learner = true;
                    let reply = match self.is_caught_up() {
                        true => {
                            Some(self.ask_anybody(&OperatorRequest::Promote { node: self.node_id }).await)
                        }
                        false => None,
                    };
                    if told + TELL_EVERY <= R::Instant::now() {
                        told = R::Instant::now();
                        self.tell_progress(reply.as_ref());
                    }
                }
            }
            if !pause::<R>(closing, LOOK_EVERY).await {
                return;
            }
        }
        if was_learner {
            tracing::info!(node_id = self.node_id, "this node has caught up and is a voter now");
        }
    }

    fn is_caught_up(&self) -> bool {
        self.has_settled.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn tell_progress(&self, reply: Option<&OperateReply>) {
        let (applied, last) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let index = |at: &Option<crate::consensus::types::LogId<R>>| at.as_ref().map_or(0, |at| at.index);
            (index(&metrics.last_applied), index(&metrics.cluster_committed))
        };
        let percent = (applied.min(last) * 100).checked_div(last).unwrap_or(0);
        let why = match reply {
            Some(OperateReply::Refused(refusal)) => refusal.to_string(),
            Some(OperateReply::NotLeader(why) | OperateReply::Unknown(why)) => why.clone(),
            Some(OperateReply::Done { .. }) | None => String::new(),
        };
        tracing::info!(applied, of = last, why, "catching up: {percent} %");
    }

    /// Has the leader do it, or whoever else knows the leader: one that has moved may not hear from the leader itself.
    async fn ask_anybody(&self, request: &OperatorRequest) -> OperateReply {
        let leader = match self.leadership.leader() {
            Leader::Me(_) => return self.lead_change(request, ASK_TIMEOUT).await,
            Leader::Other(leader) => Some(leader),
            Leader::Nobody(_) => None,
        };
        let mut last = OperateReply::NotLeader("no leader is known".into());
        for peer in leader.map_or_else(|| self.others(), |leader| vec![leader]) {
            last = self.ask(&peer, request, ASK_TIMEOUT, true).await;
            let is_settled = matches!(last, OperateReply::Done { .. } | OperateReply::Refused(_));
            if is_settled && last != OperateReply::Refused(ChangeRefusal::InProgress) {
                return last;
            }
        }
        last
    }

    fn others(&self) -> Vec<PeerAddress> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let nodes = metrics.membership_config.nodes();
        let address = |(node, known): (&NodeId, &openraft::impls::BasicNode)| PeerAddress {
            node: *node,
            addr: known.addr.clone(),
        };
        nodes.filter(|(node, _)| **node != self.node_id).map(address).collect()
    }

    /// The others have let this node go.
    pub(crate) fn note_removal(&self) {
        let why = format!(
            "node {} was removed from the cluster. Stop it; its folder is of no more use. To let the machine in again, \
             start it with an empty folder, an id that was never used, and --join",
            self.node_id
        );
        if self.removed.get().is_none() {
            tracing::error!("{why}");
            self.removed.set(Some(why));
        }
    }
}
