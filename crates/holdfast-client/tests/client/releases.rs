//! Giving a lock back, also when that does not work at first.

use std::time::{Duration, Instant};

use holdfast_client::{Client, LossReason, ReleaseError, Standing};

use crate::fake::{Fake, Reply, agree, problem};
use crate::{LONG, SHORT, client, hold};

#[tokio::test]
async fn a_release_after_the_lease_is_over_takes_one_request_and_says_so() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "renew" => Reply::Hang,
        "release" => problem(409, "lease_expired"),
        _ => agree(seen, 400),
    })
    .await;
    let mut guard = hold(&client(&[&fake]), SHORT).await;
    guard.lost().await;
    let began = Instant::now();
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(LossReason::Deadline)));
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(fake.seen("release").len(), 1);
}

#[tokio::test]
async fn a_loss_that_only_the_release_brings_to_light_is_told_by_it() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "release" => problem(409, "lease_forced"),
        _ => agree(seen, 6_000),
    })
    .await;
    let mut guard = hold(&client(&[&fake]), LONG).await;
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(LossReason::Forced)));
    assert_eq!(guard.standing(), Standing::Lost(LossReason::Forced));
    assert_eq!(fake.seen("release").len(), 1);
}

#[tokio::test]
async fn a_release_that_failed_can_be_repeated_and_stops_the_renewals_all_the_same() {
    let ttl = Duration::from_secs(2);
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "release" => problem(503, "no_leader"),
        _ => agree(seen, 2_000),
    })
    .await;
    let client =
        Client::builder().endpoints([fake.url()]).timeout(Duration::from_millis(200)).build().unwrap();
    let mut guard = hold(&client, ttl).await;
    assert!(matches!(guard.release().await, Err(ReleaseError::Unanswered(_))));
    assert!(guard.is_held(), "the service may still keep the lock for us");
    let lost = guard.lost();
    fake.now(|seen| agree(seen, 2_000));
    guard.release().await.unwrap();
    assert_eq!(lost.await, None);
    assert_eq!(guard.standing(), Standing::Released);
    assert!(fake.seen("renew").is_empty());
}

#[tokio::test]
async fn a_cancelled_release_keeps_the_token_and_the_deadline() {
    let fake =
        Fake::start(|seen| if seen.action == "release" { Reply::Hang } else { agree(seen, 400) }).await;
    let mut guard = hold(&client(&[&fake]), SHORT).await;
    tokio::select! {
        _ = guard.release() => panic!("nobody answers"),
        () = fake.until_seen("release", 1) => {}
    }
    assert_eq!(guard.lost().await, Some(LossReason::Deadline), "without renewals the lease runs out");
    fake.now(|seen| agree(seen, 400));
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(LossReason::Deadline)));
    assert_eq!(fake.seen("release")[1].token(), guard.token().expose());
}

#[tokio::test]
async fn a_release_does_not_wait_for_a_renewal_in_flight_and_is_not_skipped_for_it() {
    let ttl = Duration::from_secs(3);
    let fake =
        Fake::start(|seen| if seen.action == "renew" { Reply::Hang } else { agree(seen, 3_000) }).await;
    let mut guard = hold(&client(&[&fake]), ttl).await;
    fake.until_seen("renew", 1).await;
    guard.release().await.unwrap();
    assert_eq!(fake.all().last().unwrap().action, "release");
}

#[tokio::test]
async fn releasing_twice_asks_once() {
    let fake = Fake::start(|seen| agree(seen, 6_000)).await;
    let mut guard = hold(&client(&[&fake]), LONG).await;
    guard.release().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(fake.seen("release").len(), 1);
    assert!(!guard.is_held());
}
