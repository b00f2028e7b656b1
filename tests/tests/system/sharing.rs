//! Readers, writers and permits on real processes.

use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, eventually};

const LONG_MS: u64 = 600_000;

fn waiting(lock: &str) -> Attempt {
    Attempt::at(lock).ttl_ms(LONG_MS).wait_ms(LONG_MS)
}

async fn queue_is(cluster: &Cluster, lock: &str, len: u64) {
    eventually(PATIENCE, "the queue is that long", async || {
        (cluster.roamer(0).lock(lock).await.ok().body["queue_length"] == len).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_a_writer_take_turns_over_all_nodes_and_over_a_killed_leader() {
    let cluster = Cluster::start(3).await;
    let readers: Vec<_> = (0..3).map(|_| Attempt::at("db").shared().ttl_ms(LONG_MS)).collect();
    let mut fences = Vec::new();
    for (node, reader) in readers.iter().enumerate() {
        fences.push(cluster.roamer(node).acquire(reader).await.ok().fence());
    }
    let (writer, late) = (waiting("db").owner("writer"), waiting("db").shared().owner("late reader"));
    let (first, second) = (cluster.roamer(1), cluster.roamer(2));
    let writes = tokio::spawn({
        let writer = writer.clone();
        async move { first.acquire(&writer).await.ok().fence() }
    });
    queue_is(&cluster, "db", 1).await;
    let reads = tokio::spawn({
        let late = late.clone();
        async move { second.acquire(&late).await.ok().fence() }
    });
    queue_is(&cluster, "db", 2).await;

    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    cluster.leader_among(&cluster.others(leader)).await;
    for (reader, fence) in readers.iter().zip(&fences) {
        let roamer = cluster.roamer(0);
        assert_eq!(roamer.renew(reader).await.ok().fence(), *fence);
        roamer.release(reader).await.ok();
    }
    let writer_fence = writes.await.unwrap();
    assert!(fences.iter().all(|fence| writer_fence > *fence));
    assert!(!reads.is_finished(), "a reader came in beside the writer");
    cluster.roamer(0).release(&writer).await.ok();
    assert!(reads.await.unwrap() > writer_fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_counted_over_all_nodes_restarts_and_a_change_of_the_limit() {
    const WORKERS: usize = 12;
    const ROUNDS: usize = 5;
    let cluster = Cluster::start(3).await;
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let roamer = cluster.roamer(worker);
        workers.spawn(async move {
            for round in 0..ROUNDS {
                let attempt = waiting("pool").permits(1 + (worker + round) as u64 % 3, 4);
                roamer.acquire(&attempt).await.ok();
                let lock = roamer.lock("pool").await.ok();
                let out = lock.body["permits_out"].as_u64().unwrap();
                assert!((1..=4).contains(&out), "{out} permits are out: {}", lock.body);
                roamer.release(&attempt).await.ok();
            }
        });
    }
    cluster.kill_all();
    cluster.start_all();
    workers.join_all().await;

    let held = Attempt::at("pool").permits(4, 4).ttl_ms(LONG_MS);
    cluster.roamer(0).acquire(&held).await.ok();
    let small = Attempt::at("pool").permits(1, 5);
    assert_eq!(cluster.roamer(1).acquire(&small).await.body["limit"], 4);
    let body = serde_json::json!({"limit": 5});
    let path = "/v1/locks/pool/limit";
    eventually(PATIENCE, "the limit is changed", async || {
        cluster.client(1).post(path, &body, Duration::ZERO).await.ok().filter(holdfast_tests::Answer::is_ok)
    })
    .await;
    cluster.roamer(2).acquire(&small).await.ok();
    cluster.equal_digests(&cluster.ids()).await;
}
