//! How long a wait lasts, and what ends it.

use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Cluster, PATIENCE, eventually, let_pass};
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;
/// Expiry is due within this after the lease, a wait's end within this after the wait.
const SLACK: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_at_another_node_is_woken_by_a_release_and_by_an_expiry() {
    const TTL: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(3).await;
    for (holder_at, waiter_at) in [(1, 3), (2, 1), (3, 2)] {
        let lock = format!("released-{holder_at}");
        let holder = Attempt::at(&lock).ttl_ms(LONG_MS);
        cluster.client(holder_at).acquire(&holder).await.unwrap().ok();
        let waiter = queue(&cluster, waiter_at, &lock).await;
        let released = Instant::now();
        cluster.client(holder_at).release(&holder).await.unwrap().ok();
        let took = waiter.await.unwrap() - released;
        assert!(took < SLACK, "{took:?} after the release");

        let lock = format!("expired-{holder_at}");
        let ttl_ms = u64::try_from(TTL.as_millis()).unwrap();
        let sent = Instant::now();
        cluster.client(holder_at).acquire(&Attempt::at(&lock).ttl_ms(ttl_ms)).await.unwrap().ok();
        let answered = Instant::now();
        let granted = queue(&cluster, waiter_at, &lock).await.await.unwrap();
        assert!(granted - sent >= TTL && granted - answered < TTL + SLACK, "{:?}", granted - sent);
    }
}

/// A waiter for the lock; resolves to when it was granted.
async fn queue(cluster: &Cluster, node: u64, lock: &str) -> tokio::task::JoinHandle<Instant> {
    let (client, attempt) = (cluster.client(node), Attempt::at(lock).ttl_ms(LONG_MS).wait_ms(LONG_MS));
    let waiter = tokio::spawn(async move {
        client.acquire(&attempt).await.unwrap().ok();
        Instant::now()
    });
    eventually(PATIENCE, "it waits", async || {
        (cluster.client(node).lock(lock).await.ok()?.body["queue_length"] == 1).then_some(())
    })
    .await;
    waiter
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_time_and_never_early_also_when_the_lock_keeps_changing_hands() {
    const AHEAD: usize = 60;
    const EACH_HOLDS: Duration = Duration::from_millis(200);
    const TAIL_MS: u64 = 10_000;
    let cluster = Cluster::start(3).await;
    let mut ahead = JoinSet::new();
    for number in 0..AHEAD {
        let (roamer, attempt) =
            (cluster.roamer(number), Attempt::at("busy").ttl_ms(LONG_MS).wait_ms(LONG_MS));
        ahead.spawn(async move {
            roamer.acquire(&attempt).await.ok();
            let_pass(EACH_HOLDS).await;
            roamer.release(&attempt).await.ok();
        });
    }
    let held = Attempt::at("held").ttl_ms(LONG_MS);
    cluster.roamer(0).acquire(&held).await.ok();
    eventually(PATIENCE, "most of them wait", async || {
        let waiting = cluster.roamer(0).lock("busy").await.body["queue_length"].as_u64()?;
        (waiting >= (AHEAD - 5) as u64).then_some(())
    })
    .await;

    let mut waits = JoinSet::new();
    for node in cluster.ids() {
        waits.spawn(timed_out(cluster.client(node), "busy", TAIL_MS));
        for wait_ms in [1, 500, 1_000, 3_000] {
            waits.spawn(timed_out(cluster.client(node), "held", wait_ms));
        }
    }
    waits.join_all().await;
    assert!(!ahead.is_empty(), "the lock was busy all the time");
}

async fn timed_out(client: holdfast_tests::Client, lock: &str, wait_ms: u64) {
    let answer = client.acquire(&Attempt::at(lock).wait_ms(wait_ms)).await.unwrap();
    assert_eq!(answer.code(), "wait_timeout", "{answer:?}");
    let wait = Duration::from_millis(wait_ms);
    assert!(answer.took >= wait && answer.took < wait + SLACK, "{:?} instead of {wait:?}", answer.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_tries_do_not_keep_a_lapsed_lock_alive() {
    const TTL: Duration = Duration::from_secs(5);
    const EVERY: Duration = Duration::from_millis(300);
    let cluster = Cluster::start(3).await;
    let sent = Instant::now();
    let dies = Attempt::at("db").owner("dies").ttl_ms(5_000);
    cluster.client(1).acquire(&dies).await.unwrap().ok();
    let answered = Instant::now();
    let mut successes = Vec::new();
    for number in 0_u64.. {
        let_pass(EVERY).await;
        let attempt = Attempt::at("db").owner("tries").ttl_ms(5_000);
        let answer = cluster.client(1 + number % 3).acquire(&attempt).await.unwrap();
        match answer.status {
            200 => successes.push(Instant::now()),
            _ => assert_eq!(answer.code(), "held", "{answer:?}"),
        }
        if answered.elapsed() > TTL + 2 * SLACK {
            break;
        }
    }
    let first = successes[0];
    assert!(first - sent >= TTL && first - answered < TTL + SLACK + EVERY, "{:?}", first - sent);
    assert_eq!(successes.len(), 1);
}
