//! Strangers on the peer port: refused, without harm to anybody.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A stranger's connection is closed within this: it has to greet in two seconds.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// Bytes that are no greeting of this cluster.
fn garbage() -> Vec<Vec<u8>> {
    let mut noise = vec![0; 4096];
    getrandom_fill(&mut noise);
    vec![
        Vec::new(),
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".to_vec(),
        b"GET /v1/cluster HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        vec![0xFF; 64],
        vec![0; 64],
        noise[..1].to_vec(),
        noise[..22].to_vec(),
        noise.clone(),
        noise.repeat(256),
    ]
}

fn getrandom_fill(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(32) {
        let token = holdfast_tests::new_token();
        chunk.copy_from_slice(&token.as_bytes()[..chunk.len()]);
    }
}

/// Sends bytes and waits until the other side closes; whatever it says is thrown away.
async fn sent_and_closed(address: SocketAddr, bytes: Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(&bytes).await; // It may be cut before it has sent everything.
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(CLOSED_WITHIN, stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "a stranger is not kept: {} bytes of {:?}", bytes.len(), bytes.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_and_idle_strangers_change_neither_leader_nor_term_nor_process() {
    const IDLE: usize = 1_000;
    let cluster = Cluster::start(3).await;
    let hold = Attempt::at("db").ttl_ms(600_000);
    cluster.client(1).acquire(&hold).await.unwrap().ok();
    let leader = cluster.leader().await;
    let term = cluster.status(leader).await.unwrap().term();
    let pids: Vec<_> = cluster.nodes().iter().map(|node| node.pid()).collect();
    for node in cluster.nodes() {
        let address = node.addresses().peer;
        let mut idle = Vec::new();
        for _ in 0..IDLE {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        for bytes in garbage() {
            sent_and_closed(address, bytes).await;
            let renewed = cluster.client(node.id()).renew(&hold).await.unwrap().ok();
            assert!(renewed.took < Duration::from_secs(1), "{:?}", renewed.took);
        }
    }
    assert_eq!(cluster.leader().await, leader);
    for (node, pid) in cluster.nodes().iter().zip(pids) {
        assert!(node.is_running() && node.pid() == pid);
        assert_eq!(cluster.status(node.id()).await.unwrap().term(), term);
        assert!(!node.log().contains("panicked"), "{}", node.log());
    }
}

/// A node of another cluster that was told, by mistake, to look for its peers here.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_cluster_is_refused() {
    let here = Cluster::start(3).await;
    let leader = here.leader().await;
    let term = here.status(leader).await.unwrap().term();
    let there = Cluster::start(1).await;
    there.node(1).terminate().await;
    let members = here.nodes().iter().map(|node| format!("{}={}", node.id(), node.addresses().peer));
    let members = members.collect::<Vec<_>>().join(",");
    let folder = there.node(1).data_dir().to_owned();
    let log = there.folder().join("lost.log");
    let lost = holdfast_tests::Node::new(
        1,
        holdfast_tests::LoopbackHost::choose().reserve(1).remove(0),
        folder,
        log,
        vec!["--initial-cluster".into(), members],
    );
    lost.start();
    lost.ready(holdfast_tests::PATIENCE).await;
    let ours = here.status(leader).await.unwrap();
    let theirs = lost.client().get("/v1/cluster").await.unwrap().ok();
    assert_ne!(theirs.body["cluster_id"].as_str(), ours.cluster_id());
    assert_eq!((ours.leader_id(), ours.term()), (Some(leader), term));
    assert!(here.client(leader).acquire(&Attempt::at("db")).await.unwrap().is_ok());
}
