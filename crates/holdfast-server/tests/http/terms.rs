//! Delay, least and longest hold, and once per period over HTTP.

use serde_json::{Value, json};

use crate::client::{Reply, Service, call, token};

const PERIOD_MS: u64 = 3_600_000;

async fn acquire(service: &Service, letter: char, more: Value) -> Reply {
    let mut body = json!({"token": token(letter), "owner": letter.to_string()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service.post("/v1/locks/x/acquire", body).await
}

async fn release(service: &Service, letter: char, more: Value) -> Reply {
    let mut body = json!({"token": token(letter)});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service.post("/v1/locks/x/release", body).await
}

async fn lock(service: &Service) -> Value {
    service.get("/v1/locks/x").await.ok()
}

fn once() -> Value {
    json!({"once": {"period_ms": PERIOD_MS}})
}

#[tokio::test]
async fn a_delay_is_shown_and_told_and_over_in_time() {
    let service = Service::start().await;
    acquire(&service, 'a', json!({"ttl_ms": 100, "delay_ms": 1_500})).await.ok();
    while lock(&service).await["state"] == "held" {}
    let shown = lock(&service).await;
    let left = shown["delay_ms"].as_u64().unwrap();
    assert!((1..=1_500).contains(&left), "{shown}");
    assert_eq!(service.get("/v1/locks").await.ok()["locks"][0]["name"], "x");
    let refused = acquire(&service, 'b', json!({})).await;
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    let problem = refused.problem("held");
    assert!(problem["delay_ms"].as_u64().unwrap() <= left && problem["holder"].is_null(), "{problem}");
    assert!((1..=2).contains(&seconds));
    let grant = acquire(&service, 'b', json!({"wait_ms": 5_000})).await.ok();
    assert_eq!(grant["fence"], 2);
    assert!(lock(&service).await["delay_ms"].is_null());
    service.stop().await;
}

#[tokio::test]
async fn an_early_release_says_when_it_takes_effect() {
    let service = Service::start().await;
    acquire(&service, 'a', json!({"min_hold_ms": 1_000})).await.ok();
    let released = release(&service, 'a', json!({})).await.ok();
    let left = released["effective_in_ms"].as_u64().unwrap();
    assert!((1..=1_000).contains(&left) && released["released"] == true, "{released}");
    assert_eq!(lock(&service).await["holders"][0]["releasing"], true);
    release(&service, 'a', json!({})).await.ok();
    service.post("/v1/locks/x/renew", json!({"token": token('a')})).await.problem("lease_released");
    acquire(&service, 'b', json!({"wait_ms": 5_000})).await.ok();
    let released = release(&service, 'b', json!({})).await.ok();
    assert_eq!(released, json!({"name": "x", "fence": 2, "released": true}));
    service.stop().await;
}

#[tokio::test]
async fn what_is_left_of_the_longest_hold_is_told_with_each_grant() {
    let service = Service::start().await;
    let grant = acquire(&service, 'a', json!({"max_hold_ms": 1_000})).await.ok();
    assert_eq!((&grant["max_left_ms"], &grant["expires_in_ms"]), (&json!(1_000), &json!(1_000)));
    let grant = service.post("/v1/locks/x/renew", json!({"token": token('a')})).await.ok();
    assert_eq!((&grant["ttl_ms"], &grant["max_left_ms"]), (&json!(30_000), &grant["expires_in_ms"]));
    assert!(lock(&service).await["holders"][0]["max_left_ms"].as_u64().unwrap() <= 1_000);
    while lock(&service).await["state"] == "held" {}
    service.post("/v1/locks/x/renew", json!({"token": token('a')})).await.problem("lease_expired");
    let plain = acquire(&service, 'b', json!({})).await.ok();
    assert!(
        plain.get("max_left_ms").is_none() && lock(&service).await["holders"][0].get("releasing").is_none()
    );
    service.stop().await;
}

#[tokio::test]
async fn a_completed_run_is_told_to_those_who_ask_and_to_those_who_wait() {
    let service = Service::start().await;
    acquire(&service, 'a', once()).await.ok();
    let waiting = json!({"token": token('b'), "wait_ms": 60_000, "once": {"period_ms": PERIOD_MS}});
    let addr = service.addr().to_owned();
    let waiter = tokio::spawn(async move { call(&addr, "POST", "/v1/locks/x/acquire", Some(waiting)).await });
    while lock(&service).await["queue_length"] != 1 {}
    let released = release(&service, 'a', json!({"done": true})).await.ok();
    assert_eq!(released, json!({"name": "x", "fence": 1, "released": true, "done": true}));
    for told in [waiter.await.unwrap(), acquire(&service, 'c', once()).await] {
        let problem = told.problem("already_done");
        assert_eq!(
            (&problem["owner"], &problem["fence"], &problem["status"]),
            (&json!("a"), &json!(1), &json!(409))
        );
        let next_in_ms = problem["next_in_ms"].as_u64().unwrap();
        assert!((PERIOD_MS - 60_000..PERIOD_MS).contains(&next_in_ms), "{problem}");
        assert!(problem["done_ms_ago"].as_u64().unwrap() < 60_000, "{problem}");
    }
    assert_eq!(service.get("/v1/locks").await.ok()["locks"], json!([]));
    // Whoever asks for no period is not affected, and completes nothing.
    acquire(&service, 'd', json!({})).await.ok();
    let released = release(&service, 'd', json!({"done": true})).await.ok();
    assert_eq!(released, json!({"name": "x", "fence": 2, "released": true}));
    service.stop().await;
}

#[tokio::test]
async fn terms_that_cannot_be_are_refused_with_field_and_limits() {
    let service = Service::start().await;
    for (more, parts) in [
        (json!({"delay_ms": 300_001}), ["`delay_ms`", "300000 milliseconds"]),
        (json!({"delay_ms": "5s"}), ["`delay_ms`", "whole number"]),
        (json!({"min_hold_ms": 86_400_001}), ["`min_hold_ms`", "86400000"]),
        (json!({"min_hold_ms": 2_000, "max_hold_ms": 1_000}), ["`min_hold_ms`", "`max_hold_ms`"]),
        (json!({"max_hold_ms": 99}), ["`max_hold_ms`", "100"]),
        (json!({"once": {}}), ["`once.period_ms`", "missing"]),
        (json!({"once": 5}), ["`once`", "period_ms"]),
        (json!({"once": {"period_ms": 999}}), ["`once.period_ms`", "1000"]),
        (json!({"once": {"period_ms": 5_000, "more": 1}}), ["`once.more`", "period_ms"]),
    ] {
        let problem = acquire(&service, 'a', more).await.problem("invalid_argument");
        let detail = problem["detail"].as_str().unwrap();
        assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
    }
    let problem = release(&service, 'a', json!({"done": "yes"})).await.problem("invalid_argument");
    assert!(problem["detail"].as_str().unwrap().starts_with("`done` must be true or false"), "{problem}");
    service.stop().await;
}

#[tokio::test]
async fn many_locks_and_elections_take_no_terms() {
    let service = Service::start().await;
    let (many, campaign) = ("/v1/acquire", "/v1/elections/x/campaign");
    for field in ["delay_ms", "min_hold_ms", "max_hold_ms", "once"] {
        for path in [many, campaign] {
            let problem = service.post(path, json!({(field): 1_000})).await.problem("invalid_argument");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.starts_with(&format!("`{field}` is not a field")), "{detail}");
        }
    }
    let body = json!({"token": token('a'), "done": true});
    service.post("/v1/elections/x/resign", body).await.problem("invalid_argument");
    service.stop().await;
}

#[tokio::test]
async fn the_same_token_with_other_terms_is_a_conflict() {
    let service = Service::start().await;
    let asked = json!({"delay_ms": 5, "min_hold_ms": 6, "max_hold_ms": 60_000, "once": {"period_ms": 5_000}});
    acquire(&service, 'a', asked.clone()).await.ok();
    acquire(&service, 'a', asked).await.ok();
    acquire(&service, 'a', json!({"delay_ms": 5})).await.problem("token_conflict");
    service.stop().await;
}
