//! A request on its way to the leader, over at most one other node.

use std::time::Duration;

use openraft::rt::WatchReceiver;
use openraft_rt::Instant as _;

use crate::handle::{CALL_TIMEOUT, Unanswered};
use crate::leadership::Leader;
use crate::members::{ChangeFailure, ChangeRefusal};
use crate::replica::Inner;
use crate::wire::{self, OperateCall, OperateReply, OperatorRequest};
use crate::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, Runtime};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// For the way to the leader and back.
const WAY: Duration = Duration::from_millis(200);

impl<R: Runtime> Inner<R> {
    /// Has the leader do it, whoever that is; gives who leads then.
    pub(crate) async fn operate(&self, request: &OperatorRequest) -> Result<NodeId, ChangeFailure> {
        let deadline = R::Instant::now() + CALL_TIMEOUT;
        let mut lost = None;
        loop {
            let left = deadline.saturating_duration_since(R::Instant::now());
            let why = match self.try_to_operate(request, left, true).await {
                OperateReply::Done { leader } => return Ok(leader),
                // Perhaps by this very request, whose answer was lost.
                OperateReply::Refused(ChangeRefusal::InProgress) if lost.is_some() => {
                    "it is under way".into()
                }
                OperateReply::Refused(refusal) => return Err(refusal.into()),
                OperateReply::NotLeader(why) => why,
                OperateReply::Unknown(why) => lost.insert(why).clone(),
            };
            if R::Instant::now() + PAUSE >= deadline {
                return Err(match lost {
                    Some(why) => Unanswered::UnknownOutcome(why).into(),
                    None => Unanswered::NoLeader(why).into(),
                });
            }
            R::sleep(PAUSE).await;
        }
    }

    /// What this node says to another one that asks.
    pub(crate) async fn answer_operator(&self, call: OperateCall) -> OperateReply {
        if call.request == OperatorRequest::Removed {
            self.note_removal();
            return OperateReply::Done { leader: self.node_id };
        }
        let patience = Duration::from_millis(call.patience_ms).min(CALL_TIMEOUT);
        self.try_to_operate(&call.request, patience, call.may_pass_on).await
    }

    async fn try_to_operate(
        &self,
        request: &OperatorRequest,
        patience: Duration,
        may_pass_on: bool,
    ) -> OperateReply {
        match self.leadership.leader() {
            Leader::Me(_) => self.lead_change(request, patience).await,
            Leader::Other(leader) if may_pass_on => self.ask(&leader, request, patience, false).await,
            Leader::Other(_) => OperateReply::NotLeader("the node does not lead".into()),
            // A change may itself be what keeps the majority from answering.
            Leader::Nobody(_) if self.raft.is_leader() && self.turns.is_taken() => {
                OperateReply::Refused(ChangeRefusal::InProgress)
            }
            Leader::Nobody(why) => OperateReply::NotLeader(why.into()),
        }
    }

    pub(super) async fn ask(
        &self,
        peer: &PeerAddress,
        request: &OperatorRequest,
        patience: Duration,
        may_pass_on: bool,
    ) -> OperateReply {
        let patience_ms = patience.saturating_sub(WAY).as_millis().try_into().unwrap_or(u64::MAX);
        let call = OperateCall { may_pass_on, patience_ms, request: request.clone() };
        let (lane, kind) = (PeerLane::Forward, CallKind::Operate);
        match self.transport.call(peer, lane, kind, wire::encode(&call), patience).await {
            Ok(answer) => wire::decode(&answer)
                .unwrap_or_else(|| OperateReply::Unknown("the leader's answer is malformed".into())),
            Err(CallError::NotSent(why)) => OperateReply::NotLeader(why),
            Err(CallError::NoAnswer(why)) => OperateReply::Unknown(why),
        }
    }

    /// Waits until this node knows that `leader` leads with a majority.
    pub(super) async fn wait_until_led_by(
        &self,
        leader: NodeId,
        patience: Duration,
    ) -> Result<(), Unanswered> {
        let mut metrics = self.raft.server_metrics();
        let serves = async {
            loop {
                let known = match self.leadership.leader() {
                    Leader::Me(_) => Some(self.node_id),
                    Leader::Other(other) => Some(other.node),
                    Leader::Nobody(_) => None,
                };
                if known == Some(leader) {
                    return;
                }
                R::select2(metrics.changed(), R::sleep(PAUSE)).await;
            }
        };
        let is_known = R::timeout(patience, serves).await.is_ok();
        let why = || Unanswered::UnknownOutcome(format!("node {leader} was elected but is not heard of"));
        is_known.then_some(()).ok_or_else(why)
    }
}
