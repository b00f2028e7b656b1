//! One acquire call, from the client's connection to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_core::planted::{Bug, planted};
use holdfast_core::{
    Acquire, Answer, AttemptKey, Cause, Grant, Home, LockName, NodeId as CoreNodeId, Op, Rejection, Share,
};
use openraft_rt::{Instant as _, Select2};
use tokio::sync::mpsc;

use crate::effects::Position;
use crate::handle::{Acquired, Attempt, CALL_TIMEOUT, CallFailure, Unanswered};
use crate::replica::Inner;
use crate::waiters::Notice;
use crate::wire::{self, ClaimCall, ClaimReply};
use crate::world::{CallKind, PeerLane, Runtime};

/// One try to claim a grant; another follows.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(700);
const CLAIM_AGAIN: Duration = Duration::from_millis(30);

/// The answer to an attempt on its way to the client.
///
/// Dropped without [`Delivery::delivered`], it means that the client has hung up: a grant that nobody was told of is
/// given up at once.
#[must_use = "dropping it gives the grant up"]
pub struct Delivery(Box<dyn Undelivered>);

/// What happens to an answer that could not be delivered.
trait Undelivered: Send + Sync {
    /// The client was told: it keeps what it has.
    fn disarm(&mut self);
}

impl Delivery {
    /// The answer has been handed to the client's connection.
    pub fn delivered(mut self) {
        self.0.disarm();
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Delivery")
    }
}

/// The client's end of an attempt. Dropping it while it is armed gives the attempt up.
struct Call<R: Runtime> {
    inner: Arc<Inner<R>>,
    lock: LockName,
    key: AttemptKey,
    home: Home,
    is_registered: bool,
    is_armed: bool,
}

impl<R: Runtime> Undelivered for Call<R> {
    fn disarm(&mut self) {
        self.is_armed = false;
    }
}

impl<R: Runtime> Drop for Call<R> {
    fn drop(&mut self) {
        if self.is_registered {
            self.inner.effects.waiters.deregister(&self.key, self.home.call);
        }
        if self.is_armed {
            self.inner.run_errand(Op::Abandon { lock: self.lock.clone(), key: self.key, home: self.home });
        }
    }
}

/// What a step of waiting came to.
enum Step {
    /// The client can be told.
    Over(Acquired),
    /// There is more to come.
    Waiting,
    /// It waited for more permits than there are now.
    LimitChanged,
    /// A grant that has to be claimed first.
    Claim(Grant, Position),
}

impl<R: Runtime> Call<R> {
    fn begin(inner: Arc<Inner<R>>, attempt: &Attempt) -> (Self, Option<mpsc::UnboundedReceiver<Notice>>) {
        let call = inner.next_call.fetch_add(1, Ordering::Relaxed);
        let home = Home { node: CoreNodeId(inner.node_id), boot: inner.boot, call };
        let waits = attempt.wait.ms() > 0;
        let told = waits.then(|| inner.effects.waiters.register(attempt.key, attempt.lock.clone(), call));
        let call = Self {
            inner,
            lock: attempt.lock.clone(),
            key: attempt.key,
            home,
            is_registered: waits,
            is_armed: true,
        };
        (call, told)
    }

    /// Asks the leader until it knows whether a grant from the queue stands.
    async fn claim(&self, grant: &Grant, at: Position) -> ClaimReply {
        if planted(Bug::ClaimNotConfirmed) {
            return ClaimReply::Confirmed;
        }
        let call = ClaimCall { lock: self.lock.clone(), fence: grant.fence, index: at.index };
        loop {
            let reply = self.inner.claim_once(&call).await;
            if reply != ClaimReply::NotLeader {
                return reply;
            }
            R::sleep(CLAIM_AGAIN).await;
        }
    }
}

impl<R: Runtime> Inner<R> {
    async fn claim_once(&self, call: &ClaimCall) -> ClaimReply {
        match self.leadership.leader() {
            crate::leadership::Leader::Me(_) => self.answer_claim(call).await,
            crate::leadership::Leader::Other(leader) => {
                let body = wire::encode(call);
                let lane = PeerLane::Forward;
                let answer = self.transport.call(&leader, lane, CallKind::Claim, body, CLAIM_TIMEOUT).await;
                answer.ok().and_then(|bytes| wire::decode(&bytes)).unwrap_or(ClaimReply::NotLeader)
            }
            crate::leadership::Leader::Nobody(_) => ClaimReply::NotLeader,
        }
    }
}

