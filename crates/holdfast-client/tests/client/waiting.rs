//! Waiting for a busy lock: the budget is kept, the place too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::{AcquireError, Client, Clock};

use crate::fake::{Fake, Reply, agree, grant, problem};
use crate::{LONG, client, request};

#[tokio::test]
async fn a_wait_that_is_interrupted_is_asked_for_again_with_the_same_token_and_what_is_left_of_it() {
    let mut acquires = 0;
    let fake = Fake::start(move |seen| {
        acquires += 1;
        match acquires {
            1 => problem(503, "no_leader").later(Duration::from_millis(300)),
            _ => grant(seen, 7),
        }
    })
    .await;
    let client = client(&[&fake]);
    let _guard = request(&client, LONG).wait(Duration::from_secs(20)).acquire().await.unwrap();
    let seen = fake.seen("acquire");
    assert_eq!(seen[0].token(), seen[1].token());
    let passed = u64::try_from((seen[1].at - seen[0].at).as_millis()).unwrap();
    let left = 20_000 - passed;
    assert!((left.saturating_sub(200)..=left + 200).contains(&seen[1].wait_ms()), "{left} {seen:?}");
}

#[tokio::test]
async fn a_wait_never_ends_early_even_if_the_place_in_the_queue_is_lost() {
    let fake = Fake::start(|_| problem(409, "wait_timeout").later(Duration::from_millis(100))).await;
    let wait = Duration::from_millis(700);
    let began = Instant::now();
    let error = request(&client(&[&fake]), LONG).wait(wait).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::WaitTimeout);
    assert!((wait..wait + Duration::from_secs(1)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_wait_of_two_hours_outlives_the_longest_wait_of_one_request_and_keeps_its_token() {
    let ahead_s = Arc::new(AtomicU64::new(0));
    let (began, added) = (Instant::now(), ahead_s.clone());
    let clock =
        Clock::from_fn(move || began.elapsed() + Duration::from_secs(100 + added.load(Ordering::SeqCst)));
    let mut acquires = 0;
    let fake = Fake::start(move |seen| match seen.action.as_str() {
        "acquire" => {
            acquires += 1;
            if acquires == 3 { grant(seen, 7) } else { Reply::Hang }
        }
        _ => agree(seen, 6_000),
    })
    .await;
    let client = Client::builder().endpoints([fake.url()]).clock(clock).build().unwrap();
    let request = request(&client, LONG).wait(Duration::from_secs(7_200));
    let waiting = tokio::spawn(async move { request.acquire().await });
    for count in 1..3 {
        fake.until_seen("acquire", count).await;
        ahead_s.fetch_add(575, Ordering::SeqCst);
    }
    let mut guard = waiting.await.unwrap().unwrap();
    let seen = fake.seen("acquire");
    assert!(seen.iter().all(|seen| seen.wait_ms() == 600_000 && seen.token() == guard.token().expose()));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_leaves_a_node_that_freezes_and_keeps_its_token() {
    let frozen = Fake::start(|_| Reply::Hang).await;
    let fake = Fake::start(|seen| grant(seen, 7)).await;
    let client = client(&[&frozen, &fake]);
    let began = Instant::now();
    let guard = request(&client, LONG).wait_forever().acquire().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(frozen.seen("acquire")[0].token(), guard.token().expose());
}

#[tokio::test]
async fn of_two_requests_of_one_attempt_only_the_newer_ones_answer_counts() {
    let frozen = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(Duration::from_millis(4_500)),
        _ => Reply::Hang,
    })
    .await;
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(Duration::from_millis(1_500)),
        _ => agree(seen, 6_000),
    })
    .await;
    let client = client(&[&frozen, &fake]);
    let began = Instant::now();
    let _guard = request(&client, LONG).wait_forever().acquire().await.unwrap();
    assert!(began.elapsed() > Duration::from_millis(5_000), "{:?}", began.elapsed());
    assert_eq!((frozen.seen("acquire").len(), fake.seen("acquire").len()), (1, 1));
}

#[tokio::test]
async fn an_endless_wait_for_a_cluster_that_is_not_there_comes_to_an_end() {
    let gone = Fake::start(|_| Reply::Hang).await.url();
    let client = Client::builder().endpoints([gone]).timeout(Duration::from_millis(300)).build().unwrap();
    let error = request(&client, LONG).wait_forever().acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Unreachable(_)), "{error}");
}
