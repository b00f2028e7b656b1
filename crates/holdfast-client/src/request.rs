//! Acquiring a lock that keeps itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_api::{ErrorCode, Fenced, Grant, GrantMany, HeldBy, Leadership, Token};
use holdfast_core::Owner;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::acquire::{Acquire, Share, Wait, checked_name};
use crate::call::{Answer, Pace};
use crate::client::Client;
use crate::clock::Moment;
use crate::error::{CallError, Refusal, Unanswered};
use crate::guard::{Guard, Hold};
use crate::lease::local_deadline;
use crate::session::Session;
use crate::standing::{Keep, LossReason, Standing};
use crate::target::{Renewed, Target};
use crate::terms::AlreadyDone;

/// How long the release of an attempt that is given up may take.
const GIVE_UP_TIMEOUT: Duration = Duration::from_millis(800);

/// Why a lock was not acquired. In none of these cases may the work that it protects begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// Somebody holds the lock, and the attempt does not wait.
    #[error("the lock is {}", busy_text(.holder.as_ref(), *.delay))]
    Busy {
        /// Who is in the way, if the service said so.
        holder: Option<HeldBy>,
        /// How many wait.
        queue_length: u64,
        /// After a holder was lost that had asked for a delay: what is left of that.
        delay: Option<Duration>,
    },
    /// The wait would close a cycle of waits: give back what is held of these locks, and take them again, all at once
    /// if possible.
    #[error("the wait would close a cycle of waits: {}", .cycle.join(", "))]
    Deadlock {
        /// The lock that was asked for, the one that whoever is in the way there waits for, and so on.
        cycle: Vec<String>,
    },
    /// Somebody has done it already in this period ([`LockRequest::once`]): there is nothing to do.
    #[error("{0}")]
    AlreadyDone(AlreadyDone),
    /// The wait ended without a grant.
    #[error("the wait ended without a grant")]
    WaitTimeout,
    /// It was granted, but the grant came too late to be of use.
    #[error("the lock was granted but lost before it could be used: {0}")]
    Lost(LossReason),
    /// The session that was to keep it is over.
    #[error("the session is over")]
    SessionOver,
    /// The caller's own signal ended the attempt.
    #[error("the attempt was given up")]
    Stopped,
    /// The service refused for another reason.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The cluster could not be reached, or had no leader, for as long as the call goes on trying.
    #[error("{0}")]
    Unreachable(Unanswered),
    /// Something that is no Holdfast answered.
    #[error("unexpected answer: {0}")]
    Protocol(String),
}

/// What was granted, of one lock or of many.
struct Won {
    sent: Moment,
    owner: String,
    token: Token,
    ttl_ms: u64,
    max_left_ms: Option<u64>,
    grants: Vec<Fenced>,
}

impl Won {
    fn one(answer: Answer<Grant>) -> Self {
        let Grant { name, owner, token, fence, ttl_ms, max_left_ms, .. } = answer.value;
        let grants = vec![Fenced { name, fence }];
        Self { sent: answer.sent, owner, token, ttl_ms, max_left_ms, grants }
    }

    fn hold(self, target: Target) -> Hold {
        Hold { target, owner: self.owner, token: self.token, grants: self.grants }
    }
}

fn busy_text(holder: Option<&HeldBy>, delay: Option<Duration>) -> String {
    match (holder, delay) {
        (_, Some(delay)) => format!("granted to nobody for {delay:?}, after its holder was lost"),
        (Some(holder), None) => format!("held by {:?} (fence {})", holder.owner, holder.fence),
        (None, None) => "held".into(),
    }
}

/// What to acquire and how. It can be used any number of times: each acquire is an attempt of its own.
#[derive(Clone, Debug)]
pub struct LockRequest {
    client: Client,
    locks: Locks,
    acquire: Acquire,
    session: Option<Arc<Keep>>,
}

#[derive(Clone, Debug)]
enum Locks {
    One(String),
    /// With the value.
    Election(String, Value),
    /// Those without a share of their own have that of the request.
    Many(Vec<(String, Option<Share>)>),
}

