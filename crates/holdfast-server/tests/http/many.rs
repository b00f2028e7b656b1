//! Many locks at once over HTTP, and waits that would close a cycle.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Reply, Service, addr_of, call, request, token};

fn body(letter: char, locks: &[&str], more: Value) -> Value {
    let locks: Vec<_> = locks.iter().map(|name| json!({"name": name})).collect();
    let mut body = json!({"token": token(letter), "owner": letter.to_string(), "locks": locks});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn acquire(service: &Service, letter: char, locks: &[&str], more: Value) -> Reply {
    service.post("/v1/acquire", body(letter, locks, more)).await
}

/// A call that waits at a node; the length of a queue shows when it does.
async fn waits(service: &Service, node: usize, path: &str, body: Value, queue: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr_of(&service.cluster.urls()[node])).await.unwrap();
    stream.write_all(request("POST", path, Some(body)).as_bytes()).await.unwrap();
    let lock = format!("/v1/locks/{queue}");
    let is_there = async {
        while service.get(&lock).await.ok()["queue_length"] != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), is_there).await.expect("it waits");
    stream
}

#[tokio::test]
async fn all_are_granted_renewed_and_released_under_one_token() {
    let service = Service::start().await;
    let granted = acquire(&service, 'a', &["b/1", "a"], json!({"ttl_ms": 5_000})).await.ok();
    assert_eq!((&granted["token"], &granted["ttl_ms"]), (&json!(token('a')), &json!(5_000)));
    assert_eq!((&granted["grants"][0]["name"], &granted["grants"][1]["name"]), (&json!("b/1"), &json!("a")));
    assert!(granted["grants"][1]["fence"].as_u64() > granted["grants"][0]["fence"].as_u64());
    let again = acquire(&service, 'a', &["b/1", "a"], json!({"ttl_ms": 5_000})).await.ok();
    assert_eq!(again["grants"], granted["grants"]);
    acquire(&service, 'a', &["b/1"], json!({"ttl_ms": 5_000})).await.problem("token_conflict");

    let renewed = service.post("/v1/renew", json!({"token": token('a'), "ttl_ms": 9_000})).await.ok();
    assert_eq!((&renewed["grants"], &renewed["ttl_ms"]), (&granted["grants"], &json!(9_000)));
    let single = service.post("/v1/locks/a/renew", json!({"token": token('a')})).await.ok();
    assert_eq!(single["fence"], granted["grants"][1]["fence"]);

    let named = service.post("/v1/release", json!({"token": token('a'), "names": ["a"]})).await.ok();
    assert_eq!(named, json!({"released": true, "locks": [{"name": "a", "fence": single["fence"]}]}));
    assert_eq!(service.get("/v1/locks/a").await.ok()["state"], "free");
    let lost = service.post("/v1/renew", json!({"token": token('a'), "names": ["b/1", "a"]})).await;
    assert_eq!(lost.problem("lease_released")["name"], "a");
    let rest = service.post("/v1/release", json!({"token": token('a')})).await.ok();
    assert_eq!(rest["locks"], json!([granted["grants"][0]]));
    let again = service.post("/v1/release", json!({"token": token('a')})).await.ok();
    assert_eq!(again, json!({"released": true, "locks": []}));
    service.post("/v1/release", json!({"token": token('z')})).await.problem("not_holder");
    service.stop().await;
}

