//! A loss is told once, in time, and for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::{Client, Clock, LossReason, Standing};

use crate::fake::{Fake, Reply, agree, problem};
use crate::{LONG, SHORT, agreeing, client, hold};

#[tokio::test]
async fn whatever_keeps_renewals_from_being_confirmed_the_loss_is_told_before_the_lease_is_over() {
    let kinds = [
        problem(503, "no_leader"),
        problem(504, "unknown_outcome"),
        Reply::Hang,
        Reply::HangUp,
        Reply::Body(200, r#"{"surprise":true}"#.into()),
        Reply::Body(200, "<html>Welcome</html>".into()),
        Reply::Body(502, "<html>Bad gateway</html>".into()),
        problem(400, "invalid_argument"),
    ];
    for kind in kinds {
        let fake = agreeing(SHORT).await;
        let client = client(&[&fake]);
        let guard = hold(&client, SHORT).await;
        fake.until_seen("renew", 1).await;
        let answer = kind.clone();
        fake.now(move |_| answer.clone());
        let last_good = fake.all().last().unwrap().at;
        assert_eq!(guard.lost().await, Some(LossReason::Deadline), "{kind:?}");
        assert!(last_good.elapsed() < SHORT, "{kind:?}: told after {:?}", last_good.elapsed());
        assert!(!guard.is_held());
    }
}

#[tokio::test]
async fn the_loss_is_told_in_time_when_nobody_answers_any_more() {
    let fake = agreeing(SHORT).await;
    let client = client(&[&fake]);
    let guard = hold(&client, SHORT).await;
    fake.until_seen("renew", 1).await;
    let last_good = fake.all().last().unwrap().at;
    drop(fake);
    assert_eq!(guard.lost().await, Some(LossReason::Deadline));
    assert!(last_good.elapsed() < SHORT + SHORT / 3, "{:?}", last_good.elapsed());
}

#[tokio::test]
async fn a_definite_answer_is_a_loss_at_once() {
    for (code, reason) in [
        ("lease_expired", LossReason::Expired),
        ("lease_released", LossReason::Released),
        ("lease_forced", LossReason::Forced),
        ("not_holder", LossReason::NotHolder),
    ] {
        let fake = Fake::start(move |seen| match seen.action.as_str() {
            "renew" => problem(409, code),
            _ => agree(seen, 3_000),
        })
        .await;
        let client = client(&[&fake]);
        let began = Instant::now();
        let guard = hold(&client, Duration::from_secs(3)).await;
        assert_eq!(guard.lost().await, Some(reason));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(fake.seen("renew").len(), 1);
    }
}

#[tokio::test]
async fn a_loss_is_told_once_and_never_taken_back() {
    let fake = Fake::start(|seen| if seen.action == "renew" { Reply::Hang } else { agree(seen, 400) }).await;
    let client = client(&[&fake]);
    let mut guard = hold(&client, SHORT).await;
    let mut standing = guard.watch();
    assert_eq!(guard.lost().await, Some(LossReason::Deadline));
    standing.mark_unchanged();
    fake.now(|seen| agree(seen, 400));
    assert!(guard.release().await.is_err());
    assert!(!standing.has_changed().unwrap());
    assert_eq!(guard.standing(), Standing::Lost(LossReason::Deadline));
    assert_eq!(guard.lost().await, Some(LossReason::Deadline));
}

#[tokio::test]
async fn a_machine_that_was_suspended_finds_its_lease_over() {
    let ahead_s = Arc::new(AtomicU64::new(0));
    let (began, added) = (Instant::now(), ahead_s.clone());
    let clock = Clock::from_fn(move || began.elapsed() + Duration::from_secs(added.load(Ordering::SeqCst)));
    let fake = agreeing(LONG).await;
    let client = Client::builder().endpoints([fake.url()]).clock(clock).build().unwrap();
    let guard = hold(&client, LONG).await;
    let lost = guard.lost();
    assert!(guard.is_held());
    ahead_s.store(3_600, Ordering::SeqCst);
    assert!(!guard.is_held(), "the first look after the suspension shows it");
    assert_eq!(lost.await, Some(LossReason::Deadline));
}