impl LockRequest {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, locks: Locks::One(name), acquire: Acquire::default(), session: None }
    }

    pub(crate) fn many(client: Client, names: Vec<String>) -> Self {
        let locks = Locks::Many(names.into_iter().map(|name| (name, None)).collect());
        Self { client, locks, acquire: Acquire::default(), session: None }
    }

    /// As the election of that name, with this value.
    #[must_use]
    pub(crate) fn leading(mut self, name: String, value: Value) -> Self {
        self.locks = Locks::Election(name, value);
        self
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// One more lock, with a share of its own: all are acquired or none. At most 64; many have no metadata.
    #[must_use]
    pub fn also(mut self, name: impl Into<String>, share: Share) -> Self {
        let mut locks = match self.locks {
            Locks::One(name) | Locks::Election(name, _) => vec![(name, None)],
            Locks::Many(locks) => locks,
        };
        locks.push((name.into(), Some(share)));
        self.locks = Locks::Many(locks);
        self
    }

    /// How long the lease lasts without renewal, 100 ms to 24 h. Default 30 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.acquire.ttl = Some(ttl);
        self
    }

    /// How long to wait for a busy lock. Default: not at all.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.acquire.wait = if wait.is_zero() { Wait::No } else { Wait::AtMost(wait) };
        self
    }

    /// Waits for a busy lock until it is granted.
    #[must_use]
    pub fn wait_forever(mut self) -> Self {
        self.acquire.wait = Wait::Forever;
        self
    }

    /// A public label, 1 to 256 bytes. Default `anonymous`.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.acquire.owner = Some(owner.into());
        self
    }

    /// What the holder says about itself, at most 1024 bytes of JSON.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.acquire.metadata = metadata;
        self
    }

    /// Lets a session keep the lock, instead of a lease of its own: do not name a TTL then. The guard is lost when the
    /// session is; an operator who ends this hold alone is noticed at its release.
    #[must_use]
    pub fn session(mut self, session: &Session) -> Self {
        let (shown, keep) = session.shown();
        self.acquire.session = Some(shown);
        self.session = Some(keep);
        self
    }

    /// How much of the lock to take; of many, of all but those that were added with their own. Default: all of it.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.acquire.share = share;
        self
    }

    /// Takes the lock beside others that share it.
    #[must_use]
    pub fn shared(self) -> Self {
        self.share(Share::Shared)
    }

    /// Takes some of the lock's permits, 1 to `limit`. Everybody has to name the same limit, 1 to 1,000,000.
    #[must_use]
    pub fn permits(self, permits: u32, limit: u32) -> Self {
        self.share(Share::Permits { limit, permits })
    }

    /// After the hold has expired, or an operator has ended it, nobody is granted the lock for this long: for work that
    /// may go on for a while although its lock is lost. At most 5 minutes. Not of many locks at once, as the next three.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.acquire.terms.delay = Some(delay);
        self
    }

    /// A release takes effect no earlier than this long after the grant. At most 24 h.
    #[must_use]
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.acquire.terms.min_hold = Some(min_hold);
        self
    }

    /// The hold is over this long after the grant, however it is renewed: then the guard is lost. 100 ms to 366 days.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.acquire.terms.max_hold = Some(max_hold);
        self
    }

    /// Once per period: where a run was completed ([`Guard::release_done`]) within its period, counted from its grant,
    /// the acquire ends with [`AcquireError::AlreadyDone`]. 1 s to 366 days.
    #[must_use]
    pub fn once(mut self, period: Duration) -> Self {
        self.acquire.terms.once = Some(period);
        self
    }

    /// Acquires the lock.
    ///
    /// Cancelling it closes the connection, which makes the service take the attempt back; a grant that was on its
    /// way at that moment runs out with its TTL.
    ///
    /// # Errors
    /// Every error means that the lock is not held.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_until(std::future::pending()).await
    }

    /// Acquires the lock, unless `stop` comes first: then the place in the queue, or a grant that was on its way,
    /// is given back within a second, and the result is [`AcquireError::Stopped`].
    ///
    /// # Errors
    /// As [`LockRequest::acquire`].
    pub async fn acquire_until(&self, stop: impl Future<Output = ()>) -> Result<Guard, AcquireError> {
        let target = self.target().map_err(|error| self.explain(error))?;
        let in_use = Mutex::new(None);
        let work = async {
            let won = self.win(&target, &in_use).await.map_err(|error| self.explain(error))?;
            self.secure(target.clone(), won).await
        };
        tokio::select! {
            biased;
            () = stop => {}
            result = work => return result,
        }
        let token = in_use.into_inner().expect("nothing panics while it holds this");
        if let Some(token) = token {
            self.give_back(&target, &token).await;
        }
        Err(AcquireError::Stopped)
    }

    fn target(&self) -> Result<Target, CallError> {
        match &self.locks {
            Locks::One(name) => checked_name(name).map(Target::One),
            Locks::Election(name, value) => Ok(Target::Election(checked_name(name)?, value.clone())),
            Locks::Many(locks) => {
                let share = |share: &Option<Share>| share.unwrap_or(self.acquire.share);
                Target::many(locks.iter().map(|(name, own)| (name.as_str(), share(own))))
            }
        }
    }

    async fn win(&self, target: &Target, in_use: &Mutex<Option<Token>>) -> Result<Won, CallError> {
        let (client, acquire) = (&self.client, &self.acquire);
        match target {
            Target::One(_) => {
                let answer = client.acquire_noting_token::<Grant>(target, acquire, in_use).await?;
                Ok(Won::one(answer))
            }
            Target::Election(..) => {
                let answer = client.acquire_noting_token::<Leadership>(target, acquire, in_use).await?;
                Ok(Won::one(answer.map(Grant::from)))
            }
            Target::Many(_) => {
                let answer = client.acquire_noting_token::<GrantMany>(target, acquire, in_use).await?;
                let owner = acquire.owner.clone().unwrap_or_else(|| Owner::ANONYMOUS.into());
                let GrantMany { token, ttl_ms, grants, .. } = answer.value;
                Ok(Won { sent: answer.sent, owner, token, ttl_ms, max_left_ms: None, grants })
            }
        }
    }

    /// Makes a guard of a grant, if the lease is certain to last on from here.
    ///
    /// A grant out of the queue may have come long after its request was sent. Then a renewal shows how the lease
    /// stands. Any other grant that comes after its own deadline is lost.
    async fn secure(&self, target: Target, won: Won) -> Result<Guard, AcquireError> {
        if let Some(session) = &self.session {
            return self.secure_in(session, target, won).await;
        }
        let ttl = Duration::from_millis(won.ttl_ms).min(self.acquire.ttl.unwrap_or(Duration::MAX));
        let mut max_left_ms = won.max_left_ms;
        let ttl = max_left_ms.map_or(ttl, |left| ttl.min(Duration::from_millis(left)));
        let mut sent = won.sent;
        let clock = self.client.clock();
        let left = local_deadline(sent, ttl).since(clock.now());
        if self.acquire.wait != Wait::No
            && left < ttl / 2
            && let Some(renewed) = self.confirm(&target, &won.token, ttl).await?
        {
            (sent, max_left_ms) = (renewed.sent, renewed.max_left_ms);
        }
        let left = max_left_ms.map_or(ttl, |left| ttl.min(Duration::from_millis(left)));
        let deadline = local_deadline(sent, left);
        if clock.now() >= deadline {
            self.give_back(&target, &won.token).await;
            return Err(AcquireError::Lost(LossReason::Deadline));
        }
        let keep = self.keep(ttl, deadline);
        keep.bound(sent, max_left_ms);
        Ok(Guard::keep(won.hold(target), keep, sent))
    }

    /// Makes a guard of a grant in a session, if that lives for certain from here.
    async fn secure_in(&self, session: &Arc<Keep>, target: Target, won: Won) -> Result<Guard, AcquireError> {
        let Standing::Held { deadline } = session.standing() else {
            self.give_back(&target, &won.token).await;
            return Err(AcquireError::Lost(LossReason::Session));
        };
        let (mut sent, mut max_left_ms, mut ttl) = (won.sent, won.max_left_ms, session.ttl);
        if let Some(left) = max_left_ms {
            ttl = ttl.min(Duration::from_millis(left));
            if self.acquire.wait != Wait::No
                && let Some(renewed) = self.confirm(&target, &won.token, ttl).await?
            {
                (sent, max_left_ms) = (renewed.sent, renewed.max_left_ms);
            }
        }
        let latest = max_left_ms.map(|left| local_deadline(sent, Duration::from_millis(left)));
        let keep = self.keep(ttl, latest.map_or(deadline, |latest| latest.min(deadline)));
        keep.bound(sent, max_left_ms);
        Ok(Guard::keep_in(won.hold(target), keep, session.clone()))
    }

    fn keep(&self, ttl: Duration, deadline: Moment) -> Keep {
        Keep {
            client: self.client.clone(),
            ttl,
            session: self.session.clone(),
            standing: watch::Sender::new(Standing::Held { deadline }),
            latest: Mutex::new(None),
        }
    }

    /// A renewal that was confirmed; none if none was in time.
    async fn confirm(
        &self,
        target: &Target,
        token: &Token,
        ttl: Duration,
    ) -> Result<Option<Renewed>, AcquireError> {
        let until = local_deadline(self.client.clock().now(), ttl);
        match self.client.renew_target(target, token, Pace::renewal(until, ttl)).await {
            Ok(renewed) => Ok(Some(renewed)),
            Err(error) => match LossReason::told_by(&error) {
                Some(reason) => Err(AcquireError::Lost(reason)),
                None => Ok(None),
            },
        }
    }

    /// Takes the attempt back, as far as that is possible at once. What is left of it ends by itself.
    async fn give_back(&self, target: &Target, token: &Token) {
        let pace = Pace::usual(self.client.after(GIVE_UP_TIMEOUT));
        let release = self.client.give_back(target, token, pace);
        if let Ok(Err(error)) = tokio::time::timeout(GIVE_UP_TIMEOUT, release).await {
            tracing::debug!(lock = target.first(), %error, "an attempt could not be taken back; it ends by itself");
        }
    }

    fn note_session_over(&self) -> AcquireError {
        self.session.iter().for_each(|session| session.lose(LossReason::Expired));
        AcquireError::SessionOver
    }

    fn explain(&self, error: CallError) -> AcquireError {
        match error {
            CallError::Refused(refusal) => match refusal.code {
                Some(ErrorCode::Held) if self.acquire.wait == Wait::No => AcquireError::Busy {
                    holder: refusal.holder,
                    queue_length: refusal.queue_length.unwrap_or(0),
                    delay: refusal.delay,
                },
                Some(ErrorCode::Held | ErrorCode::WaitTimeout) => AcquireError::WaitTimeout,
                Some(ErrorCode::Deadlock) => AcquireError::Deadlock { cycle: refusal.cycle },
                Some(ErrorCode::AlreadyDone) => match refusal.already_done.clone() {
                    Some(done) => AcquireError::AlreadyDone(done),
                    None => AcquireError::Refused(refusal),
                },
                Some(ErrorCode::LeaseExpired) => AcquireError::Lost(LossReason::Expired),
                Some(ErrorCode::LeaseReleased) => AcquireError::Lost(LossReason::Released),
                Some(ErrorCode::LeaseForced) => AcquireError::Lost(LossReason::Forced),
                Some(ErrorCode::SessionExpired) => self.note_session_over(),
                _ => AcquireError::Refused(refusal),
            },
            CallError::Unanswered(unanswered) => AcquireError::Unreachable(unanswered),
            CallError::Protocol(what) => AcquireError::Protocol(what),
        }
    }
}