/// Takes the lock, or waits for it.
pub(crate) async fn acquire<R: Runtime>(
    inner: Arc<Inner<R>>,
    attempt: Attempt,
) -> Result<(Acquired, Delivery), CallFailure> {
    inner.check_open()?;
    inner.check_space()?;
    let deadline = R::Instant::now() + Duration::from_millis(attempt.wait.ms()) + CALL_TIMEOUT;
    let (mut call, told) = Call::begin(inner.clone(), &attempt);
    let acquire = Acquire {
        lock: attempt.lock,
        key: attempt.key,
        owner: attempt.owner,
        ttl: attempt.ttl,
        wait: attempt.wait,
        metadata: attempt.metadata,
        home: call.home,
    };
    let op = match (attempt.session, attempt.share) {
        (Some(session), share) => Op::AcquireInSession(acquire, share, session),
        (None, Share::Exclusive) => Op::Acquire(acquire),
        (None, share) => Op::AcquireShare(acquire, share),
    };
    let answer = {
        let work = attend(&call, &op, told);
        let drained = inner.drained();
        let work = R::timeout_at(deadline, R::select2(work, drained)).await;
        match work {
            Ok(Select2::First(answer)) => answer,
            Ok(Select2::Second(())) => {
                Err(Unanswered::UnknownOutcome("this node is shutting down".into()).into())
            }
            Err(_) => Err(Unanswered::UnknownOutcome("no answer came in time".into()).into()),
        }
    };
    match answer {
        Ok(acquired) => {
            if !matches!(acquired, Acquired::Granted(_)) {
                call.disarm();
            }
            Ok((acquired, Delivery(Box::new(call))))
        }
        Err(failure) => {
            // Rejected: it has nothing. Unanswered: the client is asked to come back with the same token.
            call.disarm();
            Err(failure)
        }
    }
}

/// Proposes the attempt and follows it until the client can be told.
async fn attend<R: Runtime>(
    call: &Call<R>,
    op: &Op,
    told: Option<mpsc::UnboundedReceiver<Notice>>,
) -> Result<Acquired, CallFailure> {
    let outcome = call.inner.proposals.propose(op, CALL_TIMEOUT).await;
    match (outcome??, told) {
        (Answer::Granted(grant), told) => {
            if told.is_some() {
                call.inner.effects.waiters.note_told(call.home.call);
            }
            Ok(Acquired::Granted(grant))
        }
        (Answer::Queued { .. }, Some(told)) => wait_in_queue(call, told).await,
        (answer, _) => unreachable!("an acquire is not answered with {answer:?}"),
    }
}

async fn wait_in_queue<R: Runtime>(
    call: &Call<R>,
    mut told: mpsc::UnboundedReceiver<Notice>,
) -> Result<Acquired, CallFailure> {
    let mut notice = told.recv().await;
    loop {
        notice = match on_notice(notice.ok_or(Unanswered::Closing)?) {
            Step::Over(acquired) => return Ok(acquired),
            Step::Waiting => told.recv().await,
            Step::LimitChanged => {
                let limit = call.inner.machine.look(|state| state.table.limit_of(&call.lock));
                return Ok(Acquired::Ended(Rejection::LimitConflict { limit }));
            }
            Step::Claim(grant, at) => {
                let since = R::Instant::now();
                match R::select2(call.claim(&grant, at), told.recv()).await {
                    Select2::First(ClaimReply::Confirmed) => {
                        return Ok(Acquired::Granted(aged(grant, R::Instant::now() - since)));
                    }
                    // It is being taken back or is over: the log will tell.
                    Select2::First(ClaimReply::Refused | ClaimReply::NotLeader) => told.recv().await,
                    Select2::Second(next) => next,
                }
            }
        };
    }
}

fn aged(mut grant: Grant, age: Duration) -> Grant {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    grant.expires_in_ms = grant.expires_in_ms.saturating_sub(age_ms);
    grant
}

fn on_notice(notice: Notice) -> Step {
    match notice {
        Notice::Acquired { grant, at, from_queue: true } => Step::Claim(grant, at),
        // The outcome of the command itself tells the same.
        Notice::Acquired { from_queue: false, .. } => Step::Waiting,
        Notice::Left(Cause::WaitTimeout) => Step::Over(Acquired::WaitTimeout),
        Notice::Left(Cause::LimitChanged) => Step::LimitChanged,
        // Its client was told of no grant yet.
        Notice::Left(Cause::SessionExpired | Cause::SessionEnded)
        | Notice::Ended(Cause::SessionExpired | Cause::SessionEnded) => {
            Step::Over(Acquired::Ended(Rejection::SessionExpired))
        }
        Notice::Left(_) => Step::Over(Acquired::Ended(Rejection::LeaseReleased)),
        // It is back in the queue.
        Notice::Ended(Cause::Unclaimed) => Step::Waiting,
        Notice::Ended(Cause::Expired) => Step::Over(Acquired::Ended(Rejection::LeaseExpired)),
        Notice::Ended(Cause::Forced) => Step::Over(Acquired::Ended(Rejection::LeaseForced)),
        Notice::Ended(Cause::Released | Cause::Abandoned | Cause::WaitTimeout | Cause::LimitChanged) => {
            Step::Over(Acquired::Ended(Rejection::LeaseReleased))
        }
    }
}
