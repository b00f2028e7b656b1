//! The program and its folder: whose it is, and what it does about what it finds there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, LoopbackHost, Node, PATIENCE, Setup, eventually};

const LONG_MS: u64 = 600_000;

/// A node with the id and folder of another one, on addresses of its own.
fn stranger(cluster: &Cluster, id: u64, data_dir: &Path, more: &[&str]) -> Node {
    let addresses = LoopbackHost::choose().reserve(1).remove(0);
    let args = more.iter().map(ToString::to_string).collect();
    Node::new(id, addresses, data_dir.into(), cluster.folder().join(format!("stranger-{id}.log")), args)
}

/// Starts a node that has to end by itself, and say why.
pub(crate) async fn refuses_to_start(node: &Node, because: &[&str]) {
    node.start();
    let status = node.exited(PATIENCE).await;
    assert!(!status.success());
    let log = node.log();
    for words in because {
        assert!(log.contains(words), "does not say {words:?}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_takes_one_process_and_one_node_id() {
    let cluster = Cluster::start(1).await;
    let folder = cluster.node(1).data_dir();
    refuses_to_start(&stranger(&cluster, 1, folder, &[]), &["in use by another process"]).await;
    assert!(cluster.node(1).is_ready().await, "the first process is not disturbed");
    cluster.node(1).terminate().await;
    refuses_to_start(&stranger(&cluster, 2, folder, &[]), &["belongs to node 1"]).await;
    cluster.node(1).start();
    cluster.node(1).ready(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_data_is_never_a_second_bootstrap() {
    let cluster = Cluster::start(1).await;
    let hold = Attempt::at("db").ttl_ms(LONG_MS);
    let fence = cluster.client(1).acquire(&hold).await.unwrap().ok().fence();
    let cluster_id = cluster.cluster_id(1).await;
    cluster.node(1).terminate().await;

    let list = "1=127.0.0.1:1,2=127.0.0.1:2,3=127.0.0.1:3";
    let again = stranger(&cluster, 1, cluster.node(1).data_dir(), &["--initial-cluster", list]);
    again.start();
    again.ready(PATIENCE).await;
    let status = again.client().get("/v1/cluster").await.unwrap().ok();
    assert_eq!(status.body["cluster_id"], cluster_id.as_str());
    assert_eq!(status.body["members"].as_array().unwrap().len(), 1);
    assert_eq!(again.client().renew(&hold).await.unwrap().ok().fence(), fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_forms_in_any_order_of_starts_once_a_majority_is_up() {
    for order in [[1, 2, 3], [3, 1, 2]] {
        let cluster = Setup::nodes(3).make();
        cluster.node(order[0]).start();
        cluster.node(order[0]).alive(PATIENCE).await;
        assert!(!cluster.node(order[0]).is_ready().await);
        let refused = cluster.client(order[0]).acquire(&Attempt::at("db")).await.unwrap();
        assert_eq!(refused.code(), "no_leader");
        cluster.node(order[1]).start();
        let leader = cluster.leader_among(&order[..2]).await;
        let fence = cluster.client(leader).acquire(&Attempt::at("db")).await.unwrap().ok().fence();
        assert_eq!(fence, 1);
        cluster.node(order[2]).start();
        cluster.ready().await;
        for id in cluster.ids() {
            let status = cluster.status(id).await.unwrap();
            assert_eq!(status.0["members"].as_array().unwrap().len(), 3);
        }
        cluster.equal_digests(&[1, 2, 3]).await;
    }
}

/// Changes how many files a process may have open; says how many it could have before.
fn limit_files(pid: u32, files: u64) -> u64 {
    let pid = i32::try_from(pid).unwrap();
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `old` outlives the call, and no new limit is given.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut old) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let new = libc::rlimit { rlim_cur: files, ..old };
    // SAFETY: `new` outlives the call, and the old limit is not asked for.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    old.rlim_cur
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_runs_out_of_file_descriptors_serves_again_once_there_are_some() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let starved = cluster.node(leader);
    let open = fs::read_dir(format!("/proc/{}/fd", starved.pid())).unwrap().count() as u64;
    let usual = limit_files(starved.pid(), open + 10);
    let address = starved.addresses().client;
    let greedy: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let hold = Attempt::at("db").ttl_ms(LONG_MS);
    let other = cluster.client(cluster.others(leader)[0]);
    let fence = holdfast_tests::Roamer::new(vec![other], 0).acquire(&hold).await.ok().fence();
    drop(greedy);
    limit_files(starved.pid(), usual);
    eventually(Duration::from_secs(10), "the starved node serves again", async || {
        let answer = starved.client().renew(&hold).await.ok()?;
        (answer.is_ok() && answer.fence() == fence).then_some(())
    })
    .await;
    assert!(starved.is_running());
}
