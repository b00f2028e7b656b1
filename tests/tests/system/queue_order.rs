//! First come, first served, over all nodes.

use std::sync::Arc;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, eventually, let_pass};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_five_waiters_over_all_nodes_are_served_in_the_order_of_the_queue() {
    const WAITERS: usize = 25;
    const SPACING: Duration = Duration::from_millis(50);
    const EACH_HOLDS: Duration = Duration::from_millis(100);
    let cluster = Cluster::start(3).await;
    let holder = Attempt::at("db").owner("holder").ttl_ms(LONG_MS);
    cluster.roamer(0).acquire(&holder).await.ok();
    let leader = cluster.leader().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for number in 0..WAITERS {
        let owner = format!("waiter-{number}");
        let attempt = Attempt::at("db").owner(&owner).ttl_ms(LONG_MS).wait_ms(LONG_MS);
        let (roamer, order) = (cluster.roamer(number), order.clone());
        waiters.spawn(async move {
            let fence = roamer.acquire(&attempt).await.ok().fence();
            order.lock().await.push((owner, fence));
            let_pass(EACH_HOLDS).await;
            roamer.release(&attempt).await.ok();
        });
        let_pass(SPACING).await;
        if number == WAITERS / 2 {
            cluster.node(leader).kill();
        }
    }
    let roamer = cluster.roamer(0);
    let queue = eventually(PATIENCE, "all of them wait", async || {
        let queue = roamer.lock("db").await.queue();
        (queue.len() == WAITERS).then_some(queue)
    })
    .await;
    roamer.release(&holder).await.ok();
    waiters.join_all().await;
    let (owners, fences): (Vec<_>, Vec<_>) = std::mem::take(&mut *order.lock().await).into_iter().unzip();
    assert_eq!(owners, queue);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_release_lets_one_waiter_in_and_a_repeated_call_keeps_its_place() {
    let cluster = Cluster::start(3).await;
    let holder = Attempt::at("db").owner("holder").ttl_ms(LONG_MS);
    let fence = cluster.roamer(0).acquire(&holder).await.ok().fence();
    let attempts: Vec<_> = ["a", "b", "c"]
        .map(|owner| Attempt::at("db").owner(owner).ttl_ms(LONG_MS).wait_ms(LONG_MS))
        .into_iter()
        .collect();
    let mut calls = Vec::new();
    for (number, attempt) in attempts.iter().enumerate() {
        calls.push(wait_at(&cluster, 1, attempt));
        queue_is(&cluster, &["a", "b", "c"][..=number]).await;
    }

    // The first one comes again through another node; then its first connection goes.
    let again = wait_at(&cluster, 2, &attempts[0]);
    cluster.status(2).await.expect("the node has taken the call before");
    queue_is(&cluster, &["a", "b", "c"]).await;
    calls[0].abort();
    let_pass(Duration::from_secs(1)).await; // A goodbye would have had its effect by now.
    queue_is(&cluster, &["a", "b", "c"]).await;

    cluster.roamer(0).release(&holder).await.ok();
    assert_eq!(again.await.unwrap(), fence + 1);
    let_pass(Duration::from_secs(1)).await; // Whoever was woken as well would be there by now.
    queue_is(&cluster, &["b", "c"]).await;
    assert!(!calls[1].is_finished() && !calls[2].is_finished());

    cluster.roamer(0).release(&attempts[0]).await.ok();
    assert_eq!(calls.remove(1).await.unwrap(), fence + 2);
    queue_is(&cluster, &["c"]).await;
}

fn wait_at(cluster: &Cluster, node: u64, attempt: &Attempt) -> tokio::task::JoinHandle<u64> {
    let (client, attempt) = (cluster.client(node), attempt.clone());
    tokio::spawn(async move { client.acquire(&attempt).await.unwrap().ok().fence() })
}

async fn queue_is(cluster: &Cluster, owners: &[&str]) {
    let roamer = cluster.roamer(2);
    eventually(PATIENCE, &format!("the queue is {owners:?}"), async || {
        (roamer.lock("db").await.queue() == owners).then_some(())
    })
    .await;
}
