//! The two tasks behind a guard of a lock or a session: one renews the lease, the other watches the local deadline.
//! A guard of a lock that a session keeps has one, which follows the session.
//!
//! They are apart so that the loss is told in time whatever the renewal is doing, and also after it was stopped.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::Token;
use tokio::task::JoinHandle;

use crate::backoff::{self, Backoff};
use crate::call::Pace;
use crate::client::Client;
use crate::clock::Moment;
use crate::error::CallError;
use crate::lease::local_deadline;
use crate::session_calls::{SessionRef, renew_session_request};
use crate::standing::{Keep, LossReason, Standing};
use crate::target::{Renewed, Target};
use crate::transport::Outgoing;

/// A spawned task that ends with its owner.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Returns when the task does nothing any more.
    pub(crate) async fn stop(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await; // Cancelled, as it was told, or over before that.
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the loss at the local deadline, wherever renewals have moved it by then.
pub(crate) async fn watch_deadline(keep: Arc<Keep>) {
    let mut standing = keep.standing.subscribe();
    loop {
        let Standing::Held { deadline } = keep.standing() else { return };
        standing.mark_unchanged();
        tokio::select! {
            () = keep.client.clock().sleep_until(deadline) => {}
            _ = standing.changed() => {}
        }
    }
}

/// Tells the loss of the session as the loss of what it keeps.
pub(crate) async fn follow_session(keep: Arc<Keep>, session: Arc<Keep>) {
    let mut of_session = session.standing.subscribe();
    while let Standing::Held { deadline } = keep.standing() {
        tokio::select! {
            changed = of_session.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            // The session may go on for longer than the hold.
            () = keep.client.clock().sleep_until(deadline), if keep.latest().is_some() => {}
        }
    }
}

/// How a lease is renewed.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// Of what a guard holds.
    Hold { target: Target, token: Token },
    /// Of a session.
    Session { outgoing: Outgoing, session: SessionRef },
}

impl Renewal {
    pub(crate) fn of_session(session: SessionRef) -> Self {
        Self::Session { outgoing: renew_session_request(&session), session }
    }

    /// The lock's name, or the session's id.
    fn name(&self) -> &str {
        match self {
            Self::Hold { target, .. } => target.first(),
            Self::Session { session, .. } => &session.id,
        }
    }

    /// What was confirmed.
    async fn run(&self, client: &Client, pace: Pace) -> Result<Renewed, CallError> {
        match self {
            Self::Hold { target, token } => client.renew_target(target, token, pace).await,
            Self::Session { outgoing, session } => {
                let renewed = client.keep_session(outgoing, session, pace).await?;
                Ok(Renewed { sent: renewed.sent, ttl_ms: renewed.ttl_ms, max_left_ms: None })
            }
        }
    }
}

/// Renews every third of the TTL, and goes on trying until the lease has ended. One renewal at a time.
pub(crate) async fn renew(keep: Arc<Keep>, renewal: Renewal, first_sent: Moment) {
    let clock = keep.client.clock();
    let mut next = first_sent.after(keep.ttl / 3);
    let mut backoff = Backoff::up_to(backoff::LONGEST.min(keep.ttl / 10));
    loop {
        clock.sleep_until(next).await;
        let Standing::Held { deadline } = keep.standing() else { return };
        match renewal.run(&keep.client, Pace::renewal(deadline, keep.ttl)).await {
            Ok(Renewed { sent, ttl_ms, max_left_ms }) => {
                let ttl = Duration::from_millis(ttl_ms).min(keep.ttl);
                keep.bound(sent, max_left_ms);
                keep.extend(local_deadline(sent, ttl));
                next = sent.after(ttl / 3);
                backoff = Backoff::up_to(backoff::LONGEST.min(keep.ttl / 10));
            }
            Err(error) => {
                if let Some(reason) = LossReason::told_by(&error) {
                    keep.lose(reason);
                    return;
                }
                tracing::debug!(of = renewal.name(), %error, "a renewal failed; another one follows");
                next = clock.now().after(backoff.pause());
            }
        }
    }
}
