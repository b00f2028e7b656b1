//! A node that is told to stop.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Reply, Service, request, token};

#[tokio::test]
async fn a_client_that_waits_gets_an_answer_when_the_node_stops() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    let body = Some(json!({"token": token('b'), "wait_ms": 60_000}));
    stream.write_all(request("POST", "/v1/locks/x/acquire", body).as_bytes()).await.unwrap();
    while service.get("/v1/locks/x").await.ok()["queue_length"] != 1 {
        tokio::task::yield_now().await;
    }
    let addr = service.addr().to_owned();
    service.cluster.shutdown().await.unwrap();
    // The attempt keeps its place for a while: the client can go on with it at another node.
    Reply::read(&mut stream).await.problem("unknown_outcome");
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_cluster_in_a_folder_keeps_its_locks_from_start_to_start() {
    let folder = tempfile::tempdir().unwrap();
    // A cluster in a folder stays at its ports: this one is free now, and so most likely is the one for peers above it.
    let base_port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let options = || holdfast_server::DevOptions {
        nodes: 1,
        base_port,
        data_dir: Some(folder.path().into()),
        ..Default::default()
    };
    let cluster = holdfast_server::dev_cluster(options()).await.unwrap();
    cluster.ready().await.unwrap();
    let service = Service { cluster };
    let grant = service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    service.cluster.shutdown().await.unwrap();
    let cluster = holdfast_server::dev_cluster(options()).await.unwrap();
    cluster.ready().await.unwrap();
    let service = Service { cluster };
    let lock = service.get("/v1/locks/x").await.ok();
    assert_eq!(lock["holders"][0]["fence"], grant["fence"]);
    let next = service.call("POST", "/v1/locks/y/acquire", None).await.ok();
    assert!(next["fence"].as_u64() > grant["fence"].as_u64());
    service.cluster.shutdown().await.unwrap();
}
