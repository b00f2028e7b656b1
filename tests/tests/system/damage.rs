//! A folder that is not what its node left behind: what a crash explains is mended, anything else refuses to start.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, Node, PATIENCE, eventually, let_pass};

use crate::program::refuses_to_start;

const LONG_MS: u64 = 600_000;
/// What was acknowledged longer ago is known to the log's witness.
const WITNESSED_AFTER: Duration = Duration::from_millis(1_500);

fn log_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")))
        .collect();
    files.sort();
    files
}

fn cut(file: &Path, bytes: u64) {
    let open = fs::OpenOptions::new().write(true).open(file).unwrap();
    open.set_len(open.metadata().unwrap().len() - bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_of_a_followers_log_is_trimmed_said_and_fetched_again() {
    let cluster = Cluster::start(3).await;
    let roamer = cluster.roamer(0);
    for (round, bytes) in [1, 7, 40, 100].into_iter().enumerate() {
        let leader = cluster.leader().await;
        let torn = cluster.node(cluster.others(leader)[0]);
        torn.kill();
        for number in 0..5 {
            roamer.acquire(&Attempt::at(format!("lock-{round}-{number}")).ttl_ms(LONG_MS)).await.ok();
        }
        torn.start();
        cluster.ready().await;
        cluster.equal_digests(&cluster.ids()).await;
        torn.kill();
        cut(log_files(torn.data_dir()).last().unwrap(), bytes);
        let told_before = torn.log().matches("trimmed an incomplete tail").count();
        torn.start();
        cluster.ready().await;
        assert_eq!(
            torn.log().matches("trimmed an incomplete tail").count(),
            told_before + 1,
            "{bytes} bytes"
        );
        cluster.equal_digests(&cluster.ids()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_middle_of_a_log_refuses_to_start_and_names_file_and_offset() {
    let cluster = Cluster::start(3).await;
    for number in 0..50 {
        cluster.roamer(0).acquire(&Attempt::at(format!("lock-{number}")).ttl_ms(LONG_MS)).await.ok();
    }
    let leader = cluster.leader().await;
    let damaged = cluster.node(cluster.others(leader)[0]);
    damaged.kill();
    let file = log_files(damaged.data_dir()).remove(0);
    flip_a_bit(&file);
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    refuses_to_start(damaged, &[&name, "offset"]).await;
    assert!(cluster.client(leader).acquire(&Attempt::at("after")).await.unwrap().is_ok());
}

fn flip_a_bit(file: &Path) {
    let open = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let middle = open.metadata().unwrap().len() / 2;
    let mut byte = [0];
    open.read_exact_at(&mut byte, middle).unwrap();
    open.write_all_at(&[byte[0] ^ 0x10], middle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_folder_under_an_old_id_is_refused_by_the_others() {
    let cluster = Cluster::start(3).await;
    cluster.settled().await; // Every node has registered its folder.
    let leader = cluster.leader().await;
    let term = cluster.status(leader).await.unwrap().term();
    let wiped = cluster.node(cluster.others(leader)[0]);
    wiped.kill();
    fs::remove_dir_all(wiped.data_dir()).unwrap();
    wiped.start();
    eventually(PATIENCE, "the others or the node itself say why it is refused", async || {
        let logs = cluster.nodes().iter().map(Node::log).collect::<String>();
        logs.contains("has registered another data folder").then_some(())
    })
    .await;
    assert!(!wiped.is_ready().await);
    let others = cluster.others(wiped.id());
    assert_eq!(cluster.leader_among(&others).await, leader);
    assert_eq!(cluster.status(leader).await.unwrap().term(), term);
    assert!(cluster.client(leader).acquire(&Attempt::at("db")).await.unwrap().is_ok());
}

/// Overwrites the end of a file with zeros.
fn blank(file: &Path, bytes: usize) {
    let open = fs::OpenOptions::new().write(true).open(file).unwrap();
    let end = open.metadata().unwrap().len();
    open.write_all_at(&vec![0; bytes], end - bytes as u64).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_whose_log_has_lost_acknowledged_records_at_its_end_refuses_to_start() {
    let half = |file: &Path| cut(file, fs::metadata(file).unwrap().len() / 2);
    let blanked = |file: &Path| blank(file, 3_000);
    for damage in [&half as &dyn Fn(&Path), &blanked] {
        let cluster = Cluster::start(1).await;
        let node = cluster.node(1);
        for number in 0..30 {
            let attempt = Attempt::at(format!("lock-{number}")).ttl_ms(LONG_MS);
            cluster.client(1).acquire(&attempt).await.unwrap().ok();
        }
        let_pass(WITNESSED_AFTER).await;
        node.kill();
        damage(log_files(node.data_dir()).last().unwrap());
        refuses_to_start(node, &["the log has lost entries"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_its_log_refuses_to_start() {
    let cluster = Cluster::start(3).await;
    cluster.settled().await;
    let robbed = cluster.node(cluster.others(cluster.leader().await)[0]);
    robbed.kill();
    for file in log_files(robbed.data_dir()) {
        fs::remove_file(file).unwrap();
    }
    refuses_to_start(robbed, &["the log (log-*.hf) is missing", "join anew"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_folder_is_not_counted_on_by_a_cluster_that_starts_anew() {
    let cluster = Cluster::start(3).await;
    cluster.settled().await;
    let hold = Attempt::at("db").ttl_ms(LONG_MS);
    let fence = cluster.roamer(0).acquire(&hold).await.ok().fence();
    cluster.equal_digests(&cluster.ids()).await;
    cluster.kill_all();
    let wiped = cluster.node(1);
    fs::remove_dir_all(wiped.data_dir()).unwrap();
    wiped.start();
    cluster.node(2).start();
    eventually(PATIENCE, "the wiped node is refused", async || {
        let logs = wiped.log() + &cluster.node(2).log();
        logs.contains("has registered another data folder").then_some(())
    })
    .await;
    assert!(!cluster.node(2).is_ready().await, "one and a wiped one are no majority");
    cluster.node(3).start();
    cluster.leader_among(&[2, 3]).await;
    assert_eq!(cluster.client(2).renew(&hold).await.unwrap().ok().fence(), fence);
}