#[tokio::test]
async fn the_first_busy_lock_is_named_and_nothing_is_taken() {
    let service = Service::start().await;
    service.post("/v1/locks/b/acquire", json!({"token": token('b'), "owner": "bob"})).await.ok();
    let held = acquire(&service, 'a', &["a", "b"], json!({})).await;
    let problem = held.problem("held");
    assert_eq!((&problem["name"], &problem["holder"]["owner"]), (&json!("b"), &json!("bob")));
    assert!(held.header("retry-after").is_some());
    assert_eq!(service.get("/v1/locks/a").await.ok()["state"], "free");
    let mixed = json!({"token": token('a'), "locks": [
        {"name": "pool", "limit": 3, "permits": 2}, {"name": "report", "mode": "shared"}]});
    service.post("/v1/acquire", mixed).await.ok();
    let report = service.get("/v1/locks/report").await.ok();
    assert_eq!(report["holders"][0]["mode"], "shared");
    let other = json!({"token": token('c'), "locks": [{"name": "pool", "limit": 4}]});
    let conflict = service.post("/v1/acquire", other).await.problem("limit_conflict");
    assert_eq!((&conflict["name"], &conflict["limit"]), (&json!("pool"), &json!(3)));
    service.stop().await;
}

#[tokio::test]
async fn one_who_waits_for_many_at_any_node_is_told_when_he_has_them_all() {
    let service = Service::start_nodes(3).await;
    for lock in ["a", "b"] {
        service.post(&format!("/v1/locks/{lock}/acquire"), json!({"token": token('x')})).await.ok();
    }
    for (node, letter) in [(0, 'p'), (1, 'q'), (2, 'r')] {
        let asked = body(letter, &["b", "a"], json!({"wait_ms": 60_000}));
        let mut waiting = waits(&service, node, "/v1/acquire", asked, "a").await;
        let last = if letter == 'p' { token('x') } else { token((letter as u8 - 1) as char) };
        service.post("/v1/locks/a/release", json!({"token": last})).await.ok();
        assert_eq!(service.get("/v1/locks/a").await.ok()["state"], "free");
        let busy = service.post("/v1/locks/a/acquire", json!({"token": token('y')})).await;
        assert_eq!(busy.problem("held").get("holder"), None);
        service.post("/v1/locks/b/release", json!({"token": last})).await.ok();
        let granted = Reply::read(&mut waiting).await.ok();
        assert_eq!(granted["grants"].as_array().unwrap().len(), 2);
        assert_eq!(service.get("/v1/locks/a").await.ok()["holders"][0]["owner"], letter.to_string());
    }
    service.stop().await;
}

#[tokio::test]
async fn a_wait_for_many_ends_in_all_queues_with_its_client_its_time_or_its_release() {
    let service = Service::start().await;
    service.post("/v1/locks/b/acquire", json!({"token": token('x')})).await.ok();
    acquire(&service, 'a', &["a", "b"], json!({"wait_ms": 50})).await.problem("wait_timeout");
    let asked = |letter| body(letter, &["a", "b"], json!({"wait_ms": 60_000}));
    drop(waits(&service, 0, "/v1/acquire", asked('c'), "a").await);
    let gone = async {
        while service.get("/v1/locks/a").await.ok()["queue_length"] != 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), gone).await.expect("the client is gone");
    let mut waiting = waits(&service, 0, "/v1/acquire", asked('d'), "a").await;
    let released = service.post("/v1/release", json!({"token": token('d')})).await.ok();
    assert_eq!(released["locks"], json!([{"name": "a", "fence": null}, {"name": "b", "fence": null}]));
    Reply::read(&mut waiting).await.problem("lease_released");
    service.post("/v1/locks/a/acquire", json!({"token": token('y')})).await.ok();
    service.stop().await;
}

