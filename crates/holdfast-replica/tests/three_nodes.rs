//! Three replicas in one process, on real folders and sockets.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of adapters to the real world"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::TcpListener;
use std::time::Duration;

use holdfast_core::{AttemptKey, LockName, Metadata, Owner, Rejection, Share, Ttl, Wait};
use holdfast_replica::handle::{Acquired, Attempt, CallFailure, Consistency};
use holdfast_replica::node::{self, NodeOptions, NodeReplica, Timing};

struct Cluster {
    nodes: Vec<NodeReplica>,
    _folders: Vec<tempfile::TempDir>,
}

async fn cluster(count: u64) -> Cluster {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let members: Vec<_> =
        (1..).zip(&listeners).map(|(id, l)| (id, l.local_addr().unwrap().to_string())).collect();
    let (mut nodes, mut folders) = (Vec::new(), Vec::new());
    for (listener, (id, peer_addr)) in listeners.into_iter().zip(members.clone()) {
        let folder = tempfile::tempdir().unwrap();
        let options = NodeOptions {
            lock_groups: Default::default(),
            node_id: id,
            data_dir: folder.path().join("data"),
            peer_listener: listener,
            peer_addr,
            client_url: format!("http://node-{id}"),
            origin: holdfast_replica::node::Origin::Form,
            stay: holdfast_replica::members::Stay::UntilCaughtUp,
            announced: None,
            initial_cluster: members.clone(),
            timing: Timing::default(),
            version: "test".into(),
        };
        nodes.push(node::open(options).await.unwrap());
        folders.push(folder);
    }
    Cluster { nodes, _folders: folders }
}

fn attempt(lock: &str, token: u8, wait_ms: u64) -> Attempt {
    Attempt {
        lock: LockName::new(lock).unwrap(),
        key: AttemptKey([token; 16]),
        owner: Owner::new("tester").unwrap(),
        ttl: Ttl::from_ms(5_000).unwrap(),
        wait: Wait::from_ms(wait_ms).unwrap(),
        metadata: Metadata::default(),
        session: None,
        terms: holdfast_core::Terms::default(),
        share: Share::Exclusive,
    }
}

async fn grant(node: &NodeReplica, attempt: Attempt) -> u64 {
    match node.acquire(attempt).await {
        Ok((Acquired::Granted(grant), delivery)) => {
            delivery.delivered();
            grant.fence.0
        }
        other => panic!("not granted: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_takes_calls_and_the_queue_passes_over_nodes() {
    let cluster = cluster(3).await;
    let [a, b, c] = &cluster.nodes[..] else { unreachable!() };
    let first = grant(a, attempt("db", 1, 0)).await;
    let refused = b.acquire(attempt("db", 2, 0)).await.map(|(acquired, _)| acquired);
    assert!(matches!(refused, Err(CallFailure::Rejected(Rejection::Held { .. }))), "{refused:?}");
    let waiting = {
        let c = c.clone();
        tokio::spawn(async move { grant(&c, attempt("db", 3, 10_000)).await })
    };
    let name = LockName::new("db").unwrap();
    while b.read(Consistency::Linearizable, |t, now| t.view(&name, now).queue_length).await.unwrap() == 0 {}
    let released = b.release(name.clone(), AttemptKey([1; 16])).await.unwrap();
    assert_eq!(released.map(|fence| fence.0), Some(first));
    let second = tokio::time::timeout(Duration::from_secs(2), waiting).await.unwrap().unwrap();
    assert!(second > first);
    let view = a.read(Consistency::Linearizable, |t, now| t.view(&name, now)).await.unwrap();
    assert_eq!(view.holders[0].fence.0, second);
    for node in &cluster.nodes {
        node.shutdown().await;
    }
}
