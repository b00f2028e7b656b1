//! A job that must not run twice at the same time: it stops as soon as its lock is lost.
//!
//! With `holdfast dev` running, run this in two terminals: `cargo run -p holdfast-client --example guarded_job`.
//! The second one waits for the first one's end.

#![expect(clippy::print_stdout, reason = "the output is what there is to see")]

use std::time::Duration;

use holdfast_client::{AcquireError, Client, ReleaseError};

/// One step of the job. Whatever it writes to carries the fence along and refuses lower ones.
async fn step(number: u32, fence: u64) {
    println!("working on step {number} under fence {fence}");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn job(fence: u64) {
    for number in 1..=10 {
        step(number, fence).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder()
        .endpoints(["http://127.0.0.1:7101", "http://127.0.0.1:7102", "http://127.0.0.1:7103"])
        .build()?;

    let request = client.lock("reports/nightly").ttl(Duration::from_secs(10)).owner("report job");
    let mut guard = match request.wait(Duration::from_secs(60)).acquire().await {
        Ok(guard) => guard,
        // Somebody else does the job. Nothing of ours has run.
        Err(AcquireError::Busy { .. } | AcquireError::WaitTimeout) => {
            println!("skipped: somebody else does the job");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };

    tokio::select! {
        () = job(guard.fence()) => {}
        // The job was dropped at this moment, in the middle of whatever it was waiting for.
        Some(reason) = guard.lost() => return Err(format!("stopped: {reason}").into()),
    }

    match guard.release().await {
        Ok(()) => Ok(()),
        // All was done in time, but the service has not confirmed: the lease runs out by itself.
        Err(ReleaseError::Unanswered(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
