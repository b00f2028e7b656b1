//! What operators see of locks: by group, and never by name.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{Service, token};

/// The series of a text, without their values.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {series} in\n{text}")).parse().unwrap()
}

/// Takes, fails to take, renews and releases all of these locks.
async fn use_locks(service: &Service, names: &[String], secret: char) {
    let locks: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    let acquire = |secret| json!({"token": token(secret), "locks": locks});
    service.post("/v1/acquire", acquire(secret)).await.ok();
    service.post("/v1/acquire", acquire('b')).await.problem("held");
    service.post("/v1/renew", json!({"token": token(secret)})).await.ok();
    service.post("/v1/release", json!({"token": token(secret)})).await.ok();
}

#[tokio::test]
async fn a_thousand_lock_names_add_no_series() {
    let service = Service::start_with_prefixes("jobs/,invoices/").await;
    let name = |n: usize| format!("{}precious-{n}", ["jobs/", "invoices/", ""][n % 3]);
    let names: Vec<_> = (0..1_000).map(name).collect();
    use_locks(&service, &names[..3], 'a').await;
    service.get("/metrics").await; // Is counted itself.
    let before = series(service.get("/metrics").await.text());
    for names in names.chunks(50) {
        use_locks(&service, names, 'c').await;
    }
    let metrics = service.get("/metrics").await;
    let text = metrics.text();
    assert_eq!(series(text), before);
    assert!(!text.contains("precious"));
    for outcome in ["granted", "held"] {
        let series = format!("holdfast_lock_acquires_total{{group=\"jobs/\",outcome=\"{outcome}\"}}");
        assert_eq!(value(text, &series), 335.0);
    }
    service.stop().await;
}

#[tokio::test]
async fn every_way_of_asking_for_a_lock_is_counted_by_its_outcome() {
    let service = Service::start_with_prefixes("jobs/").await;
    service.post("/v1/locks/jobs%2F1/acquire", json!({"token": token('a')})).await.ok();
    service
        .post("/v1/locks/jobs%2F1/acquire", json!({"token": token('a'), "owner": "x"}))
        .await
        .problem("token_conflict");
    service
        .post("/v1/locks/jobs%2F1/acquire", json!({"token": token('b'), "wait_ms": 1}))
        .await
        .problem("wait_timeout");
    service
        .post("/v1/locks/jobs%2F1/acquire", json!({"token": token('b'), "wait_ms": -1}))
        .await
        .problem("invalid_argument");
    service.post("/v1/elections/jobs%2F2/campaign", json!({"token": token('c')})).await.ok();
    let many = json!({"token": token('d'), "locks": [{"name": "jobs/3"}, {"name": "else"}]});
    service.post("/v1/acquire", many).await.ok();
    service.post("/v1/renew", json!({"token": token('d')})).await.ok();
    let metrics = service.get("/metrics").await;
    let text = metrics.text();
    for (group, outcome, count) in [
        ("jobs/", "granted", 3.0),
        ("jobs/", "token_conflict", 1.0),
        ("jobs/", "wait_timeout", 1.0),
        ("jobs/", "invalid_argument", 1.0),
        ("jobs/", "held", 0.0),
        ("other", "granted", 1.0),
    ] {
        let series = format!("holdfast_lock_acquires_total{{group=\"{group}\",outcome=\"{outcome}\"}}");
        assert_eq!(value(text, &series), count, "{series}");
    }
    for (series, is) in [
        ("holdfast_lock_renew_margin_ratio_count{group=\"jobs/\"}", 1.0),
        ("holdfast_lock_renew_margin_ratio_count{group=\"other\"}", 1.0),
        ("holdfast_lock_holders{group=\"jobs/\"}", 3.0),
        ("holdfast_lock_holders{group=\"other\"}", 1.0),
        ("holdfast_lock_queue_length{group=\"jobs/\"}", 0.0),
        ("holdfast_lock_left_total{group=\"jobs/\",cause=\"wait_timeout\"}", 1.0),
    ] {
        assert_eq!(value(text, series), is, "{series}");
    }
    service.stop().await;
}
