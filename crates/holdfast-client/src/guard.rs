//! A lock that is held.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{Fenced, Token};
use holdfast_core::Run;
use tokio::sync::watch;

use crate::call::Pace;
use crate::client::Client;
use crate::clock::Moment;
use crate::error::{CallError, Refusal, Unanswered};
use crate::keeping::{self, Renewal, Task};
use crate::standing::{Keep, LossReason, Standing};
use crate::target::Target;

/// How long the release of a hold that is lost anyway may take.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a release was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The hold had ended before. There is nothing left to release; what was done under it may have been unprotected.
    #[error("the lock was lost: {0}")]
    Lost(LossReason),
    /// It may or may not be released. Call `release` again; otherwise the lease runs out by itself.
    #[error("the release was not confirmed: {0}")]
    Unanswered(Unanswered),
    /// The service refused it for another reason.
    #[error("the release was refused: {0}")]
    Refused(Box<Refusal>),
    /// Something that is no Holdfast answered.
    #[error("the release was not confirmed: unexpected answer: {0}")]
    Protocol(String),
}

/// A held lock, or many that are held under one token. It renews itself in the background, from its making until its release, loss or drop.
///
/// It must be given back with [`Guard::release`]. Dropping it without that only stops the renewals: the lock stays
/// taken until the lease has run out.
///
/// A lock that a session keeps ([`LockRequest::session`](crate::LockRequest::session)) is renewed and lost with its session.
#[derive(Debug)]
#[must_use = "dropping a guard leaves its lock taken until the lease has run out; release it"]
pub struct Guard {
    hold: Hold,
    keep: Arc<Keep>,
    /// None since a release was asked for, and where a session does it.
    renewing: Option<Task>,
    /// None once there is nothing to watch.
    watching: Option<Task>,
}

/// What was granted.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) target: Target,
    pub(crate) owner: String,
    pub(crate) token: Token,
    /// One at least.
    pub(crate) grants: Vec<Fenced>,
}

impl Hold {
    fn renewal(&self) -> Renewal {
        Renewal::Hold { target: self.target.clone(), token: self.token.clone() }
    }
}

impl Guard {
    /// Takes over a hold whose last successful request was sent at `sent`.
    pub(crate) fn keep(hold: Hold, keep: Keep, sent: Moment) -> Self {
        let keep = Arc::new(keep);
        Self {
            renewing: Some(Task::spawn(keeping::renew(keep.clone(), hold.renewal(), sent))),
            watching: Some(Task::spawn(keeping::watch_deadline(keep.clone()))),
            hold,
            keep,
        }
    }

    /// Takes over a hold that a session keeps.
    pub(crate) fn keep_in(hold: Hold, keep: Keep, session: Arc<Keep>) -> Self {
        let keep = Arc::new(keep);
        let watching = Some(Task::spawn(keeping::follow_session(keep.clone(), session)));
        Self { hold, keep, renewing: None, watching }
    }

    /// The lock's name; of many, the first one's.
    pub fn name(&self) -> &str {
        &self.hold.grants[0].name
    }

    /// All locks that it holds, in the order in which they were asked for, each with its fence.
    pub fn grants(&self) -> &[Fenced] {
        &self.hold.grants
    }

    /// The public label of this holder.
    pub fn owner(&self) -> &str {
        &self.hold.owner
    }

    /// The secret of this hold. Whoever has it can renew and release the lock.
    pub fn token(&self) -> &Token {
        &self.hold.token
    }

    /// The number to send along with every write that the lock protects. Higher than that of every earlier grant.
    /// Of many locks, the first one's: see [`Guard::grants`].
    pub fn fence(&self) -> u64 {
        self.hold.grants[0].fence
    }

    /// The TTL that the service granted, or how long the hold may last if that is shorter.
    pub fn ttl(&self) -> Duration {
        self.keep.ttl
    }

    /// Whether the lock is held for certain at this moment.
    pub fn is_held(&self) -> bool {
        matches!(self.keep.standing(), Standing::Held { .. })
    }

    /// How the hold stands.
    pub fn standing(&self) -> Standing {
        self.keep.standing()
    }

    /// Until when the lock is held for certain, as of now: the time the last successful request was sent, plus the
    /// TTL, minus [`safety_margin`](crate::safety_margin). None if it is not held any more.
    pub fn deadline(&self) -> Option<Moment> {
        match self.keep.standing() {
            Standing::Held { deadline } => Some(deadline),
            Standing::Lost(_) | Standing::Released => None,
        }
    }

    /// Until when the lock can be held at the longest ([`LockRequest::max_hold`](crate::LockRequest::max_hold)), on the
    /// same clock; none if it can be renewed for ever.
    pub fn latest(&self) -> Option<Moment> {
        self.keep.latest()
    }

