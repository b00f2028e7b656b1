//! A batch of commands on its way to the leader: one hop, and back with the answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_core::{Answer, EncodedOp, Outcome, Rejection};
use openraft_rt::{Instant as _, Select2};
use tokio::sync::OwnedSemaphorePermit;

use super::driver::Paths;
use super::{Pending, Proposals};
use crate::handle::Unanswered;
use crate::leadership::Leader;
use crate::wire::{self, Forwarded, ProposeCall, ProposeReply};
use crate::world::{CallError, CallKind, PeerAddress, PeerLane, Runtime};

/// How often a node that waits for the leader's answer looks whether it still leads.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Answers about many locks in one reply, in bytes: with all others it must fit into a frame between peers.
const LONG_ANSWERS_BYTES_MAX: usize = 2 << 20;

impl<R: Runtime> Paths<R> {
    pub(super) async fn forward(
        self,
        leader: PeerAddress,
        batch: Vec<Pending<R>>,
        permit: OwnedSemaphorePermit,
    ) {
        let deadline = batch.iter().map(|pending| pending.deadline).max();
        let now = R::Instant::now();
        let patience = deadline.map_or(Duration::ZERO, |deadline| deadline - now.min(deadline));
        let call = ProposeCall {
            patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            ops: batch.iter().map(|pending| pending.op.clone()).collect(),
        };
        self.stats.forwarded.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let body = wire::encode(&call);
        let answer = self.transport.call(&leader, PeerLane::Forward, CallKind::Propose, body, patience);
        let answer = match R::select2(answer, self.leader_has_changed(&leader)).await {
            Select2::First(answer) => answer,
            Select2::Second(()) => Err(CallError::NoAnswer("the leader has changed".into())),
        };
        drop(permit);
        match answer {
            Ok(bytes) => self.settle_forwarded(batch, wire::decode(&bytes)),
            Err(CallError::NotSent(_)) => self.send_back_slowly(batch, false).await,
            Err(CallError::NoAnswer(_)) => self.send_back_slowly(batch, true).await,
        }
    }

    /// Resolves when this node knows of another leader than the one that was asked.
    async fn leader_has_changed(&self, asked: &PeerAddress) {
        loop {
            R::sleep(LOOK_AGAIN).await;
            match self.leadership.leader() {
                Leader::Other(leader) if leader == *asked => {}
                Leader::Nobody(_) => {} // It may well answer yet.
                Leader::Other(_) | Leader::Me(_) => return,
            }
        }
    }

    fn settle_forwarded(&self, batch: Vec<Pending<R>>, reply: Option<ProposeReply>) {
        let Some(ProposeReply(answers)) = reply.filter(|reply| reply.0.len() == batch.len()) else {
            return self.send_back(batch, true);
        };
        let (mut untouched, mut unknown) = (Vec::new(), Vec::new());
        for (pending, answer) in batch.into_iter().zip(answers) {
            match answer {
                Forwarded::Done(outcome) => pending.answer(outcome),
                Forwarded::NoEffect => untouched.push(pending),
                Forwarded::Unknown => unknown.push(pending),
            }
        }
        if !unknown.is_empty() {
            self.send_back(unknown, true);
        }
        if !untouched.is_empty() {
            let paths = self.clone();
            drop(R::spawn(async move { paths.send_back_slowly(untouched, false).await }));
        }
    }

    /// Whoever leads is out of reach, or does not lead, or not yet: the next try waits until that may have changed.
    pub(super) async fn send_back_slowly(&self, batch: Vec<Pending<R>>, is_tried: bool) {
        R::sleep(Duration::from_millis(10)).await;
        self.send_back(batch, is_tried);
    }
}

/// The leader's side: puts forwarded commands among its own and answers when all of them are.
pub(crate) async fn serve<R: Runtime>(proposals: &Proposals<R>, call: ProposeCall) -> ProposeReply {
    let patience = Duration::from_millis(call.patience_ms);
    // All are in the queue before the first answer is awaited, so that they share a group.
    let told: Vec<_> = call
        .ops
        .into_iter()
        .map(|op: EncodedOp| match op.decode() {
            Ok(_) => proposals.take_forwarded(op, patience),
            Err(error) => Err(Unanswered::NoLeader(error.to_string())),
        })
        .collect();
    let mut answers = Vec::with_capacity(told.len());
    let mut left = LONG_ANSWERS_BYTES_MAX;
    for told in told {
        answers.push(match told {
            Ok(told) => match told.await {
                Ok(Ok(outcome)) => told_within(&mut left, outcome),
                Ok(Err(Unanswered::UnknownOutcome(_))) | Err(_) => Forwarded::Unknown,
                Ok(Err(_)) => Forwarded::NoEffect,
            },
            Err(_) => Forwarded::NoEffect,
        });
    }
    ProposeReply(answers)
}

/// An answer for which there is no room is asked for again: every command is safe to repeat.
fn told_within(left: &mut usize, outcome: Outcome) -> Forwarded {
    let is_long = matches!(
        outcome,
        Ok(Answer::GrantedMany(_) | Answer::ReleasedMany { .. }) | Err(Rejection::Deadlock { .. })
    );
    let len = if is_long { wire::encode(&outcome).len() } else { 0 };
    match left.checked_sub(len) {
        Some(rest) => {
            *left = rest;
            Forwarded::Done(outcome)
        }
        None => Forwarded::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::LockName;

    use super::*;

    #[test]
    fn answers_that_do_not_fit_together_are_asked_for_again() {
        let cycle = vec![LockName::new(&"x".repeat(LockName::LEN_MAX)).unwrap(); 1_024];
        let outcome = Err(Rejection::Deadlock { cycle });
        let mut left = LONG_ANSWERS_BYTES_MAX;
        let is_told = |left: &mut usize| matches!(told_within(left, outcome.clone()), Forwarded::Done(_));
        let told = (0..100).filter(|_| is_told(&mut left)).count();
        assert!((1..10).contains(&told), "{told}");
        assert!(matches!(told_within(&mut left, Ok(Answer::Done)), Forwarded::Done(_)));
    }
}
