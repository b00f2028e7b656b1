//! Acquiring a lock: what counts as a grant, and how an attempt starts over.

use std::time::Duration;

use holdfast_client::{AcquireError, CallError, LossReason};

use crate::fake::{Fake, Reply, agree, grant, problem, released};
use crate::{LONG, SHORT, client, request};

#[tokio::test]
async fn a_grant_that_arrives_after_its_lease_is_reported_as_lost_and_given_back() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(SHORT * 2),
        _ => released(7),
    })
    .await;
    let error = request(&client(&[&fake]), SHORT).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Lost(LossReason::Deadline));
    assert_eq!(fake.seen("release")[0].token(), fake.seen("acquire")[0].token());
}

#[tokio::test]
async fn a_grant_out_of_the_queue_that_comes_after_a_whole_ttl_is_held_once_a_renewal_confirms_it() {
    let ttl = Duration::from_secs(1);
    let fake = Fake::start(move |seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(ttl * 3 / 2),
        _ => agree(seen, 1_000),
    })
    .await;
    let client = client(&[&fake]);
    let mut guard = request(&client, ttl).wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert!(guard.is_held());
    assert!(!fake.seen("renew").is_empty());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_grant_out_of_the_queue_is_lost_if_the_renewal_says_that_its_lease_is_over() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(SHORT * 2),
        "renew" => problem(409, "lease_expired"),
        _ => released(7),
    })
    .await;
    let client = client(&[&fake]);
    let error = request(&client, SHORT).wait(Duration::from_secs(30)).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Lost(LossReason::Expired));
}

#[tokio::test]
async fn an_attempt_whose_grant_was_lost_on_the_way_starts_over_with_a_fresh_token() {
    for code in ["lease_released", "lease_expired"] {
        let mut acquires = 0;
        let fake = Fake::start(move |seen| {
            if seen.action != "acquire" {
                return agree(seen, 6_000);
            }
            acquires += 1;
            match acquires {
                1 => Reply::HangUp,
                2 => problem(409, code),
                _ => grant(seen, 8),
            }
        })
        .await;
        let mut guard = request(&client(&[&fake]), LONG).acquire().await.unwrap();
        let tokens: Vec<_> = fake.seen("acquire").iter().map(|seen| seen.token().to_owned()).collect();
        assert_eq!((tokens.len(), guard.fence()), (3, 8));
        assert_eq!(tokens[0], tokens[1]);
        assert_ne!(tokens[1], tokens[2]);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_of_the_callers_own_is_never_replaced() {
    let fake = Fake::start(|_| problem(409, "lease_expired")).await;
    let acquire =
        holdfast_client::Acquire { token: Some(holdfast_client::fresh_token()), ..Default::default() };
    let error = client(&[&fake]).acquire("db", &acquire).await.unwrap_err();
    assert!(matches!(error, CallError::Refused(_)));
    assert_eq!(fake.all().len(), 1);
}

#[tokio::test]
async fn a_grant_of_another_token_is_never_taken_for_ones_own() {
    let fake = Fake::start(|seen| {
        let mut other = seen.clone();
        other.body["token"] = "somebody-elses-token".into();
        grant(&other, 7)
    })
    .await;
    let error = request(&client(&[&fake]), LONG).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_busy_lock_and_an_ended_wait_are_errors_of_their_own_and_give_no_guard() {
    let fake = Fake::start(|_| problem(409, "held")).await;
    let error = request(&client(&[&fake]), LONG).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Busy { .. }), "{error}");
    let wait = Duration::from_millis(300);
    let fake = Fake::start(move |_| problem(409, "wait_timeout").later(wait)).await;
    let error = request(&client(&[&fake]), LONG).wait(wait).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::WaitTimeout);
}

#[tokio::test]
async fn an_attempt_that_is_stopped_gives_its_place_back_under_its_own_token() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => Reply::Hang,
        _ => released(0),
    })
    .await;
    let client = client(&[&fake]);
    let request = request(&client, LONG).wait_forever();
    let error = request.acquire_until(fake.until_seen("acquire", 1)).await.unwrap_err();
    assert_eq!(error, AcquireError::Stopped);
    assert_eq!(fake.seen("release")[0].token(), fake.seen("acquire")[0].token());
}
