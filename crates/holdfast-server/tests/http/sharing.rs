//! Shared locks and permits over HTTP.

use serde_json::{Value, json};

use crate::client::{Service, token};

async fn acquire(service: &Service, lock: &str, letter: char, more: Value) -> crate::client::Reply {
    let mut body = json!({"token": token(letter), "owner": letter.to_string()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service.post(&format!("/v1/locks/{lock}/acquire"), body).await
}

#[tokio::test]
async fn readers_share_a_lock_and_a_writer_does_not() {
    let service = Service::start().await;
    let first = acquire(&service, "x", 'a', json!({"mode": "shared"})).await.ok();
    let second = acquire(&service, "x", 'b', json!({"mode": "shared"})).await.ok();
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    acquire(&service, "x", 'c', json!({"mode": "exclusive"})).await.detail("held");
    let lock = service.get("/v1/locks/x").await.ok();
    let modes: Vec<_> = lock["holders"].as_array().unwrap().iter().map(|holder| &holder["mode"]).collect();
    assert_eq!(modes, [&json!("shared"), &json!("shared")]);
    assert_eq!((&lock["limit"], &lock["permits_out"]), (&Value::Null, &Value::Null));
    acquire(&service, "x", 'a', json!({})).await.detail("token_conflict");
    service.stop().await;
}

#[tokio::test]
async fn permits_are_counted_and_everybody_has_to_name_the_same_limit() {
    let service = Service::start().await;
    acquire(&service, "pool", 'a', json!({"limit": 3, "permits": 2})).await.ok();
    acquire(&service, "pool", 'b', json!({"limit": 3, "permits": 2})).await.detail("held");
    acquire(&service, "pool", 'c', json!({"limit": 3})).await.ok();
    let lock = service.get("/v1/locks/pool").await.ok();
    assert_eq!((&lock["limit"], &lock["permits_out"]), (&json!(3), &json!(3)));
    let permits: Vec<_> = lock["holders"].as_array().unwrap().iter().map(|h| &h["permits"]).collect();
    assert_eq!(permits, [&json!(2), &json!(1)]);
    let conflict = acquire(&service, "pool", 'd', json!({"limit": 4})).await;
    assert_eq!(conflict.problem("limit_conflict")["limit"], 3);
    acquire(&service, "pool", 'd', json!({})).await.detail("limit_conflict");
    let raised = service.post("/v1/locks/pool/limit", json!({"limit": 5})).await.ok();
    assert_eq!(raised, json!({"name": "pool", "limit": 5}));
    acquire(&service, "pool", 'd', json!({"limit": 5, "permits": 2})).await.ok();
    service.post("/v1/locks/free/limit", json!({"limit": 5})).await.detail("no_limit");
    service.stop().await;
}

#[tokio::test]
async fn shares_outside_their_limits_are_refused_by_field_and_limit() {
    let service = Service::start().await;
    for (body, words) in [
        (json!({"mode": "both"}), ["`mode`", "exclusive, shared"]),
        (json!({"mode": null}), ["`mode`", "leave the field out"]),
        (json!({"limit": 0}), ["`limit`", "between 1 and 1000000"]),
        (json!({"limit": 1_000_001}), ["`limit`", "between 1 and 1000000"]),
        (json!({"limit": "3"}), ["`limit`", "whole number"]),
        (json!({"limit": 3, "permits": 0}), ["`permits`", "between 1 and 3"]),
        (json!({"limit": 3, "permits": 4}), ["`permits`", "between 1 and 3"]),
        (json!({"permits": 1}), ["`permits`", "`limit`"]),
        (json!({"mode": "shared", "limit": 3}), ["`mode`", "`limit`"]),
    ] {
        let detail = acquire(&service, "x", 'a', body.clone()).await.detail("invalid_argument");
        assert!(words.iter().all(|word| detail.contains(word)), "{body}: {detail}");
    }
    for body in [json!({}), json!({"limit": 0}), json!({"limit": 1.5})] {
        let detail = service.post("/v1/locks/x/limit", body).await.detail("invalid_argument");
        assert!(detail.contains("`limit`"), "{detail}");
    }
    assert_eq!(service.get("/v1/locks/x").await.ok()["state"], "free");
    service.stop().await;
}
