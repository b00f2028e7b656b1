//! Holders that use the client library.

use std::time::Duration;

use holdfast_client::{Client, Guard};
use holdfast_tests::{Cluster, eventually, let_pass};
use tokio::task::JoinSet;

const HOLDERS: usize = 20;

fn client_of(cluster: &Cluster) -> Client {
    let urls = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect::<Vec<_>>();
    Client::builder().endpoints(urls).build().unwrap()
}

async fn hold(client: Client, number: usize, ttl: Duration) -> Guard {
    client.lock(format!("lock-{number}")).ttl(ttl).wait(Duration::from_secs(20)).acquire().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_holder_loses_its_lock_over_three_killed_leaders() {
    const TTL: Duration = Duration::from_secs(10);
    let cluster = Cluster::start(3).await;
    let client = client_of(&cluster);
    let mut holders = JoinSet::new();
    for number in 0..HOLDERS {
        holders.spawn(hold(client.clone(), number, TTL));
    }
    let guards = holders.join_all().await;
    let fences: Vec<_> = guards.iter().map(Guard::fence).collect();
    for _ in 0..3 {
        let leader = cluster.leader().await;
        cluster.node(leader).kill();
        cluster.leader_among(&cluster.others(leader)).await;
        // Every holder renews at least once under the new leader: it does so every third of its TTL.
        let_pass(TTL / 2).await;
        cluster.start_all();
        assert!(guards.iter().all(Guard::is_held));
    }
    let roamer = cluster.roamer(0);
    for guard in guards {
        let held = roamer.lock(guard.name()).await.ok().held_fence();
        assert_eq!(held, Some(guard.fence()));
        assert!(fences.contains(&guard.fence()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_costs_a_few_commands_however_many_wait() {
    const WAITERS: usize = 500;
    const COMMANDS_A_GRANT: u64 = 4;
    let cluster = Cluster::start(3).await;
    let first = hold(client_of(&cluster), 0, Duration::from_secs(60)).await;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let client = client_of(&cluster);
        waiters.spawn(async move {
            let request = client.lock("lock-0").wait(Duration::from_secs(120)).ttl(Duration::from_secs(10));
            let mut guard = request.acquire().await.unwrap();
            guard.release().await.unwrap();
        });
    }
    let roamer = cluster.roamer(0);
    eventually(holdfast_tests::PATIENCE, "all are in the queue", async || {
        (roamer.lock("lock-0").await.body["queue_length"] == WAITERS).then_some(())
    })
    .await;
    let before = commands(&cluster).await;
    let mut first = first;
    first.release().await.unwrap();
    waiters.join_all().await;
    let spent = commands(&cluster).await - before;
    let grants = WAITERS as u64;
    assert!(spent <= COMMANDS_A_GRANT * grants, "{spent} commands for {grants} grants");
}

/// Commands that were proposed at all nodes together.
async fn commands(cluster: &Cluster) -> u64 {
    let mut sum = 0;
    for node in cluster.nodes() {
        let text = node.client().get("/metrics").await.unwrap().ok().body.as_str().unwrap().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("holdfast_commands_proposed_total "));
        sum += line.unwrap().parse::<u64>().unwrap();
    }
    sum
}
