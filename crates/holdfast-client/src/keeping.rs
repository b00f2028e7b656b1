//! The two tasks behind a guard: one renews the lease, the other watches the local deadline.
//!
//! They are apart so that the loss is told in time whatever the renewal is doing, and also after it was stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::backoff::{self, Backoff};
use crate::call::Pace;
use crate::clock::Moment;
use crate::lease::local_deadline;
use crate::standing::{Hold, LossReason, Standing};

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
pub(crate) async fn watch_deadline(hold: Arc<Hold>) {
    let mut standing = hold.standing.subscribe();
    loop {
        let Standing::Held { deadline } = hold.standing() else { return };
        standing.mark_unchanged();
        tokio::select! {
            () = hold.client.clock().sleep_until(deadline) => {}
            _ = standing.changed() => {}
        }
    }
}

/// Renews every third of the TTL, and goes on trying until the hold has ended. One renewal at a time.
pub(crate) async fn renew(hold: Arc<Hold>, first_sent: Moment) {
    let clock = hold.client.clock();
    let mut next = first_sent.after(hold.ttl / 3);
    let mut backoff = Backoff::up_to(backoff::LONGEST.min(hold.ttl / 10));
    loop {
        clock.sleep_until(next).await;
        let Standing::Held { deadline } = hold.standing() else { return };
        let pace = Pace::renewal(deadline, hold.ttl);
        match hold.client.renew_target(&hold.target, &hold.token, pace).await {
            Ok(renewed) => {
                let ttl = Duration::from_millis(renewed.ttl_ms).min(hold.ttl);
                hold.extend(local_deadline(renewed.sent, ttl));
                next = renewed.sent.after(ttl / 3);
                backoff = Backoff::up_to(backoff::LONGEST.min(hold.ttl / 10));
            }
            Err(error) => {
                if let Some(reason) = LossReason::told_by(&error) {
                    hold.lose(reason);
                    return;
                }
                tracing::debug!(lock = hold.target.first(), %error, "a renewal failed; another one follows");
                next = clock.now().after(backoff.pause());
            }
        }
    }
}
