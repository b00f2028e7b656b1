//! Every failure has its own code.

use serde_json::json;

use crate::client::{Service, token};

#[tokio::test]
async fn a_busy_lock_tells_who_holds_it_and_when_to_come_back() {
    let service = Service::start().await;
    let grant = service
        .post("/v1/locks/x/acquire", json!({"token": token('a'), "owner": "alice", "ttl_ms": 20_000}))
        .await
        .ok();
    let reply = service.post("/v1/locks/x/acquire", json!({"token": token('b')})).await;
    let problem = reply.problem("held");
    assert_eq!(reply.status, 409);
    assert_eq!(
        (&problem["holder"]["owner"], &problem["holder"]["fence"]),
        (&json!("alice"), &grant["fence"])
    );
    assert!((1..=20_000).contains(&problem["holder"]["expires_in_ms"].as_u64().unwrap()));
    assert_eq!(problem["queue_length"], 0);
    assert!((1..=20).contains(&reply.header("retry-after").unwrap().parse::<u64>().unwrap()));
    service.stop().await;
}

#[tokio::test]
async fn a_repeated_acquire_gives_the_same_grant_and_other_parameters_a_conflict() {
    let service = Service::start().await;
    let body = json!({"token": token('a'), "owner": "alice", "metadata": {"b": 1, "a": [2]}});
    let first = service.post("/v1/locks/x/acquire", body.clone()).await.ok();
    let second = service.post("/v1/locks/x/acquire", body).await.ok();
    assert_eq!(first["fence"], second["fence"]);
    assert_eq!(first["token"], token('a'));
    assert_eq!(first["metadata"], json!({"a": [2], "b": 1}));
    for other in
        [json!({"owner": "bob"}), json!({"owner": "alice", "ttl_ms": 5_000}), json!({"owner": "alice"})]
    {
        let mut body = other;
        body["token"] = token('a').into();
        service.post("/v1/locks/x/acquire", body).await.problem("token_conflict");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_token_that_never_held_the_lock_is_told_so() {
    let service = Service::start().await;
    for action in ["renew", "release"] {
        let path = format!("/v1/locks/x/{action}");
        service.post(&path, json!({"token": token('a')})).await.problem("not_holder");
    }
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    for action in ["renew", "release"] {
        let path = format!("/v1/locks/x/{action}");
        service.post(&path, json!({"token": token('b')})).await.problem("not_holder");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_released_hold_can_be_released_again_but_not_revived() {
    let service = Service::start().await;
    let body = json!({"token": token('a')});
    let fence = service.post("/v1/locks/x/acquire", body.clone()).await.ok()["fence"].clone();
    for _ in 0..2 {
        let released = service.post("/v1/locks/x/release", body.clone()).await.ok();
        assert_eq!(released, json!({"name": "x", "fence": fence, "released": true}));
    }
    service.post("/v1/locks/x/renew", body.clone()).await.problem("lease_released");
    service.post("/v1/locks/x/acquire", body).await.problem("lease_released");
    service.stop().await;
}

#[tokio::test]
async fn a_lease_that_ran_out_is_not_mistaken_for_anything_else() {
    let service = Service::start().await;
    let body = json!({"token": token('a'), "ttl_ms": 100});
    service.post("/v1/locks/x/acquire", body.clone()).await.ok();
    // The next in turn is granted the lock when the first lease is over.
    service.post("/v1/locks/x/acquire", json!({"token": token('b'), "wait_ms": 10_000})).await.ok();
    let token = json!({"token": token('a')});
    service.post("/v1/locks/x/renew", token.clone()).await.problem("lease_expired");
    service.post("/v1/locks/x/release", token).await.problem("lease_expired");
    service.post("/v1/locks/x/acquire", body).await.problem("lease_expired");
    service.stop().await;
}

#[tokio::test]
async fn a_wait_that_is_over_is_no_fault_of_the_server() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let reply = service.post("/v1/locks/x/acquire", json!({"token": token('b'), "wait_ms": 50})).await;
    assert_eq!(reply.status, 409);
    assert!(reply.detail("wait_timeout").contains("within the wait"));
    assert_eq!(service.get("/v1/locks/x").await.ok()["queue_length"], 0);
    service.stop().await;
}

#[tokio::test]
async fn the_service_makes_a_token_where_none_is_given() {
    let service = Service::start().await;
    let grant = service.call("POST", "/v1/locks/x/acquire", None).await.ok();
    assert_eq!((&grant["owner"], &grant["ttl_ms"]), (&json!("anonymous"), &json!(30_000)));
    let token = grant["token"].as_str().unwrap();
    assert!(token.len() >= 22, "{token}");
    service.post("/v1/locks/x/renew", json!({"token": token, "ttl_ms": 5_000})).await.ok();
    let released = service.post("/v1/locks/x/release", json!({"token": token})).await.ok();
    assert_eq!(released["fence"], grant["fence"]);
    let other = service.post("/v1/locks/x/acquire", json!({})).await.ok();
    assert_ne!(other["token"], grant["token"]);
    service.stop().await;
}
