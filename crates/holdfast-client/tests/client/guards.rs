//! A guard keeps its lease, and nothing else.

use std::time::{Duration, Instant};

use holdfast_client::{Client, Guard, LossReason};

use crate::fake::{Fake, Reply, agree, grant, problem};
use crate::{LONG, SHORT, agreeing, client, hold, request};

#[tokio::test]
async fn a_guard_renews_every_third_of_its_ttl_one_renewal_at_a_time() {
    let ttl = Duration::from_millis(900);
    let fake = agreeing(ttl).await;
    let client = client(&[&fake]);
    let mut guard = hold(&client, ttl).await;
    fake.until_seen("renew", 6).await;
    assert!(guard.is_held());
    let renewals = fake.seen("renew");
    for pair in renewals.windows(2) {
        assert!(pair[1].at - pair[0].at > ttl / 6, "{renewals:?}");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn renewals_that_fail_for_a_while_are_repeated_elsewhere_and_lose_nothing() {
    let kinds = [
        problem(503, "no_leader"),
        problem(504, "unknown_outcome"),
        Reply::HangUp,
        Reply::Body(502, "<html>".into()),
    ];
    let first = Fake::replying([kinds[0].clone(), kinds[1].clone(), kinds[2].clone()]).await;
    let mut renewals = 0;
    let second = Fake::start(move |seen| {
        if seen.action == "renew" {
            renewals += 1;
            if renewals % 2 == 1 {
                return kinds[3].clone();
            }
        }
        agree(seen, 3_000)
    })
    .await;
    let client = client(&[&second, &first]);
    let mut guard = hold(&client, Duration::from_secs(3)).await;
    let before = guard.deadline().unwrap();
    second.until_seen("renew", 6).await;
    assert!(guard.is_held());
    assert!(guard.deadline().unwrap() > before);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_node_that_dies_under_a_holder_is_not_noticed_by_it() {
    let ttl = Duration::from_secs(3);
    let dying = agreeing(ttl).await;
    let other = agreeing(ttl).await;
    let client = client(&[&dying, &other]);
    let mut guard = hold(&client, ttl).await;
    drop(dying);
    other.until_seen("renew", 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn two_guards_of_one_client_have_secrets_of_their_own_and_travel_between_tasks() {
    fn travels<T: Send + Sync + 'static>() {}
    travels::<Guard>();
    let fake = agreeing(LONG).await;
    let client = client(&[&fake]);
    let (mut first, mut second) = (hold(&client, LONG).await, hold(&client, LONG).await);
    assert_ne!(first.token(), second.token());
    let token = first.token().clone();
    tokio::spawn(async move { first.release().await }).await.unwrap().unwrap();
    assert_eq!(fake.seen("release")[0].token(), token.expose());
    assert!(second.is_held());
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_dropped_guard_renews_no_more_and_those_who_watch_it_are_told() {
    let fake = agreeing(SHORT).await;
    let client = client(&[&fake]);
    let guard = hold(&client, SHORT).await;
    let lost = guard.lost();
    fake.until_seen("renew", 1).await;
    drop(guard);
    assert_eq!(lost.await, Some(LossReason::Dropped));
    let renewals = fake.seen("renew").len();
    tokio::time::sleep(SHORT).await; // Nothing is to happen in this time: there is no condition to wait for.
    assert!(fake.seen("renew").len() <= renewals + 1, "one may have been on its way");
}

/// Attempts and holds that are cancelled around the moment of the grant leave neither tasks nor renewals behind.
#[test]
fn nothing_renews_a_hold_whose_attempt_was_cancelled_or_whose_guard_was_released() {
    let server = tokio::runtime::Runtime::new().unwrap();
    let fake = server.block_on(Fake::start(|seen| {
        let delay = Duration::from_micros(500 * (seen.at.elapsed().subsec_nanos() as u64 % 6));
        agree(seen, 300).later(delay)
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (released, alive) = runtime.block_on(async {
        let client = client(&[&fake]);
        let mut released = Vec::new();
        for round in 0..300_u64 {
            let patience = Duration::from_micros(round % 50 * 100);
            let request = request(&client, Duration::from_millis(300));
            if let Ok(Ok(mut guard)) = tokio::time::timeout(patience, request.acquire()).await {
                guard.release().await.unwrap();
                released.push((guard.token().expose().to_owned(), Instant::now()));
            }
        }
        drop(client);
        (released, tasks_left().await)
    });
    assert_eq!(alive, 0, "tasks are left");
    assert!(!released.is_empty());
    for renewal in fake.seen("renew") {
        let late = released.iter().any(|(token, at)| token == renewal.token() && renewal.at > *at);
        assert!(!late, "a released hold was renewed");
    }
}

/// Waits for the tasks of this runtime to end, those of closed connections too.
async fn tasks_left() -> usize {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let deadline = Instant::now() + Duration::from_secs(5);
    while alive() > 0 && Instant::now() < deadline {
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(5)).await; // Looks again, until a deadline.
    }
    alive()
}

#[tokio::test]
async fn a_thousand_locks_one_after_the_other_take_a_handful_of_connections() {
    let fake = agreeing(LONG).await;
    let client = client(&[&fake]);
    for _ in 0..1_000 {
        hold(&client, LONG).await.release().await.unwrap();
    }
    assert!(fake.open_max() <= 4, "{}", fake.open_max());
}

#[tokio::test]
async fn one_request_can_be_used_again_after_a_loss() {
    let mut fence = 0;
    let fake = Fake::start(move |seen| match seen.action.as_str() {
        "acquire" => {
            fence += 1;
            grant(seen, fence)
        }
        "renew" => problem(409, "lease_expired"),
        _ => agree(seen, 400),
    })
    .await;
    let client: Client = client(&[&fake]);
    let request = request(&client, SHORT);
    let first = request.acquire().await.unwrap();
    assert_eq!(first.lost().await, Some(LossReason::Expired));
    fake.now(|seen| if seen.action == "acquire" { grant(seen, 9) } else { agree(seen, 400) });
    let mut second = request.acquire().await.unwrap();
    assert!(second.fence() > first.fence() && second.is_held() && !first.is_held());
    let renewals_of_first =
        |fake: &Fake| fake.seen("renew").iter().filter(|seen| seen.token() == first.token().expose()).count();
    let before = renewals_of_first(&fake);
    fake.until_seen("renew", before + 2).await;
    assert_eq!(renewals_of_first(&fake), before);
    second.release().await.unwrap();
}
