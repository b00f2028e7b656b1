//! A group of commands on its way through the log.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use holdfast_core::planted::{Bug, planted};
use holdfast_core::{GroupEncoder, Outcome};
use openraft::errors::ClientWriteError;
use openraft::impls::OneshotResponder;
use openraft::raft::ClientWriteResult;
use tokio::sync::OwnedSemaphorePermit;

use super::Pending;
use super::driver::Paths;
use crate::consensus::types::GroupBytes;
use crate::consensus::{Types, codec};
use crate::leadership::Leading;
use crate::world::Runtime;

/// What became of a group.
enum Fate {
    Applied(Vec<Outcome>),
    /// It is not in the log and will not be.
    NoEffect,
    /// It may be in the log, or get there.
    Unknown,
}

impl<R: Runtime> Paths<R> {
    /// Puts a group into the log: stamped now, and only while this node leads in the same term.
    ///
    /// Returns once openraft has it, so that groups get into the log in order; the answers come later.
    pub(super) async fn submit(
        self,
        leading: Leading<R>,
        group: Vec<Pending<R>>,
        permit: OwnedSemaphorePermit,
    ) {
        let mut encoder = GroupEncoder::new(leading.now());
        for pending in &group {
            encoder.push(&pending.op);
        }
        let bytes = GroupBytes(Bytes::from(encoder.finish()));
        let (responder, told) = OneshotResponder::new_pair();
        let write = self.raft.write(bytes).with_leader(codec::led_in::<R>(leading.term)).responder(responder);
        self.stats.groups.fetch_add(1, Ordering::Relaxed);
        if write.await.is_err() {
            group.into_iter().for_each(|pending| pending.fail("this node is shutting down"));
            return;
        }
        drop(R::spawn(async move {
            let last_deadline = group.iter().map(|pending| pending.deadline).max();
            let fate = match last_deadline {
                Some(deadline) => R::timeout_at(deadline, told).await.map_or(Fate::Unknown, fate_of::<R, _>),
                None => fate_of::<R, _>(told.await), // A tick: nobody waits for it, but its permit does.
            };
            drop(permit);
            self.settle(group, fate).await;
        }));
    }

    /// Answers the callers, or sends their commands back for another try.
    async fn settle(&self, group: Vec<Pending<R>>, fate: Fate) {
        let is_tried = match fate {
            Fate::Applied(outcomes) => {
                for (pending, outcome) in group.into_iter().zip(outcomes) {
                    pending.answer(outcome);
                }
                return;
            }
            Fate::NoEffect => false,
            Fate::Unknown => true,
        };
        self.send_back_slowly(group, is_tried).await;
    }

    /// Commands that have got no answer try again, in their order, until their deadline.
    pub(super) fn send_back(&self, mut group: Vec<Pending<R>>, is_tried: bool) {
        for pending in &mut group {
            pending.is_tried |= is_tried;
        }
        // The driver is gone only when the replica closes: dropping them tells their callers.
        let _ = self.give_back.send(group);
    }
}

/// `told` is an error if openraft has stopped.
fn fate_of<R: Runtime, E>(told: Result<ClientWriteResult<Types<R>>, E>) -> Fate {
    match told {
        Ok(Ok(response)) => Fate::Applied(response.data.0),
        Ok(Err(
            ClientWriteError::ForwardToLeader(_)
            | ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_),
        )) => Fate::NoEffect,
        Ok(Err(ClientWriteError::LogEntryDiscarded(_))) if planted(Bug::DiscardedTakenForNoEffect) => {
            Fate::NoEffect
        }
        // Another leader may have kept the entry, whatever the hint in the error says.
        Ok(Err(ClientWriteError::LogEntryDiscarded(_))) | Err(_) => Fate::Unknown,
    }
}
