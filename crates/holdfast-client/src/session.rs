//! A session that keeps itself.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::Token;
use tokio::sync::watch;

use crate::acquire::fresh_token;
use crate::call::Pace;
use crate::client::Client;
use crate::error::CallError;
use crate::keeping::{self, Renewal, Task};
use crate::lease::local_deadline;
use crate::session_calls::SessionRef;
use crate::standing::{Keep, LossReason, Standing};

/// How long the end of a session that was dropped may take.
const DROPPED_END_TIMEOUT: Duration = Duration::from_secs(1);

/// What session to open.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    client: Client,
    owner: Option<String>,
    ttl: Option<Duration>,
}

impl SessionRequest {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, owner: None, ttl: None }
    }

    /// How long the session lives without renewal, 100 ms to 24 h. Default 30 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// A public label, 1 to 256 bytes. Default `anonymous`.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Opens a session. One whose answer took longer than its TTL is lost from the beginning.
    ///
    /// # Errors
    /// Every error means that there is no session, or one that nobody knows of, which is over with its TTL.
    pub async fn open(&self) -> Result<Session, CallError> {
        let token = fresh_token();
        let answer = self.client.open_session(&token, self.owner.clone(), self.ttl).await?;
        let ttl = Duration::from_millis(answer.ttl_ms).min(self.ttl.unwrap_or(Duration::MAX));
        let deadline = local_deadline(answer.sent, ttl);
        let keep = Arc::new(Keep {
            latest: std::sync::Mutex::new(None),
            client: self.client.clone(),
            ttl,
            session: None,
            standing: watch::Sender::new(Standing::Held { deadline }),
        });
        let session = SessionRef { id: answer.value.id, token };
        let renewal = Renewal::of_session(session.clone());
        Ok(Session {
            session,
            owner: answer.value.owner,
            renewing: Some(Task::spawn(keeping::renew(keep.clone(), renewal, answer.sent))),
            watching: Some(Task::spawn(keeping::watch_deadline(keep.clone()))),
            keep,
        })
    }
}

/// A session: one keep-alive for many locks. It renews itself in the background until its end, loss or drop.
///
/// Locks are acquired in it with [`LockRequest::session`](crate::LockRequest::session); their guards are lost when the
/// session is.
///
/// Dropping it ends it: the service is asked to, in the background. [`Session::end`] also tells whether it was done.
#[derive(Debug)]
#[must_use = "dropping a session ends it, and with it all that it holds"]
pub struct Session {
    session: SessionRef,
    owner: String,
    keep: Arc<Keep>,
    /// None since its end was asked for.
    renewing: Option<Task>,
    /// None once there is nothing to watch.
    watching: Option<Task>,
}

impl Session {
    /// Names the session. It is no secret.
    pub fn id(&self) -> &str {
        &self.session.id
    }

    /// The session's secret. Whoever has it can acquire in the session, renew it and end it.
    pub fn token(&self) -> &Token {
        &self.session.token
    }

    /// The public label.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The TTL that the service granted.
    pub fn ttl(&self) -> Duration {
        self.keep.ttl
    }

    /// Whether the session lives for certain at this moment.
    pub fn is_alive(&self) -> bool {
        matches!(self.keep.standing(), Standing::Held { .. })
    }

    /// How the session stands.
    pub fn standing(&self) -> Standing {
        self.keep.standing()
    }

    /// Returns when the session has ended: with the reason if it was lost, with none if it was ended.
    ///
    /// The future does not borrow the session. It may be given to another task.
    pub fn lost(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        self.keep.lost()
    }

    /// Ends the session: everything that it holds is free, and everything that it waits for is given up.
    ///
    /// Renewals stop before anything else happens. An end that fails or is cancelled may be asked for again.
    /// Returns how many locks it held.
    ///
    /// # Errors
    /// `session_expired` and `session_not_found` mean that it was lost before.
    pub async fn end(&mut self) -> Result<u64, CallError> {
        if let Some(renewing) = self.renewing.take() {
            renewing.stop().await;
        }
        let ended = self.keep.client.end_session(&self.session).await;
        match &ended {
            Ok(_) => self.keep.note_release(),
            Err(error) => LossReason::told_by(error).into_iter().for_each(|reason| self.keep.lose(reason)),
        }
        let ended = ended?;
        if let Some(watching) = self.watching.take() {
            watching.stop().await;
        }
        Ok(ended.released)
    }

    pub(crate) fn shown(&self) -> (SessionRef, Arc<Keep>) {
        (self.session.clone(), self.keep.clone())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_alive() {
            return;
        }
        self.keep.lose(LossReason::Dropped);
        // Without a runtime nobody can be asked: the session is over with its TTL.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, session) = (self.keep.client.clone(), self.session.clone());
        drop(runtime.spawn(async move {
            let pace = Pace::usual(client.after(DROPPED_END_TIMEOUT));
            if let Err(error) = client.end_session_at_pace(&session, pace).await {
                tracing::debug!(session = session.id, %error, "a dropped session was not ended; it is over with its TTL");
            }
        }));
    }
}
