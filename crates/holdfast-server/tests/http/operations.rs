//! What operators and machines look at.

use serde_json::json;

use crate::client::{Service, token};

#[tokio::test]
async fn a_node_that_leads_is_alive_and_ready() {
    let service = Service::start().await;
    assert_eq!(service.get("/livez").await.ok(), json!({"status": "alive"}));
    assert_eq!(service.get("/readyz").await.ok(), json!({"status": "ready"}));
    service.stop().await;
}

#[tokio::test]
async fn the_cluster_shows_its_one_member() {
    let service = Service::start().await;
    let cluster = service.get("/v1/cluster").await.ok();
    assert_eq!((&cluster["node_id"], &cluster["leader_id"]), (&json!(1), &json!(1)));
    assert_eq!(cluster["cluster_id"].as_str().unwrap().len(), 32);
    let member = &cluster["members"][0];
    assert_eq!(
        (&member["id"], &member["role"], &member["voter"]),
        (&json!(1), &json!("leader"), &json!(true))
    );
    assert_eq!(member["client_url"], service.cluster.urls()[0]);
    assert!(member["applied_index"].as_u64().unwrap() > 0);
    service.stop().await;
}

#[tokio::test]
async fn metrics_count_what_was_asked_and_name_no_lock() {
    let service = Service::start().await;
    service.post("/v1/locks/precious/acquire", json!({"token": token('a')})).await.ok();
    service.post("/v1/locks/precious/acquire", json!({"token": token('b')})).await.problem("held");
    let metrics = service.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = metrics.text();
    for line in [
        "holdfast_http_requests_total{route=\"/v1/locks/{name}/acquire\",status=\"200\",code=\"ok\"} 1\n",
        "holdfast_http_requests_total{route=\"/v1/locks/{name}/acquire\",status=\"409\",code=\"held\"} 1\n",
        "holdfast_http_requests_in_flight 1\n",
        "holdfast_ready 1\n",
        "holdfast_is_leader 1\n",
        "holdfast_locks_held 1\n",
        "holdfast_grants_total 1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("precious"));
    service.stop().await;
}

#[tokio::test]
async fn a_request_id_comes_back_or_is_made() {
    let service = Service::start().await;
    let with_id =
        "GET /v1/nowhere HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Request-Id: job 17\r\n\r\n";
    let reply = service.raw(with_id).await;
    assert_eq!(reply.header("x-request-id"), Some("job 17"));
    assert_eq!(reply.problem("not_found")["request_id"], "job 17");
    let (first, second) = (service.get("/livez").await, service.get("/livez").await);
    assert_ne!(first.header("x-request-id").unwrap(), second.header("x-request-id").unwrap());
    service.stop().await;
}

#[tokio::test]
async fn a_stale_answer_says_so() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    for path in ["/v1/locks/x", "/v1/locks"] {
        let stale = service.get(&format!("{path}?consistency=stale")).await.ok();
        assert_eq!(stale["stale"], true, "{path}");
        let fresh = service.get(&format!("{path}?consistency=linearizable")).await.ok();
        assert_eq!(fresh.get("stale"), None, "{path}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_digest_changes_with_the_state() {
    let service = Service::start().await;
    let before = service.get("/debug/digest").await.ok();
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    let after = service.get("/debug/digest").await.ok();
    assert!(after["applied_index"].as_u64() > before["applied_index"].as_u64());
    assert_ne!(after["digest"], before["digest"]);
    assert_eq!(after["digest"].as_str().unwrap().len(), 16);
    service.stop().await;
}

#[tokio::test]
async fn the_service_describes_itself() {
    let service = Service::start().await;
    let api = service.get("/openapi.json").await.ok();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(api["paths"]["/v1/locks/{name}/acquire"]["post"].is_object());
    service.stop().await;
}

#[tokio::test]
async fn http_2_is_spoken_without_negotiation() {
    let service = Service::start().await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = format!("{}/v1/locks/x/acquire", service.cluster.urls()[0]);
    let answer = client.post(&url).json(&json!({"token": token('a')})).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (reqwest::Version::HTTP_2, 200));
    let grant: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(grant["name"], "x");
    let busy = client.post(&url).json(&json!({"token": token('b')})).send().await.unwrap();
    assert_eq!(busy.status().as_u16(), 409);
    let head = client.head(format!("{}/livez", service.cluster.urls()[0])).send().await.unwrap();
    assert_eq!(head.status().as_u16(), 200);
    // The grant was delivered: the lock is still held.
    let lock: serde_json::Value =
        client.get(url.trim_end_matches("/acquire")).send().await.unwrap().json().await.unwrap();
    assert_eq!(lock["state"], "held");
    service.stop().await;
}
