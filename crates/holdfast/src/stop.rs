//! The signals that end a node: the first one gracefully, a second one at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// SIGTERM and SIGINT, from here on.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Takes the signals over. Within a runtime only.
    pub(crate) fn new() -> Result<Self, Failure> {
        let take =
            |kind| signal(kind).map_err(|error| Failure::other(format!("cannot take signals: {error}")));
        Ok(Self { terminate: take(SignalKind::terminate())?, interrupt: take(SignalKind::interrupt())? })
    }

    /// Resolves at the first signal. The process ends without further ado at the next one.
    pub(crate) async fn first(mut self) {
        let number = self.next().await;
        tracing::info!(signal = number, "stopping; the same signal again ends the process at once");
        tokio::spawn(async move {
            let number = self.next().await;
            std::process::exit(128 + number);
        });
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}
