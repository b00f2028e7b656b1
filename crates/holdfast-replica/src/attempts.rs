//! One acquire call, from the client's connection to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_core::planted::{Bug, planted};
use holdfast_core::{
    Acquire, AcquireMany, AcquireOnTerms, Answer, AttemptKey, Cause, Grant, Home, Item, LockName, LockTable,
    ManyGrant, NodeId as CoreNodeId, Op, Place, Rejection, Several, Share, Standing, Wait,
};
use openraft_rt::{Instant as _, Select2};
use tokio::sync::mpsc;

use crate::effects::Position;
use crate::handle::{Acquired, Attempt, CALL_TIMEOUT, CallFailure, ManyAttempt, Unanswered};
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
    Over(Acquired<Answer>),
    /// There is more to come.
    Waiting,
    /// It waited for more permits than there are now.
    LimitChanged,
    /// It waited to make a run that somebody else has completed.
    AlreadyDone,
    /// A grant that has to be claimed first.
    Claim(Grant, Position),
}

impl<R: Runtime> Call<R> {
    /// Of an attempt at many locks it is the first that is spoken of.
    fn begin(
        inner: Arc<Inner<R>>,
        Place { lock, key }: Place,
        wait: Wait,
    ) -> (Self, Option<mpsc::UnboundedReceiver<Notice>>) {
        let call = inner.next_call.fetch_add(1, Ordering::Relaxed);
        let home = Home { node: CoreNodeId(inner.node_id), boot: inner.boot, call };
        let waits = wait.ms() > 0;
        let told = waits.then(|| inner.effects.waiters.register(key, lock.clone(), call));
        (Self { inner, lock, key, home, is_registered: waits, is_armed: true }, told)
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

impl<G> Acquired<G> {
    fn map<T>(self, told: impl FnOnce(G) -> T) -> Acquired<T> {
        match self {
            Self::Granted(grant) => Acquired::Granted(told(grant)),
            Self::WaitTimeout => Acquired::WaitTimeout,
            Self::Ended(rejection) => Acquired::Ended(rejection),
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
    let place = Place { lock: attempt.lock.clone(), key: attempt.key };
    let (call, told) = Call::begin(inner, place, attempt.wait);
    let acquire = Acquire {
        lock: attempt.lock,
        key: attempt.key,
        owner: attempt.owner,
        ttl: attempt.ttl,
        wait: attempt.wait,
        metadata: attempt.metadata,
        home: call.home,
    };
    let (share, session, terms) = (attempt.share, attempt.session, attempt.terms);
    let op = match (session, share) {
        _ if !terms.is_plain() => {
            Op::AcquireOnTerms(Box::new(AcquireOnTerms { acquire, share, session, terms }))
        }
        (Some(session), share) => Op::AcquireInSession(acquire, share, session),
        (None, Share::Exclusive) => Op::Acquire(acquire),
        (None, share) => Op::AcquireShare(acquire, share),
    };
    let (acquired, delivery) = follow(call, &op, attempt.wait, told).await?;
    Ok((acquired.map(only_grant), delivery))
}

fn only_grant(answer: Answer) -> Grant {
    match answer {
        Answer::Granted(grant) => grant,
        answer => unreachable!("an acquire is not answered with {answer:?}"),
    }
}

/// Takes all of the locks, or waits for them.
pub(crate) async fn acquire_many<R: Runtime>(
    inner: Arc<Inner<R>>,
    attempt: ManyAttempt,
) -> Result<(Acquired<ManyGrant>, Delivery), CallFailure> {
    inner.check_open()?;
    inner.check_space()?;
    let items = attempt.items.clone();
    let (call, told) = Call::begin(inner.clone(), items.first().place.clone(), attempt.wait);
    let ManyAttempt { key, items: asked, owner, ttl, wait } = attempt;
    let op = Op::AcquireMany(AcquireMany { key, items: asked, owner, ttl, wait, home: call.home });
    let (acquired, delivery) = follow(call, &op, wait, told).await?;
    let acquired = match acquired {
        Acquired::Granted(Answer::GrantedMany(grant)) => Acquired::Granted(grant),
        Acquired::Granted(answer) => {
            let first = only_grant(answer);
            inner.machine.look(|state| all_of(&state.table, &items, &first))
        }
        Acquired::WaitTimeout => Acquired::WaitTimeout,
        Acquired::Ended(Rejection::LimitConflict { .. }) => {
            Acquired::Ended(inner.machine.look(|state| changed_limit(&state.table, &items)))
        }
        Acquired::Ended(rejection) => Acquired::Ended(rejection),
    };
    Ok((acquired, delivery))
}

/// A grant from the queue is told by its first lock: this is the whole of it, unless some of it has ended meanwhile.
fn all_of(table: &LockTable, items: &Several<Item>, first: &Grant) -> Acquired<ManyGrant> {
    let mut fences = Vec::new();
    for Item { place, .. } in items.iter() {
        match table.standing(&place.lock, &place.key) {
            Standing::Held(grant) => fences.push((place.lock.clone(), grant.fence)),
            Standing::Ended(Cause::Expired) => return Acquired::Ended(Rejection::LeaseExpired),
            Standing::Ended(Cause::Forced) => return Acquired::Ended(Rejection::LeaseForced),
            Standing::Ended(_) | Standing::Queued | Standing::Unknown => {
                return Acquired::Ended(Rejection::LeaseReleased);
            }
        }
    }
    Acquired::Granted(ManyGrant { fences, ttl: first.ttl, expires_in_ms: first.expires_in_ms })
}

/// It waited for more permits of one of the locks than there are now.
fn changed_limit(table: &LockTable, items: &Several<Item>) -> Rejection {
    let limit = |item: &Item| table.limit_of(&item.place.lock);
    let changed = items.iter().find(|item| item.share.limit() != limit(item)).unwrap_or(items.first());
    let why = Rejection::LimitConflict { limit: limit(changed) };
    Rejection::Of { lock: changed.place.lock.clone(), why: Box::new(why) }
}

/// Follows a call until its client can be told.
async fn follow<R: Runtime>(
    mut call: Call<R>,
    op: &Op,
    wait: Wait,
    told: Option<mpsc::UnboundedReceiver<Notice>>,
) -> Result<(Acquired<Answer>, Delivery), CallFailure> {
    let deadline = R::Instant::now() + Duration::from_millis(wait.ms()) + CALL_TIMEOUT;
    let answer = {
        let work = attend(&call, op, told);
        let drained = call.inner.drained();
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
) -> Result<Acquired<Answer>, CallFailure> {
    let outcome = call.inner.proposals.propose(op, CALL_TIMEOUT).await;
    match (outcome??, told) {
        (answer @ (Answer::Granted(_) | Answer::GrantedMany(_)), told) => {
            if told.is_some() {
                call.inner.effects.waiters.note_told(call.home.call);
            }
            Ok(Acquired::Granted(answer))
        }
        (Answer::Queued { .. }, Some(told)) => wait_in_queue(call, told).await,
        (answer, _) => unreachable!("an acquire is not answered with {answer:?}"),
    }
}

async fn wait_in_queue<R: Runtime>(
    call: &Call<R>,
    mut told: mpsc::UnboundedReceiver<Notice>,
) -> Result<Acquired<Answer>, CallFailure> {
    let mut notice = told.recv().await;
    loop {
        notice = match on_notice(notice.ok_or(Unanswered::Closing)?) {
            Step::Over(acquired) => return Ok(acquired),
            Step::Waiting => told.recv().await,
            Step::LimitChanged => {
                let limit = call.inner.machine.look(|state| state.table.limit_of(&call.lock));
                return Ok(Acquired::Ended(Rejection::LimitConflict { limit }));
            }
            Step::AlreadyDone => {
                let done = call.inner.machine.look(|state| state.table.already_done(&call.lock));
                // Its period may be over by now; the attempt has left the queue all the same.
                return Ok(done.map_or(Acquired::WaitTimeout, Acquired::Ended));
            }
            Step::Claim(grant, at) => {
                let since = R::Instant::now();
                match R::select2(call.claim(&grant, at), told.recv()).await {
                    Select2::First(ClaimReply::Confirmed) => {
                        let grant = aged(grant, R::Instant::now() - since);
                        return Ok(Acquired::Granted(Answer::Granted(grant)));
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
    grant.max_left_ms = grant.max_left_ms.map(|left| left.saturating_sub(age_ms));
    grant
}

fn on_notice(notice: Notice) -> Step {
    match notice {
        Notice::Acquired { grant, at, from_queue: true } => Step::Claim(grant, at),
        // The outcome of the command itself tells the same.
        Notice::Acquired { from_queue: false, .. } => Step::Waiting,
        Notice::Left(Cause::WaitTimeout) => Step::Over(Acquired::WaitTimeout),
        Notice::Left(Cause::LimitChanged) => Step::LimitChanged,
        Notice::Left(Cause::AlreadyDone) => Step::AlreadyDone,
        // Its client was told of no grant yet.
        Notice::Left(Cause::SessionExpired | Cause::SessionEnded)
        | Notice::Ended(Cause::SessionExpired | Cause::SessionEnded) => {
            Step::Over(Acquired::Ended(Rejection::SessionExpired))
        }
        Notice::Left(Cause::Forced) => Step::Over(Acquired::Ended(Rejection::LeaseForced)),
        Notice::Left(_) => Step::Over(Acquired::Ended(Rejection::LeaseReleased)),
        // It is back in the queue.
        Notice::Ended(Cause::Unclaimed) => Step::Waiting,
        Notice::Ended(Cause::Expired) => Step::Over(Acquired::Ended(Rejection::LeaseExpired)),
        Notice::Ended(Cause::Forced) => Step::Over(Acquired::Ended(Rejection::LeaseForced)),
        Notice::Ended(Cause::HandedOver) => Step::Over(Acquired::Ended(Rejection::HandedOver)),
        Notice::Ended(
            Cause::Released
            | Cause::Abandoned
            | Cause::WaitTimeout
            | Cause::LimitChanged
            | Cause::AlreadyDone,
        ) => Step::Over(Acquired::Ended(Rejection::LeaseReleased)),
    }
}
