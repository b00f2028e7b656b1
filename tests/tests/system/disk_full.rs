//! A full disk: nothing is acknowledged that is not durable, others take over, and the node comes back once there is room.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, Roamer, Setup, eventually};
use tokio::sync::watch;
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);

/// A small file system in memory, unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, with the reason said, where this may not be done.
    #[expect(clippy::print_stderr, reason = "a test that shows nothing must say so")]
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(at).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(at.into())),
            other => {
                eprintln!("*** SKIPPED, NOTHING IS SHOWN: cannot mount a tmpfs: {other:?}");
                None
            }
        }
    }

    /// Fills it up, but for so many bytes.
    fn fill(&self, but: u64) -> PathBuf {
        let path = self.0.join("ballast");
        let mut ballast = File::create(&path).unwrap();
        let piece = vec![0; 4096];
        while ballast.write_all(&piece).is_ok() {}
        let len = ballast.metadata().unwrap().len();
        ballast.set_len(len.saturating_sub(but)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the node's process may be ending.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

async fn cluster_with_small_disk(disk: &SmallDisk) -> Cluster {
    Setup { data_dirs: vec![disk.0.join("data")], ..Setup::nodes(3) }.start().await
}

fn place() -> tempfile::TempDir {
    tempfile::TempDir::with_prefix("holdfast-test-disk-").unwrap()
}

/// Kills leaders until node 1 is elected.
async fn let_node_one_lead(cluster: &Cluster) {
    loop {
        let leader = cluster.leader().await;
        if leader == 1 {
            return;
        }
        cluster.node(leader).kill();
        cluster.leader_among(&cluster.others(leader)).await;
        cluster.start_all();
        cluster.ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_short_of_space_lets_another_lead_and_serves_again_once_there_is_room() {
    const LEFT: u64 = 8 << 20;
    let place = place();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let cluster = cluster_with_small_disk(&disk).await;
    let hold = Attempt::at("db").ttl_ms(LONG_MS);
    let fence = cluster.roamer(0).acquire(&hold).await.ok().fence();
    let_node_one_lead(&cluster).await;

    let ballast = disk.fill(LEFT);
    cluster_goes_on_without_node_one(&cluster).await;
    let short = cluster.node(1);
    let refused = short.client().acquire(&Attempt::at("new")).await.unwrap();
    assert_eq!((refused.status, refused.code()), (503, "no_space"));
    assert!(short.log().contains("short of disk space"));
    assert!(short.client().get("/livez").await.unwrap().is_ok());

    fs::remove_file(ballast).unwrap();
    short.ready(PATIENCE).await;
    assert_eq!(short.client().renew(&hold).await.unwrap().ok().fence(), fence);
    cluster.equal_digests(&cluster.ids()).await;
}

async fn cluster_goes_on_without_node_one(cluster: &Cluster) {
    let others = Roamer::new(vec![cluster.client(2), cluster.client(3)], 0);
    eventually(TAKEN_OVER_WITHIN, "another node leads, and node 1 is not ready", async || {
        let leader = cluster.status(2).await?.leader_id()?;
        (leader != 1 && !cluster.node(1).is_ready().await).then_some(())
    })
    .await;
    others.acquire(&Attempt::at("meanwhile").ttl_ms(LONG_MS)).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_disk_is_full_acknowledges_nothing_more_and_needs_no_repair() {
    const CLIENTS: usize = 8;
    let place = place();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let cluster = cluster_with_small_disk(&disk).await;
    let_node_one_lead(&cluster).await;
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(take_locks(cluster.roamer(client), client, stopped.clone()));
    }
    let ballast = disk.fill(0);
    let full = cluster.node(1);
    cluster_goes_on_without_node_one(&cluster).await;
    stop.send_replace(true);
    let granted: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    assert!(
        full.log().contains("short of disk space") || full.log().contains("No space left"),
        "{}",
        full.log()
    );

    fs::remove_file(ballast).unwrap();
    assert!(full.is_running(), "{}", full.log());
    full.ready(PATIENCE).await;
    cluster.equal_digests(&cluster.ids()).await;
    for id in cluster.ids() {
        let listed = Roamer::new(vec![cluster.client(id)], 0).list("lock-").await;
        let found: BTreeMap<_, _> = listed
            .iter()
            .map(|lock| (lock["name"].as_str().unwrap(), lock["holders"][0]["fence"].as_u64().unwrap()))
            .collect();
        for (lock, fence) in &granted {
            assert_eq!(found.get(lock.as_str()), Some(fence), "{lock} at node {id}");
        }
    }
}

/// Takes lock after lock, and returns what it was told.
async fn take_locks(roamer: Roamer, client: usize, stop: watch::Receiver<bool>) -> Vec<(String, u64)> {
    let mut granted = Vec::new();
    while !*stop.borrow() {
        let lock = format!("lock-{client}-{}", granted.len());
        granted.push((lock.clone(), roamer.acquire(&Attempt::at(lock).ttl_ms(LONG_MS)).await.ok().fence()));
    }
    granted
}

async fn lone_node_with_a_hold(disk: &SmallDisk) -> (Cluster, Attempt, u64) {
    let cluster = Setup { data_dirs: vec![disk.0.join("data")], ..Setup::nodes(1) }.start().await;
    let hold = Attempt::at("db").ttl_ms(LONG_MS);
    let fence = cluster.client(1).acquire(&hold).await.unwrap().ok().fence();
    (cluster, hold, fence)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_whose_disk_is_full_serves_again_by_itself_once_there_is_room() {
    let place = place();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let (cluster, hold, fence) = lone_node_with_a_hold(&disk).await;
    let (node, client) = (cluster.node(1), cluster.client(1));

    let ballast = disk.fill(0);
    let refused = eventually(PATIENCE, "nothing is acknowledged any more", async || {
        let answer = client.renew(&hold).await.unwrap();
        (!answer.is_ok()).then_some(answer)
    })
    .await;
    assert!([503, 504].contains(&refused.status), "{refused:?}");
    for _ in 0..3 {
        let answer = client.acquire(&Attempt::at("new")).await.unwrap();
        assert_eq!((answer.status, answer.code()), (503, "no_space"));
        let answer = client.release(&hold).await.unwrap();
        assert!([503, 504].contains(&answer.status), "{answer:?}");
    }
    assert!(!node.is_ready().await);

    fs::remove_file(ballast).unwrap();
    node.ready(PATIENCE).await;
    assert!(node.is_running(), "{}", node.log());
    let after = client.acquire(&Attempt::at("after")).await.unwrap().ok().fence();
    assert!(after > fence);
    node.kill();
    node.start();
    node.ready(PATIENCE).await;
    let listed = cluster.roamer(0).list("after").await;
    assert_eq!(listed[0]["holders"][0]["fence"].as_u64(), Some(after));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_on_a_full_disk_serves_once_there_is_room() {
    let place = place();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let (cluster, hold, fence) = lone_node_with_a_hold(&disk).await;
    let (node, client) = (cluster.node(1), cluster.client(1));
    node.kill();
    let ballast = disk.fill(0);
    node.start();
    eventually(PATIENCE, "the node says that it waits", async || {
        node.log().contains("the disk is full").then_some(())
    })
    .await;
    fs::remove_file(ballast).unwrap();
    node.ready(PATIENCE).await;
    assert_eq!(client.renew(&hold).await.unwrap().ok().fence(), fence);
}
