//! From single commands to entries of the log: grouped by the leader, forwarded to it by everybody else.
//!
//! One driver owns all commands that are on their way at this node. It gives a group to the log, or a batch to the
//! leader, as soon as there is room for one more in flight; whatever arrives meanwhile makes the next one. A command
//! that comes back without effect, or with an unknown one, is tried again until its deadline: the rules make every
//! command safe to repeat.

mod driver;
pub(crate) mod forward;
mod submit;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_core::{EncodedOp, Op, Outcome};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::driver::Driver;
use crate::handle::Unanswered;
use crate::world::Runtime;

/// Most commands in one group or batch.
const GROUP_LEN_MAX: usize = 512;
/// A group or batch is closed once it has this many bytes.
const GROUP_BYTES_MAX: usize = 256 * 1024;
/// Groups that a leader has in flight.
const GROUPS_IN_FLIGHT_MAX: usize = 4;
/// Batches that a node has under way to the leader.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// Commands that wait in front of the driver.
const QUEUE_LEN_MAX: usize = 16_384;
/// For how long a command waits for somebody to lead before its caller is told that there is no leader.
const LEADERLESS_PATIENCE: Duration = Duration::from_millis(2_000);

/// A command on its way.
pub(crate) struct Pending<R: Runtime> {
    op: EncodedOp,
    since: R::Instant,
    deadline: R::Instant,
    /// Whether a try may have had an effect.
    is_tried: bool,
    /// It came from another node: it goes into this node's log or back.
    is_forwarded: bool,
    /// Only this node may put it into the log, and only while it leads in this term.
    only_in: Option<u64>,
    reply: oneshot::Sender<Result<Outcome, Unanswered>>,
}

impl<R: Runtime> Pending<R> {
    fn answer(self, outcome: Outcome) {
        let _ = self.reply.send(Ok(outcome)); // The caller may have gone.
    }

    /// Gives up: with an unknown outcome if it was ever tried.
    fn fail(self, why: &str) {
        let unanswered = match self.is_tried {
            true => Unanswered::UnknownOutcome(why.to_owned()),
            false => Unanswered::NoLeader(why.to_owned()),
        };
        let _ = self.reply.send(Err(unanswered));
    }
}

/// What the driver is asked for.
enum Request<R: Runtime> {
    Command(Pending<R>),
    /// An entry without commands, to move cluster time on.
    Tick,
}

/// Numbers for metrics.
#[derive(Debug, Default)]
pub(crate) struct ProposalStats {
    pub(crate) commands: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

/// Where commands go in. Cheap to clone.
pub(crate) struct Proposals<R: Runtime> {
    queue: mpsc::Sender<Request<R>>,
    pub(crate) stats: Arc<ProposalStats>,
}

impl<R: Runtime> Clone for Proposals<R> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), stats: self.stats.clone() }
    }
}

impl<R: Runtime> Proposals<R> {
    /// Proposes an operation and waits for its outcome, at most for `patience`.
    pub(crate) async fn propose(&self, op: &Op, patience: Duration) -> Result<Outcome, Unanswered> {
        self.stats.commands.fetch_add(1, Ordering::Relaxed);
        let told = self.enqueue(EncodedOp::new(op), patience, false, None)?;
        told.await.unwrap_or_else(|_| Err(Unanswered::UnknownOutcome("this node is shutting down".into())))
    }

    /// Proposes an operation that is right only in the term in which it was decided: it gets into the log under it, or
    /// not at all.
    pub(crate) async fn propose_in(&self, term: u64, op: &Op, patience: Duration) {
        self.stats.commands.fetch_add(1, Ordering::Relaxed);
        if let Ok(told) = self.enqueue(EncodedOp::new(op), patience, false, Some(term)) {
            let _ = told.await; // Whether it got there, the log tells.
        }
    }

    /// Takes commands that another node has forwarded.
    pub(crate) fn take_forwarded(
        &self,
        op: EncodedOp,
        patience: Duration,
    ) -> Result<oneshot::Receiver<Result<Outcome, Unanswered>>, Unanswered> {
        self.enqueue(op, patience, true, None)
    }

    fn enqueue(
        &self,
        op: EncodedOp,
        patience: Duration,
        is_forwarded: bool,
        only_in: Option<u64>,
    ) -> Result<oneshot::Receiver<Result<Outcome, Unanswered>>, Unanswered> {
        let (reply, told) = oneshot::channel();
        let since = <R::Instant as openraft_rt::Instant>::now();
        let deadline = since + patience;
        let pending = Pending { op, since, deadline, is_tried: false, is_forwarded, only_in, reply };
        match self.queue.try_send(Request::Command(pending)) {
            Ok(()) => Ok(told),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Unanswered::NoLeader("this node has too many commands under way".into()))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Unanswered::Closing),
        }
    }

    /// Moves cluster time on, if this node leads. Dropped if there is no room: then commands move it.
    pub(crate) fn tick(&self) {
        let _ = self.queue.try_send(Request::Tick);
    }
}
