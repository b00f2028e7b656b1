//! Elections over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Reply, Service, request, token};

const CALLS: [&str; 5] = ["campaign", "renew", "proclaim", "resign", "hand-over"];

fn path(action: &str) -> String {
    format!("/v1/elections/x/{action}")
}

async fn call(service: &Service, action: &str, letter: char, more: Value) -> Reply {
    let mut body = json!({"token": token(letter)});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service.post(&path(action), body).await
}

async fn leads(service: &Service, letter: char, value: Value) -> Value {
    let more = json!({"owner": letter.to_string(), "value": value, "ttl_ms": 60_000});
    call(service, "campaign", letter, more).await.ok()
}

/// A candidate that waits; the number of candidates shows when it is in.
async fn waits(service: &Service, letter: char, count: u64) -> TcpStream {
    let body = json!({"token": token(letter), "owner": letter.to_string(), "wait_ms": 60_000, "value": {"at": letter}});
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    stream.write_all(request("POST", &path("campaign"), Some(body)).as_bytes()).await.unwrap();
    let reached = async {
        while election(service).await["candidate_count"] != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("the candidate waits");
    stream
}

async fn election(service: &Service) -> Value {
    service.get("/v1/elections/x").await.ok()
}

#[tokio::test]
async fn who_campaigns_first_leads_and_everybody_sees_what_it_says() {
    let service = Service::start().await;
    let nobody = json!({"name": "x", "leader": null, "candidates": [], "candidate_count": 0, "seq": 0});
    assert_eq!(election(&service).await, nobody);
    let lead = leads(&service, 'a', json!("http://a/")).await;
    assert_eq!(
        (&lead["name"], &lead["owner"], &lead["token"]),
        (&json!("x"), &json!("a"), &json!(token('a')))
    );
    assert_eq!((&lead["value"], &lead["ttl_ms"]), (&json!("http://a/"), &json!(60_000)));
    call(&service, "campaign", 'b', json!({})).await.problem("held");
    let _waiter = waits(&service, 'c', 1).await;
    let look = election(&service).await;
    let leader = &look["leader"];
    assert_eq!(
        (&leader["owner"], &leader["fence"], &leader["value"]),
        (&json!("a"), &lead["fence"], &lead["value"])
    );
    assert!(leader["expires_in_ms"].as_u64() <= Some(60_000));
    assert_eq!(look["candidates"][0]["owner"], "c");
    assert!(look["candidates"][0]["waiting_ms"].is_u64());
    assert_eq!(service.get("/v1/elections/x?consistency=stale").await.ok()["stale"], true);
    service.stop().await;
}

#[tokio::test]
async fn an_election_is_the_lock_of_that_name_and_its_value_the_metadata() {
    let service = Service::start().await;
    for (letter, value) in
        [('a', json!(null)), ('b', json!("text")), ('c', json!([1, 2.5])), ('d', json!({"a": {}}))]
    {
        leads(&service, letter, value.clone()).await;
        let lock = service.get("/v1/locks/x").await.ok();
        assert_eq!(lock["holders"][0]["metadata"], value);
        assert_eq!(service.get("/v1/locks").await.ok()["locks"][0]["holders"][0]["metadata"], value);
        let renewed = service.post("/v1/locks/x/renew", json!({"token": token(letter)})).await.ok();
        assert_eq!(renewed["metadata"], value);
        assert_eq!(call(&service, "renew", letter, json!({"ttl_ms": 70_000})).await.ok()["value"], value);
        assert_eq!(call(&service, "resign", letter, json!({})).await.ok()["released"], true);
        call(&service, "campaign", letter, json!({})).await.detail("lease_released");
    }
    service.post("/v1/locks/x/acquire", json!({"token": token('l'), "metadata": {"n": 1}})).await.ok();
    assert_eq!(election(&service).await["leader"]["value"], json!({"n": 1}));
    service.post("/v1/locks/x/release", json!({"token": token('l')})).await.ok();
    service.post("/v1/locks/x/acquire", json!({"token": token('r'), "mode": "shared"})).await.ok();
    assert_eq!(election(&service).await["leader"], Value::Null, "a reader does not lead");
    service.stop().await;
}

#[tokio::test]
async fn a_campaign_that_says_nothing_has_the_value_null() {
    let service = Service::start().await;
    assert_eq!(service.call("POST", &path("campaign"), None).await.ok()["value"], Value::Null);
    assert_eq!(election(&service).await["leader"]["value"], Value::Null);
    service.stop().await;
}

#[tokio::test]
async fn a_leader_proclaims_and_a_repeated_call_of_either_kind_is_the_same() {
    let service = Service::start().await;
    let lead = leads(&service, 'a', json!(1)).await;
    for _ in 0..2 {
        let said = call(&service, "proclaim", 'a', json!({"value": [2]})).await.ok();
        assert_eq!(
            (&said["fence"], &said["value"], &said["token"]),
            (&lead["fence"], &json!([2]), &lead["token"])
        );
    }
    assert_eq!(election(&service).await["leader"]["value"], json!([2]));
    for known in [json!(1), json!([2])] {
        assert_eq!(leads(&service, 'a', known).await["value"], json!([2]));
    }
    let other = json!({"owner": "a", "value": 3, "ttl_ms": 60_000});
    let detail = call(&service, "campaign", 'a', other).await.detail("token_conflict");
    assert!(detail.contains("value"), "{detail}");
    call(&service, "proclaim", 'b', json!({"value": 4})).await.detail("not_holder");
    service.stop().await;
}

#[tokio::test]
async fn a_hand_over_passes_those_in_front_and_both_sides_are_told() {
    let service = Service::start().await;
    let lead = leads(&service, 'a', Value::Null).await;
    let _front = waits(&service, 'b', 1).await;
    let mut chosen = waits(&service, 'c', 2).await;
    call(&service, "hand-over", 'a', json!({"to": "nobody"})).await.problem("no_such_candidate");
    let told = json!({"name": "x", "fence": lead["fence"], "to": "c", "handed_over": true});
    assert_eq!(call(&service, "hand-over", 'a', json!({"to": "c"})).await.ok(), told);
    let next = Reply::read(&mut chosen).await.ok();
    assert!(next["fence"].as_u64() > lead["fence"].as_u64());
    assert_eq!(next["value"], json!({"at": "c"}));
    assert_eq!(call(&service, "hand-over", 'a', json!({"to": "c"})).await.ok(), told);
    for (action, more) in
        [("renew", json!({})), ("proclaim", json!({"value": 1})), ("hand-over", json!({"to": "b"}))]
    {
        let detail = call(&service, action, 'a', more).await.detail("lease_released");
        assert!(detail.contains("handed"), "{action}: {detail}");
    }
    assert_eq!(call(&service, "resign", 'a', json!({})).await.ok()["fence"], lead["fence"]);
    let look = election(&service).await;
    assert_eq!((&look["leader"]["owner"], &look["candidates"][0]["owner"]), (&json!("c"), &json!("b")));
    assert!(
        service.get("/metrics").await.text().contains("holdfast_endings_total{cause=\"handed_over\"} 1\n")
    );
    service.stop().await;
}

#[tokio::test]
async fn a_candidate_that_resigns_leaves_the_queue() {
    let service = Service::start().await;
    leads(&service, 'a', Value::Null).await;
    let mut waiter = waits(&service, 'b', 1).await;
    let resigned = call(&service, "resign", 'b', json!({})).await.ok();
    assert_eq!(resigned, json!({"name": "x", "fence": null, "released": true}));
    Reply::read(&mut waiter).await.problem("lease_released");
    service.stop().await;
}

#[tokio::test]
async fn what_an_election_does_not_take_is_refused_by_field_and_limit() {
    let service = Service::start().await;
    for (action, more, words) in [
        ("campaign", json!({"value": "x".repeat(1_023)}), ["`value`", "1024 bytes"]),
        ("campaign", json!({"metadata": {}}), ["`metadata`", "value"]),
        ("campaign", json!({"mode": "shared"}), ["`mode`", "value"]),
        ("campaign", json!({"ttl_ms": 1}), ["`ttl_ms`", "milliseconds"]),
        ("campaign", json!({"owner": ""}), ["`owner`", "256 bytes"]),
        ("proclaim", json!({"value": "x".repeat(1_023)}), ["`value`", "1024 bytes"]),
        ("proclaim", json!({}), ["`value`", "missing"]),
        ("proclaim", json!({"value": 1, "ttl_ms": 100}), ["`ttl_ms`", "token, value"]),
        ("hand-over", json!({}), ["`to`", "missing"]),
        ("hand-over", json!({"to": ""}), ["`to`", "256 bytes"]),
        ("hand-over", json!({"to": 5}), ["`to`", "256 bytes"]),
        ("hand-over", json!({"to": "a\nb"}), ["`to`", "control characters"]),
        ("resign", json!({"value": 1}), ["`value`", "token"]),
    ] {
        let detail = call(&service, action, 'a', more.clone()).await.detail("invalid_argument");
        assert!(words.iter().all(|word| detail.contains(word)), "{action} {more}: {detail}");
    }
    for action in CALLS {
        let short = service.post(&path(action), json!({"token": "short", "value": 1, "to": "b"})).await;
        assert_eq!(short.status, 400, "{action}");
        assert_eq!(service.get(&path(action)).await.header("allow"), Some("POST, OPTIONS"), "{action}");
    }
    service.get("/v1/elections/a/b").await.detail("not_found");
    service.get("/v1/elections/x?since=1").await.detail("invalid_argument");
    assert_eq!(election(&service).await["leader"], Value::Null);
    service.stop().await;
}