    /// Returns when the hold has ended: with the reason if it was lost, with none if it was released.
    ///
    /// The future does not borrow the guard. It may be given to another task.
    pub fn lost(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        self.keep.lost()
    }

    /// All changes of how the hold stands: deadlines that move on, and the end.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.keep.standing.subscribe()
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(crate) fn kept(&self) -> &Keep {
        &self.keep
    }

    /// Stops the renewals while a call is under way that may end the hold: they would be told of its end first.
    pub(crate) async fn pause(&mut self) {
        if let Some(renewing) = self.renewing.take() {
            renewing.stop().await;
        }
    }

    /// Goes on renewing, at once; a session has gone on all the time.
    pub(crate) fn resume(&mut self) {
        let keep = &self.keep;
        if keep.session.is_none() {
            let due = keep.client.clock().now().before(keep.ttl / 3);
            self.renewing = Some(Task::spawn(keeping::renew(keep.clone(), self.hold.renewal(), due)));
        }
    }

    /// The hold has ended as its holder wished.
    pub(crate) async fn conclude(&mut self) {
        self.keep.note_release();
        if let Some(watching) = self.watching.take() {
            watching.stop().await;
        }
    }

    /// Gives the lock back.
    ///
    /// Renewals stop before anything else happens. A release that fails or is cancelled keeps the token: call it
    /// again. Until it is confirmed the lock counts as held up to the local deadline. After a loss it returns at
    /// once, or after one request that frees the lock in case the service still keeps it for us.
    ///
    /// # Errors
    /// [`ReleaseError::Lost`] if the hold had ended before.
    pub async fn release(&mut self) -> Result<(), ReleaseError> {
        self.release_run(Run::Open).await
    }

    /// The same, and the run that the lock was taken for is completed: with
    /// [`LockRequest::once`](crate::LockRequest::once) there is no other until its period is over.
    ///
    /// # Errors
    /// As [`Guard::release`]. A run whose lock was lost does not count as completed.
    pub async fn release_done(&mut self) -> Result<(), ReleaseError> {
        self.release_run(Run::Done).await
    }

    async fn release_run(&mut self, run: Run) -> Result<(), ReleaseError> {
        self.pause().await;
        let was_held = self.is_held();
        if was_held {
            self.release_held(run).await?;
        }
        if let Standing::Lost(reason) = self.keep.standing() {
            // The service may not know of the loss, and of many locks it has told that of one. One request, whatever
            // comes of it: the loss stands.
            let is_told_of_late = !was_held && matches!(reason, LossReason::Deadline | LossReason::MaxHold);
            if is_told_of_late || self.hold.grants.len() > 1 {
                give_back_once(&self.keep.client, &self.hold).await;
            }
        }
        if let Some(watching) = self.watching.take() {
            watching.stop().await;
        }
        match self.keep.standing() {
            Standing::Lost(reason) => Err(ReleaseError::Lost(reason)),
            Standing::Held { .. } | Standing::Released => Ok(()),
        }
    }

    async fn release_held(&self, run: Run) -> Result<(), ReleaseError> {
        let (hold, keep) = (&self.hold, &self.keep);
        let pace = Pace::usual(keep.client.after(keep.client.timeout()));
        match keep.client.release_target(&hold.target, &hold.token, run, pace).await {
            Ok(_) => keep.note_release(),
            Err(error) => match (LossReason::told_by(&error), error) {
                (Some(LossReason::Released), _) => keep.note_release(),
                (Some(reason), _) => keep.lose(reason),
                (None, CallError::Refused(refusal)) => return Err(ReleaseError::Refused(refusal)),
                (None, CallError::Unanswered(unanswered)) => {
                    return Err(ReleaseError::Unanswered(unanswered));
                }
                (None, CallError::Protocol(what)) => return Err(ReleaseError::Protocol(what)),
            },
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.keep.standing(), Standing::Held { .. }) {
            tracing::warn!(
                lock = self.name(),
                fence = self.fence(),
                "a guard was dropped without a release: its lock stays taken until the lease has run out or its session is over"
            );
            self.keep.lose(LossReason::Dropped);
        }
    }
}

/// Asks the service once to free what it still keeps for us, so that others need not wait for the end of a lease nobody
/// uses.
async fn give_back_once(client: &Client, hold: &Hold) {
    let pace =
        Pace { first_timeout: LATE_RELEASE_TIMEOUT, ..Pace::usual(client.after(LATE_RELEASE_TIMEOUT)) };
    if let Err(error) = client.give_back(&hold.target, &hold.token, pace).await {
        tracing::debug!(
            lock = hold.target.first(),
            %error,
            "a late release was not confirmed; the lease runs out by itself"
        );
    }
}
