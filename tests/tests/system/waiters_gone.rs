//! Waiters whose clients or nodes have gone hold nobody up: they are skipped within two seconds, however many.

use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Client, Cluster, PATIENCE, Roamer, eventually};
use tokio::task::{JoinHandle, JoinSet};

const LONG_MS: u64 = 600_000;
const SKIPPED_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_waiters_that_hang_up_at_once_cost_at_most_two_seconds() {
    const GONE: usize = 2_000;
    let cluster = Cluster::start(3).await;
    let (holder, fence) = hold(&cluster).await;
    let mut gone = JoinSet::new();
    for number in 0..GONE {
        let client = cluster.nodes()[number % 3].client();
        let attempt = Attempt::at("db").owner("gone").wait_ms(LONG_MS);
        gone.spawn(async move { client.acquire(&attempt).await });
    }
    queue_len_is(&cluster.roamer(0), GONE).await;
    let live = wait_at(cluster.client(1), "live");
    queue_len_is(&cluster.roamer(0), GONE + 1).await;

    let hung_up = Instant::now();
    gone.abort_all();
    cluster.roamer(0).release(&holder).await.ok();
    let granted = live.await.unwrap();
    let took = hung_up.elapsed();
    assert!(took < SKIPPED_WITHIN, "{took:?}");
    assert!(granted > fence);
    // A grant that was on its way to somebody who had gone may have taken a number, and nobody else has.
    queue_len_is(&cluster.roamer(0), 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_killed_node_are_skipped_within_two_seconds_also_at_the_head_of_the_queue() {
    const DEAD: usize = 8;
    let cluster = Cluster::start(3).await;
    let (holder, _) = hold(&cluster).await;
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let (killed, lives) = (others[0], others[1]);
    let mut dead = JoinSet::new();
    for _ in 0..DEAD {
        let (client, attempt) = (cluster.client(killed), Attempt::at("db").owner("dead").wait_ms(LONG_MS));
        dead.spawn(async move { client.acquire(&attempt).await });
    }
    queue_len_is(&cluster.roamer(0), DEAD).await;
    let live = wait_at(cluster.client(lives), "live");
    queue_len_is(&cluster.roamer(0), DEAD + 1).await;

    cluster.node(killed).kill();
    let released = Instant::now();
    cluster.client(leader).release(&holder).await.unwrap().ok();
    live.await.unwrap();
    let took = released.elapsed();
    assert!(took < SKIPPED_WITHIN, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_two_killed_nodes_together_cost_at_most_two_seconds() {
    let cluster = Cluster::start(5).await;
    let (holder, _) = hold(&cluster).await;
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let mut dead = JoinSet::new();
    for number in 0..6 {
        let (client, attempt) = (cluster.client(others[number % 2]), Attempt::at("db").wait_ms(LONG_MS));
        dead.spawn(async move { client.acquire(&attempt).await });
        queue_len_is(&cluster.roamer(0), number + 1).await;
    }
    let live = wait_at(cluster.client(others[2]), "live");
    queue_len_is(&cluster.roamer(0), 7).await;

    cluster.node(others[0]).kill();
    cluster.node(others[1]).kill();
    let released = Instant::now();
    cluster.client(leader).release(&holder).await.unwrap().ok();
    live.await.unwrap();
    let took = released.elapsed();
    assert!(took < SKIPPED_WITHIN, "{took:?}");
}

/// One waits too short, one hangs up, one only tries, while the leader is killed: only the one who still waits is served.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_gave_up_is_out_of_the_queue_and_never_granted() {
    let cluster = Cluster::start(3).await;
    let (holder, fence) = hold(&cluster).await;
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let short = Attempt::at("db").owner("short").ttl_ms(60_000).wait_ms(1_000);
    assert_eq!(cluster.client(others[0]).acquire(&short).await.unwrap().code(), "wait_timeout");
    let hangs_up = wait_at(cluster.client(others[1]), "hangs-up");
    queue_len_is(&cluster.roamer(0), 1).await;
    hangs_up.abort();
    let tries: JoinSet<_> = others
        .iter()
        .map(|id| {
            let (client, attempt) = (cluster.client(*id), Attempt::at("db").owner("tries"));
            async move { client.acquire(&attempt).await }
        })
        .collect();
    cluster.node(leader).kill();
    for reply in tries.join_all().await {
        let answer = reply.unwrap();
        assert!(answer.code() == "held" || answer.is_unanswered(), "{answer:?}");
    }
    cluster.leader_among(&others).await;
    let waits = wait_at(cluster.client(others[0]), "waits");
    eventually(SKIPPED_WITHIN, "only the one who still waits is in the queue", async || {
        (cluster.client(others[1]).lock("db").await.ok()?.queue() == ["waits"]).then_some(())
    })
    .await;

    let released = Instant::now();
    cluster.client(others[1]).release(&holder).await.unwrap().ok();
    let granted = waits.await.unwrap();
    let took = released.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(granted, fence + 1, "nobody who gave up was granted in between");
}

async fn hold(cluster: &Cluster) -> (Attempt, u64) {
    let holder = Attempt::at("db").owner("holder").ttl_ms(LONG_MS);
    let fence = cluster.roamer(0).acquire(&holder).await.ok().fence();
    (holder, fence)
}

fn wait_at(client: Client, owner: &str) -> JoinHandle<u64> {
    let attempt = Attempt::at("db").owner(owner).ttl_ms(LONG_MS).wait_ms(LONG_MS);
    tokio::spawn(async move { client.acquire(&attempt).await.unwrap().ok().fence() })
}

async fn queue_len_is(roamer: &Roamer, len: usize) {
    eventually(PATIENCE, &format!("{len} wait"), async || {
        (roamer.lock("db").await.body["queue_length"] == len).then_some(())
    })
    .await;
}
