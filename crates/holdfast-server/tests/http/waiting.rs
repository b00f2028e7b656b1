//! Clients that wait for a lock.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Reply, Service, request, token};

/// A client in the queue of the lock `x`; the length of the queue shows when it is in.
async fn join_queue(service: &Service, body: Value, length: u64) -> TcpStream {
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    stream.write_all(request("POST", "/v1/locks/x/acquire", Some(body)).as_bytes()).await.unwrap();
    until_queue_has(service, length).await;
    stream
}

async fn until_queue_has(service: &Service, length: u64) {
    let reached = async {
        while service.get("/v1/locks/x").await.ok()["queue_length"] != length {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("the queue gets that long");
}

fn wait(letter: char) -> Value {
    json!({"token": token(letter), "owner": letter.to_string(), "wait_ms": 60_000})
}

#[tokio::test]
async fn a_release_grants_the_lock_to_the_first_who_waits() {
    let service = Service::start().await;
    let held = service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let mut second = join_queue(&service, wait('b'), 1).await;
    let mut third = join_queue(&service, wait('c'), 2).await;
    let lock = service.get("/v1/locks/x").await.ok();
    assert_eq!((&lock["queue"][0]["owner"], &lock["queue"][1]["owner"]), (&json!("b"), &json!("c")));
    service.post("/v1/locks/x/release", json!({"token": token('a')})).await.ok();
    let granted = Reply::read(&mut second).await.ok();
    assert_eq!(granted["owner"], "b");
    assert!(granted["fence"].as_u64() > held["fence"].as_u64());
    service.post("/v1/locks/x/release", json!({"token": token('b')})).await.ok();
    assert_eq!(Reply::read(&mut third).await.ok()["owner"], "c");
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_the_queue() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let gone = join_queue(&service, wait('b'), 1).await;
    let mut stays = join_queue(&service, wait('c'), 2).await;
    drop(gone);
    until_queue_has(&service, 1).await;
    service.post("/v1/locks/x/release", json!({"token": token('a')})).await.ok();
    assert_eq!(Reply::read(&mut stays).await.ok()["owner"], "c");
    service.stop().await;
}

#[tokio::test]
async fn a_waiter_that_is_released_is_told_so_and_leaves_the_queue() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let mut waiter = join_queue(&service, wait('b'), 1).await;
    let released = service.post("/v1/locks/x/release", json!({"token": token('b')})).await.ok();
    assert_eq!(released, json!({"name": "x", "fence": null, "released": true}));
    Reply::read(&mut waiter).await.problem("lease_released");
    assert_eq!(service.get("/v1/locks/x").await.ok()["queue_length"], 0);
    service.stop().await;
}

#[tokio::test]
async fn clients_that_wait_take_no_thread_each() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let before = std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut waiting = Vec::new();
    for n in 0..100 {
        let mut stream = TcpStream::connect(service.addr()).await.unwrap();
        let body = json!({"token": format!("{}-{n}", token('w')), "wait_ms": 60_000});
        stream.write_all(request("POST", "/v1/locks/x/acquire", Some(body)).as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    until_queue_has(&service, 100).await;
    assert!(std::fs::read_dir("/proc/self/task").unwrap().count() <= before + 2);
    assert!(service.get("/metrics").await.text().contains("holdfast_local_waiters 100\n"));
    service.stop().await;
}
