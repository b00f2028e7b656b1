//! The log stays short, and whoever was away for longer than it reaches back gets a snapshot.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_tests::{Attempt, Client, Cluster, ClusterView, PATIENCE, Roamer, eventually};
use serde_json::json;
use tokio::task::JoinSet;

const LOCKS: usize = 1_000;
const CLIENTS: usize = 64;
/// `scripts/disk-bound` asks for a million.
const OPERATIONS_VARIABLE: &str = "HOLDFAST_TEST_OPERATIONS";
const OPERATIONS_DEFAULT: usize = 36_000;
const FOLDER_BYTES_MAX: u64 = 256 << 20;

fn operations() -> usize {
    let given = std::env::var(OPERATIONS_VARIABLE).ok();
    given.map_or(OPERATIONS_DEFAULT, |text| text.parse().expect("a number of operations"))
}

/// Acquires and releases, with names, owners and metadata as long as they may be, until so many operations are done.
async fn operate(clients: Vec<Client>, number: usize, done: Arc<AtomicUsize>, wanted: usize) {
    let roamer = Roamer::new(clients, number);
    let words = "x".repeat(1_000);
    for round in 0.. {
        if done.fetch_add(2, Ordering::Relaxed) >= wanted {
            return;
        }
        let lock = format!("{:x<512}", format!("lock-{}-", (number + round * CLIENTS) % LOCKS));
        let attempt = Attempt::at(lock).owner("x".repeat(256)).wait_ms(60_000);
        let attempt = attempt.metadata(json!({ "words": words }));
        roamer.acquire(&attempt).await.ok();
        roamer.release(&attempt).await.ok();
    }
}

fn file_names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn folder_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| match entry.metadata() {
            Ok(of) if of.is_dir() => folder_bytes(&entry.path()),
            Ok(of) => of.len(),
            Err(_) => 0, // Removed meanwhile.
        })
        .sum()
}

/// Three nodes whose log does not reach back to the beginning any more, the fence of a lock that is held, and which of them
/// was away and still is.
async fn cut_the_log() -> (Cluster, u64, u64) {
    let cluster = Cluster::start(3).await;
    let hold = Attempt::at("held").ttl_ms(86_400_000);
    let fence = cluster.client(1).acquire(&hold).await.unwrap().ok().fence();
    let leader = cluster.leader().await;
    let away = cluster.node(cluster.others(leader)[0]);
    let first_segment = "log-00000000000000000001.hf";
    assert!(file_names(away.data_dir()).iter().any(|name| name == first_segment));
    away.kill();
    // What a lock keeps while nobody holds it comes with the snapshot, too.
    let run = Attempt::at("done").once_ms(86_400_000);
    let roamer = cluster.roamer(0);
    roamer.acquire(&run).await.ok();
    let body = json!({"token": run.token, "done": true});
    let released = roamer.post("/v1/locks/done/release", &body, PATIENCE).await.ok();
    assert_eq!(released.body["done"], true);

    let others: Vec<_> = cluster.others(away.id()).iter().map(|id| cluster.client(*id)).collect();
    let done = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(operate(others.clone(), number, done.clone(), operations()));
    }
    clients.join_all().await;
    let names = eventually(PATIENCE, "the log is cut", async || {
        let names = file_names(cluster.node(leader).data_dir());
        (!names.iter().any(|name| name == first_segment)).then_some(names)
    })
    .await;
    assert!(names.iter().any(|name| name.starts_with("snap-")), "there is a snapshot: {names:?}");

    let away = away.id();
    (cluster, fence, away)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_away_for_longer_than_the_log_catches_up_and_folders_stay_small() {
    let (cluster, fence, away) = cut_the_log().await;
    let away = cluster.node(away);
    away.start();
    away.ready(PATIENCE).await;
    cluster.ready().await;
    cluster.equal_digests(&cluster.ids()).await;
    for node in cluster.nodes() {
        assert_eq!(node.client().lock("held").await.unwrap().ok().held_fence(), Some(fence));
        let again = Attempt::at("done").once_ms(86_400_000);
        assert_eq!(node.client().acquire(&again).await.unwrap().code(), "already_done");
        let bytes = folder_bytes(node.data_dir());
        assert!(bytes < FOLDER_BYTES_MAX, "node {} has {bytes} bytes", node.id());
    }

    // What was installed is what a restart begins with.
    away.kill();
    away.start();
    cluster.ready().await;
    cluster.equal_digests(&cluster.ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_gets_a_snapshot_and_all_know_their_members_after_a_restart() {
    let (mut cluster, fence, _) = cut_the_log().await;
    cluster.start_all();
    cluster.ready().await;
    let joiner = cluster.joiner(4, &[1, 2, 3], &[]);
    joiner.start();
    let voters = |view: &ClusterView| view.voter_ids() == [1, 2, 3, 4];
    eventually(PATIENCE, "it votes", async || cluster.status(1).await.filter(voters)).await;
    assert!(file_names(joiner.data_dir()).iter().any(|name| name.starts_with("snap-")));
    cluster.adopt(joiner);
    cluster.client(2).delete("/v1/cluster/members/1", &json!({})).await.unwrap().ok();
    cluster.dismiss(1);
    cluster.leader().await;
    cluster.kill_all();
    cluster.start_all();
    cluster.leader().await;
    for node in cluster.nodes() {
        assert_eq!(cluster.status(node.id()).await.unwrap().voter_ids(), [2, 3, 4]);
        assert_eq!(node.client().lock("held").await.unwrap().ok().held_fence(), Some(fence));
    }
}
