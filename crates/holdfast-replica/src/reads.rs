//! Linearizable reads: one round to a majority for all that arrived meanwhile, answered from this node's own state.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::ClusterTime;
use holdfast_core::planted::{Bug, planted};
use openraft::ReadPolicy;
use openraft_rt::Select2;
use tokio::sync::{mpsc, oneshot};

use crate::consensus::Raft;
use crate::handle::Unanswered;
use crate::leadership::{Leader, Leadership};
use crate::tasks::Closing;
use crate::wire::{self, ReadIndexReply};
use crate::world::{CallKind, PeerAddress, PeerLane, Runtime, Transport};

/// Reads that wait in front of the next round.
const QUEUE_LEN_MAX: usize = 65_536;
/// One round is given up after this time.
const ROUND_TIMEOUT: Duration = Duration::from_millis(700);
/// How long a read waits for somebody to lead.
const LEADERLESS_PATIENCE: Duration = Duration::from_millis(2_000);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// From which applied index on a read may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPoint {
    pub(crate) index: u64,
    /// The leader's cluster time.
    pub(crate) now: ClusterTime,
}

type Reply = oneshot::Sender<Result<ReadPoint, Unanswered>>;

/// A read that waits for its round.
struct Reader<R: Runtime> {
    reply: Reply,
    since: R::Instant,
    /// It came from another node: only this node's own leadership can answer it.
    is_forwarded: bool,
}

/// Where reads go in. Cheap to clone.
pub(crate) struct Reads<R: Runtime>(mpsc::Sender<Reader<R>>);

impl<R: Runtime> Clone for Reads<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Runtime> Reads<R> {
    /// The point that a read which begins now has to see.
    pub(crate) async fn point(&self, is_forwarded: bool) -> Result<ReadPoint, Unanswered> {
        let (reply, told) = oneshot::channel();
        let since = <R::Instant as openraft_rt::Instant>::now();
        self.0.try_send(Reader { reply, since, is_forwarded }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Unanswered::NoLeader("this node has too many reads under way".into())
            }
            mpsc::error::TrySendError::Closed(_) => Unanswered::Closing,
        })?;
        told.await.unwrap_or(Err(Unanswered::Closing))
    }
}

/// Runs the rounds, one after the other.
pub(crate) struct Rounds<R: Runtime> {
    queue: mpsc::Receiver<Reader<R>>,
    raft: Raft<R>,
    transport: Arc<dyn Transport>,
    leadership: Arc<Leadership<R>>,
}

impl<R: Runtime> Rounds<R> {
    pub(crate) fn new(
        raft: Raft<R>,
        transport: Arc<dyn Transport>,
        leadership: Arc<Leadership<R>>,
    ) -> (Reads<R>, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_LEN_MAX);
        (Reads(sender), Self { queue, raft, transport, leadership })
    }

    /// Works until the replica closes.
    pub(crate) async fn run(mut self, closing: Closing) {
        let mut waiting = Vec::new();
        while !closing.is_closed() {
            if let Select2::First(()) = R::select2(closing.closed(), self.step(&mut waiting)).await {
                return; // The callers' channels close with this task.
            }
        }
    }

    async fn step(&mut self, waiting: &mut Vec<Reader<R>>) {
        if waiting.is_empty() {
            match self.queue.recv().await {
                Some(reader) => waiting.push(reader),
                None => std::future::pending().await,
            }
        }
        while let Ok(reader) = self.queue.try_recv() {
            waiting.push(reader);
        }
        let (point, why) = match self.leadership.leader() {
            Leader::Me(_) => (self.local_round().await, "this node has lost its majority"),
            Leader::Other(leader) => {
                fail_where(waiting, |reader| reader.is_forwarded, "this node does not lead");
                if waiting.is_empty() {
                    return;
                }
                (self.remote_round(&leader).await, "the leader does not answer")
            }
            Leader::Nobody(why) => (None, why),
        };
        match point {
            Some(point) => waiting.drain(..).for_each(|reader| {
                let _ = reader.reply.send(Ok(point)); // The caller may have gone.
            }),
            None => self.retry_later(waiting, why).await,
        }
    }

    async fn local_round(&self) -> Option<ReadPoint> {
        if planted(Bug::OldLeaderReadsStale) {
            return self.leadership.leading().map(|leading| ReadPoint { index: 0, now: leading.now() });
        }
        let round = self.raft.get_read_log_id(ReadPolicy::ReadIndex);
        let (read_log_id, _) = R::timeout(ROUND_TIMEOUT, round).await.ok()?.ok()?;
        let leading = self.leadership.leading()?;
        Some(ReadPoint { index: read_log_id.index(), now: leading.now() })
    }

    async fn remote_round(&self, leader: &PeerAddress) -> Option<ReadPoint> {
        let lane = PeerLane::Forward;
        let call = self.transport.call(leader, lane, CallKind::ReadIndex, Bytes::new(), ROUND_TIMEOUT).await;
        match wire::decode(&call.ok()?)? {
            ReadIndexReply::Index { index, now } => Some(ReadPoint { index, now }),
            ReadIndexReply::NotLeader => None,
        }
    }

    async fn retry_later(&self, waiting: &mut Vec<Reader<R>>, why: &str) {
        let now = <R::Instant as openraft_rt::Instant>::now();
        fail_where(waiting, |reader| reader.is_forwarded || reader.since + LEADERLESS_PATIENCE <= now, why);
        R::sleep(LOOK_AGAIN).await;
    }
}

fn fail_where<R: Runtime>(waiting: &mut Vec<Reader<R>>, is_hopeless: impl Fn(&Reader<R>) -> bool, why: &str) {
    for reader in std::mem::take(waiting) {
        match is_hopeless(&reader) {
            true => {
                let _ = reader.reply.send(Err(Unanswered::NoLeader(why.to_owned())));
            }
            false => waiting.push(reader),
        }
    }
}
