//! The client library against a server that follows a script.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod acquiring;
mod calls;
mod elections;
mod fake;
mod guards;
mod losses;
mod many;
mod releases;
mod sessions;
mod terms;
mod waiting;

use std::time::Duration;

use holdfast_client::{Client, Guard, LockRequest};

/// The TTL of holds that a test wants to lose. Short: it is the thing under test.
const SHORT: Duration = Duration::from_millis(400);
/// The TTL of holds that a test wants to keep, on a busy machine too.
const LONG: Duration = Duration::from_secs(6);

fn client(fakes: &[&fake::Fake]) -> Client {
    Client::builder().endpoints(fakes.iter().map(|fake| fake.url())).build().unwrap()
}

fn request(client: &Client, ttl: Duration) -> LockRequest {
    client.lock("db").ttl(ttl).owner("tester")
}

async fn hold(client: &Client, ttl: Duration) -> Guard {
    request(client, ttl).acquire().await.unwrap()
}

/// A fake that agrees to everything under this TTL.
async fn agreeing(ttl: Duration) -> fake::Fake {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    fake::Fake::start(move |seen| fake::agree(seen, ttl_ms)).await
}