#[tokio::test]
async fn a_wait_that_closes_a_cycle_is_refused_with_its_locks_whichever_node_it_comes_to() {
    let service = Service::start_nodes(3).await;
    let single = |letter: char, wait_ms: u64| json!({"token": token(letter), "owner": letter.to_string(), "wait_ms": wait_ms});
    service.post("/v1/locks/a/acquire", single('a', 0)).await.ok();
    service.post("/v1/locks/b/acquire", single('b', 0)).await.ok();
    let mut waiting = waits(&service, 1, "/v1/locks/b/acquire", single('a', 60_000), "b").await;
    let addr = addr_of(&service.cluster.urls()[2]);
    let problem =
        call(addr, "POST", "/v1/locks/a/acquire", Some(single('b', 60_000))).await.problem("deadlock");
    assert_eq!((&problem["cycle"], &problem["status"]), (&json!(["a", "b"]), &json!(409)));
    let many =
        call(addr, "POST", "/v1/acquire", Some(body('b', &["c", "a"], json!({"wait_ms": 1_000})))).await;
    assert_eq!(many.problem("deadlock")["cycle"], json!(["a", "b"]));
    service.post("/v1/locks/b/release", json!({"token": token('b')})).await.ok();
    Reply::read(&mut waiting).await.ok();
    service.stop().await;
}

#[tokio::test]
async fn what_is_outside_the_limits_is_refused_by_field_and_limit() {
    let service = Service::start().await;
    let names = |count: usize| (0..count).map(|n| json!({"name": n.to_string()})).collect::<Vec<_>>();
    let long = "x".repeat(513);
    for (locks, words) in [
        (json!(null), ["`locks`", "leave the field out"]),
        (json!({}), ["`locks`", "1 to 64 objects"]),
        (json!([]), ["`locks`", "between 1 and 64"]),
        (json!(names(65)), ["`locks`", "got 65"]),
        (json!(["a"]), ["`locks[0]`", "JSON object"]),
        (json!([{"name": "a"}, {}]), ["`locks[1].name`", "is missing"]),
        (json!([{"name": "a"}, {"name": 5}]), ["`locks[1].name`", "1 to 512 bytes"]),
        (json!([{"name": "a"}, {"name": ""}]), ["`locks[1].name`", "1 to 512 bytes"]),
        (json!([{"name": long}]), ["`locks[0].name`", "at most 512 bytes"]),
        (json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]), ["`locks[2]`", "before"]),
        (json!([{"name": "a", "mode": "both"}]), ["`locks[0].mode`", "exclusive, shared"]),
        (json!([{"name": "a", "limit": 0}]), ["`locks[0].limit`", "between 1 and 1000000"]),
        (json!([{"name": "a", "limit": 3, "permits": 4}]), ["`locks[0].permits`", "between 1 and 3"]),
        (json!([{"name": "a", "metadata": {}}]), ["`locks[0].metadata`", "not a field"]),
    ] {
        let asked = json!({"token": token('a'), "locks": locks});
        let detail = service.post("/v1/acquire", asked.clone()).await.detail("invalid_argument");
        assert!(words.iter().all(|word| detail.contains(word)), "{asked}: {detail}");
    }
    for (path, asked, field) in [
        ("/v1/acquire", json!({}), "`locks`"),
        ("/v1/acquire", json!({"locks": [{"name": "a"}], "metadata": {}}), "`metadata`"),
        ("/v1/acquire", json!({"locks": [{"name": "a"}], "ttl_ms": 99}), "`ttl_ms`"),
        ("/v1/renew", json!({"names": ["a"]}), "`token`"),
        ("/v1/renew", json!({"token": token('a'), "names": []}), "`names`"),
        ("/v1/renew", json!({"token": token('a'), "names": [5]}), "`names`"),
        ("/v1/release", json!({"token": token('a'), "names": ["a", ""]}), "`names[1]`"),
        ("/v1/release", json!({"token": token('a'), "names": ["a", "a"]}), "`names[1]`"),
    ] {
        let detail = service.post(path, asked.clone()).await.detail("invalid_argument");
        assert!(detail.contains(field), "{asked}: {detail}");
    }
    let twice = r#"{"locks":[{"name":"a","name":"b"}]}"#;
    let head =
        "POST /v1/acquire HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let raw = format!("{head}Content-Length: {}\r\n\r\n{twice}", twice.len());
    assert!(service.raw(raw).await.detail("invalid_argument").contains("`locks`"));
    service.stop().await;
}
