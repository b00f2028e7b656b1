//! What an acquire may ask for beside a TTL, and what the client makes of the answers.

use std::time::{Duration, Instant};

use holdfast_client::{AcquireError, AlreadyDone, LossReason};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, Seen, agree};
use crate::{LONG, SHORT, client, request};

/// Agrees to everything, and says of each grant how much is left of the longest hold since the first one.
fn bounded(seen: &Seen, since: Instant, max: Duration) -> Reply {
    let left = max.saturating_sub(since.elapsed());
    let Reply::Body(status, body) = agree(seen, 6_000) else { panic!("it agrees") };
    let mut body: Value = serde_json::from_str(&body).unwrap();
    if ["acquire", "renew"].contains(&seen.action.as_str()) {
        let left_ms = u64::try_from(left.as_millis()).unwrap();
        body["max_left_ms"] = left_ms.into();
        body["expires_in_ms"] = left_ms.min(6_000).into();
    }
    Reply::Body(status, body.to_string())
}

#[tokio::test]
async fn the_terms_are_sent_with_the_acquire() {
    let fake = crate::agreeing(LONG).await;
    let second = Duration::from_secs(1);
    let lock = request(&client(&[&fake]), LONG).delay(second).min_hold(2 * second).max_hold(3 * second);
    lock.once(4 * second).acquire().await.unwrap().release_done().await.unwrap();
    let acquire = &fake.seen("acquire")[0].body;
    assert_eq!((&acquire["delay_ms"], &acquire["min_hold_ms"]), (&json!(1_000), &json!(2_000)));
    assert_eq!((&acquire["max_hold_ms"], &acquire["once"]), (&json!(3_000), &json!({"period_ms": 4_000})));
    assert_eq!(fake.seen("release")[0].body["done"], true);
}

#[tokio::test]
async fn a_plain_acquire_and_its_release_say_nothing_of_terms() {
    let fake = crate::agreeing(LONG).await;
    request(&client(&[&fake]), LONG).acquire().await.unwrap().release().await.unwrap();
    let acquire = &fake.seen("acquire")[0].body;
    for field in ["delay_ms", "min_hold_ms", "max_hold_ms", "once"] {
        assert!(acquire.get(field).is_none(), "{acquire}");
    }
    assert!(fake.seen("release")[0].body.get("done").is_none());
}

#[tokio::test]
async fn that_it_is_done_already_is_an_error_of_its_own() {
    let problem = json!({
        "code": "already_done", "detail": "It was.", "owner": "nightly", "fence": 4, "next_in_ms": 60_000,
        "done_ms_ago": 1_500,
    });
    let fake = Fake::start(move |_| Reply::Body(409, problem.to_string())).await;
    let error = request(&client(&[&fake]), LONG).once(LONG).acquire().await.unwrap_err();
    let done = AlreadyDone {
        owner: "nightly".into(),
        fence: 4,
        next_in: Duration::from_secs(60),
        done_ago: Duration::from_millis(1_500),
    };
    assert_eq!(error, AcquireError::AlreadyDone(done));
    assert_eq!(fake.seen("acquire").len(), 1, "there is nothing to try again");
}

#[tokio::test]
async fn a_lock_in_a_delay_says_how_long_it_is_kept() {
    let problem = json!({"code": "held", "detail": "It is.", "queue_length": 2, "delay_ms": 3_000});
    let fake = Fake::start(move |_| Reply::Body(409, problem.to_string())).await;
    let error = request(&client(&[&fake]), LONG).acquire().await.unwrap_err();
    let delay = Some(Duration::from_secs(3));
    assert_eq!(error, AcquireError::Busy { holder: None, queue_length: 2, delay });
    assert!(error.to_string().contains("nobody for 3s"), "{error}");
}

#[tokio::test]
async fn a_guard_is_lost_before_its_longest_hold_is_over_however_it_is_renewed() {
    let (since, max) = (Instant::now(), SHORT * 3);
    let fake = Fake::start(move |seen| bounded(seen, since, max)).await;
    let guard = request(&client(&[&fake]), SHORT).max_hold(max).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Some(LossReason::MaxHold));
    assert!(since.elapsed() < max && since.elapsed() > max / 2, "{:?}", since.elapsed());
    assert!(fake.seen("renew").len() > 2);
}

#[tokio::test]
async fn a_longest_hold_below_the_ttl_cuts_the_first_lease() {
    let (since, max) = (Instant::now(), SHORT);
    let fake = Fake::start(move |seen| bounded(seen, since, max)).await;
    let mut guard = request(&client(&[&fake]), LONG).max_hold(max).acquire().await.unwrap();
    assert!(guard.ttl() <= max && guard.latest() >= guard.deadline());
    assert_eq!(guard.lost().await, Some(LossReason::MaxHold));
    assert!(since.elapsed() < max, "{:?}", since.elapsed());
    guard.release().await.unwrap_err();
    assert_eq!(fake.seen("release").len(), 1, "what is left of it is given back");
}

#[tokio::test]
async fn a_session_keeps_a_guard_no_longer_than_its_longest_hold() {
    let (since, max) = (Instant::now(), SHORT * 2);
    let fake = Fake::start(move |seen| match seen.path.starts_with("/v1/sessions") {
        true => {
            let session = json!({
                "id": "17", "owner": "tester", "token": seen.token(), "ttl_ms": 6_000, "expires_in_ms": 6_000,
            });
            Reply::Body(200, session.to_string())
        }
        false => bounded(seen, since, max),
    })
    .await;
    let client = client(&[&fake]);
    let session = client.session().ttl(LONG).owner("tester").open().await.unwrap();
    let guard = client.lock("db").session(&session).max_hold(max).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Some(LossReason::MaxHold));
    assert!(since.elapsed() < max && session.is_alive(), "{:?}", since.elapsed());
}

#[tokio::test]
async fn many_locks_take_no_terms() {
    let fake = crate::agreeing(LONG).await;
    let error = client(&[&fake]).lock_many(["a", "b"]).delay(LONG).acquire().await.unwrap_err();
    assert!(matches!(&error, AcquireError::Refused(refusal) if refusal.status == 400), "{error}");
    assert!(fake.all().is_empty());
}
