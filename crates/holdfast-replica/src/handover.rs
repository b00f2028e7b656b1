//! Handing leadership over.

use std::time::Duration;

use openraft::rt::WatchReceiver;

use crate::replica::Inner;
use crate::world::{NodeId, PeerAddress, Runtime};

/// Without a majority there is no telling the time, nor anybody to hand over to.
const TIME_TIMEOUT: Duration = Duration::from_millis(200);
/// One try; then the next best successor is asked.
const TRY_TIMEOUT: Duration = Duration::from_millis(400);
/// A follower that does not say within this time how it is will not take over in time either.
const REPORT_TIMEOUT: Duration = Duration::from_millis(400);

impl<R: Runtime> Inner<R> {
    /// If this node leads, lets the follower that is furthest take over. Those who do not answer, or are about to stop
    /// themselves, are not asked.
    pub(crate) async fn hand_over(&self) {
        for successor in self.successors() {
            if !self.raft.is_leader() {
                return;
            }
            let report = R::timeout(REPORT_TIMEOUT, self.report_of(&successor)).await.ok().flatten();
            let is_willing = report.is_some_and(|report| !report.is_draining);
            if is_willing && self.hand_over_to(successor.node).await {
                return;
            }
        }
    }

    /// True once another node leads.
    pub(crate) async fn hand_over_to(&self, successor: NodeId) -> bool {
        tracing::info!(to = successor, "handing leadership over");
        self.tell_time().await;
        let mut metrics = self.raft.server_metrics();
        if self.raft.trigger().transfer_leader(successor).await.is_err() {
            return true; // The core has stopped: nothing leads here.
        }
        let led_elsewhere = async {
            loop {
                let leader = metrics.borrow_watched().current_leader;
                if leader.is_some_and(|leader| leader != self.node_id) {
                    return;
                }
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        R::timeout(TRY_TIMEOUT, led_elsewhere).await.is_ok()
    }

    /// Puts the present time into the log, so that the successor's clock goes on from it: else each hand-over would cost
    /// the time since the last heartbeat, and many of them together more than an expiry may be late.
    async fn tell_time(&self) {
        let index = self.effects.progress.get().position.index;
        self.proposals.tick();
        self.wait_until_applied(index + 1, TIME_TIMEOUT).await;
    }

    /// The other voters, the one with the longest log first.
    fn successors(&self) -> Vec<PeerAddress> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(replication) = &metrics.replication else { return Vec::new() };
        let mut others: Vec<_> = metrics
            .membership_config
            .voter_ids()
            .filter(|id| *id != self.node_id)
            .map(|id| (replication.get(&id).cloned().flatten().map(|log_id| log_id.index), id))
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let address = |(_, id): (_, NodeId)| {
            let node = metrics.membership_config.membership().get_node(&id)?;
            Some(PeerAddress { node: id, addr: node.addr.clone() })
        };
        others.into_iter().filter_map(address).collect()
    }
}
