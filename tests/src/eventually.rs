//! Waiting: for a condition, with a deadline that says what was waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// For everything that has no limit of its own: how long a busy machine may need.
pub const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Asks again and again until there is an answer.
///
/// # Panics
/// If there is none in time; `what` says what was waited for.
pub async fn eventually<T>(within: Duration, what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Some(found)) => return found,
            Ok(None) if Instant::now() < deadline => sleep(LOOK_AGAIN).await,
            Ok(None) | Err(_) => panic!("not within {within:?}: {what}"),
        }
    }
}

/// Lets time pass where the passing of time is what is tested: a lease that runs out, a node that is away.
///
/// It is not for waiting until something has happened.
pub async fn let_pass(span: Duration) {
    sleep_until(Instant::now() + span).await;
}

/// The middle one of several measurements: one round may meet another process's burst of work, the median does not.
///
/// # Panics
/// Without any measurement.
pub fn median(measured: &[Duration]) -> Duration {
    let mut sorted = measured.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
