//! Any node serves any call; a node without a majority says so.

use std::time::{Duration, Instant};

use holdfast_server::{Listeners, Node, ServeConfig, ServeOptions};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{Service, addr_of, call, token};

#[tokio::test]
async fn every_node_serves_every_call_with_the_same_answers() {
    let service = Service::start_nodes(3).await;
    for url in service.cluster.urls() {
        let addr = addr_of(url);
        let body = Some(json!({"token": token('a'), "owner": "alice"}));
        let grant = call(addr, "POST", "/v1/locks/x/acquire", body).await.ok();
        for other in service.cluster.urls() {
            let lock = call(addr_of(other), "GET", "/v1/locks/x", None).await.ok();
            assert_eq!(lock["holders"][0]["fence"], grant["fence"], "{other} after {url}");
        }
        call(addr, "POST", "/v1/locks/x/acquire", Some(json!({"token": token('b')}))).await.problem("held");
        call(addr, "POST", "/v1/locks/x/renew", Some(json!({"token": token('a')}))).await.ok();
        call(addr, "POST", "/v1/locks/x/renew", Some(json!({"token": "x"})))
            .await
            .problem("invalid_argument");
        let cluster = call(addr, "GET", "/v1/cluster", None).await.ok();
        assert_eq!(cluster["members"].as_array().unwrap().len(), 3);
        for (member, url) in cluster["members"].as_array().unwrap().iter().zip(service.cluster.urls()) {
            assert_eq!(member["client_url"], *url);
        }
    }
    service.cluster.shutdown().await.unwrap();
}

/// A node whose two peers are not there.
fn lonely(folder: &TempDir) -> ServeConfig {
    let options = ServeOptions {
        node_id: Some(1),
        listen: Some("127.0.0.1:0".into()),
        peer_listen: Some("127.0.0.1:0".into()),
        data_dir: Some(folder.path().into()),
        initial_cluster: Some("1=127.0.0.1:1,2=127.0.0.1:2,3=127.0.0.1:3".into()),
        ..ServeOptions::default()
    };
    options.resolve().unwrap()
}

#[tokio::test]
async fn a_node_without_a_majority_is_alive_but_not_ready_and_grants_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = lonely(&folder);
    let listeners = Listeners::bind(&config).unwrap();
    let node = Node::start(config, listeners).await.unwrap();
    let addr = addr_of(node.client_url()).to_owned();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(node.run(async { stopped.await.unwrap() }));
    call(&addr, "GET", "/livez", None).await.ok();
    let not_ready = call(&addr, "GET", "/readyz", None).await;
    assert_eq!((not_ready.status, not_ready.header("retry-after")), (503, Some("1")));
    for (method, path) in [("POST", "/v1/locks/x/acquire"), ("GET", "/v1/locks/x"), ("GET", "/v1/locks")] {
        let begun = Instant::now();
        let reply = call(&addr, method, path, None).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{path} took {:?}", begun.elapsed());
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{path}");
        reply.problem("no_leader");
    }
    assert_eq!(call(&addr, "GET", "/v1/cluster", None).await.ok()["leader_id"], json!(null));
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
