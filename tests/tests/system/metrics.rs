//! What operators see in their monitoring: a real Prometheus scrapes a cluster.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, Setup, eventually, let_pass};
use serde_json::{Value, json};

use crate::prometheus::{self, Prometheus, promtool_passes};

fn documentation() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    std::fs::read_to_string(file).unwrap()
}

/// The alerts that the documentation proposes.
fn documented_rules() -> String {
    let documentation = documentation();
    let (_, rules) = documentation.split_once("```yaml\n").unwrap();
    rules.split_once("```").unwrap().0.to_owned()
}

async fn metrics_of(cluster: &Cluster, node: u64) -> String {
    cluster.client(node).get("/metrics").await.unwrap().ok().body.as_str().unwrap().to_owned()
}

/// The metrics of a text, each with its kind.
fn families(text: &str) -> BTreeSet<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let words = lines.map(|line| line.split_once(' ').unwrap());
    words.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Everything in the documentation that looks like a metric; what a histogram consists of as the histogram.
fn names_in(text: &str) -> BTreeSet<String> {
    let words =
        text.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).map(|word| word.trim_end_matches('_'));
    let parts = |word: &str| -> String {
        let part = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        part.unwrap_or(word).to_owned()
    };
    words.filter(|word| word.starts_with("holdfast_")).map(parts).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_documented_and_every_documented_one_exists() {
    let cluster = Cluster::start(1).await;
    let families = families(&metrics_of(&cluster, 1).await);
    let documentation = documentation();
    let missing: Vec<_> = families
        .iter()
        .filter(|(name, kind)| !documentation.contains(&format!("| `{name}` | {kind} |")))
        .collect();
    assert!(missing.is_empty(), "no row of docs/metrics.md has {missing:?}");
    let names: BTreeSet<_> = families.into_iter().map(|(name, _)| name).collect();
    let unknown: Vec<_> = names_in(&documentation).into_iter().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "docs/metrics.md names {unknown:?}, and there is none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_scrapes_what_happens_to_locks_by_group() {
    if !prometheus::is_installed() {
        return;
    }
    let mut setup = Setup::nodes(3);
    setup.args = vec!["--metrics-prefixes".into(), "jobs/,invoices/".into()];
    let cluster = setup.start().await;
    let prometheus = Prometheus::start(&cluster, &documented_rules()).await;
    prometheus.tells("count(up{job=\"holdfast\"} == 1)", 3.0).await;
    let targets = prometheus.api("targets").await;
    let healths = targets["activeTargets"].as_array().unwrap().iter().map(|target| target["health"].clone());
    assert_eq!(healths.collect::<Vec<_>>(), ["up", "up", "up"], "{targets}");

    // Held by one, refused to another, and waited for by two, one of whom gives up.
    let (first, second) = (Attempt::at("jobs/1"), Attempt::at("jobs/1").wait_ms(60_000));
    cluster.client(1).acquire(&first).await.unwrap().ok();
    assert_eq!(cluster.client(2).acquire(&Attempt::at("jobs/1")).await.unwrap().code(), "held");
    let impatient = cluster.client(2).acquire(&Attempt::at("jobs/1").wait_ms(50)).await.unwrap();
    assert_eq!(impatient.code(), "wait_timeout");
    let (client, waits) = (cluster.client(3), second.clone());
    let waiting = tokio::spawn(async move { client.acquire(&waits).await.unwrap().ok() });
    for gauge in ["queue_length", "holders"] {
        let on_all = format!("count(holdfast_lock_{gauge}{{group=\"jobs/\"}} == 1)");
        prometheus.tells(&on_all, 3.0).await;
    }
    cluster.client(2).release(&first).await.unwrap().ok();
    waiting.await.unwrap();
    // One that nobody renews, and one that an operator ends.
    cluster.client(1).acquire(&Attempt::at("invoices/1").ttl_ms(200)).await.unwrap().ok();
    let forced = cluster.client(2).acquire(&Attempt::at("else")).await.unwrap().ok().fence();
    let force = json!({"fence": forced, "reason": "it hangs", "by": "olga"});
    let forced = cluster.client(3).post("/v1/locks/else/force-release", &force, Duration::ZERO).await;
    forced.unwrap().ok();

    for (query, number) in [
        ("sum(holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"granted\"})", 2.0),
        ("sum(holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"held\"})", 1.0),
        ("sum(holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"wait_timeout\"})", 1.0),
        ("sum(holdfast_lock_acquires_total{group=\"other\",outcome=\"granted\"})", 1.0),
        // Every node counts the whole cluster.
        ("count(holdfast_lock_endings_total{group=\"jobs/\",cause=\"released\"} == 1)", 3.0),
        ("count(holdfast_lock_endings_total{group=\"invoices/\",cause=\"expired\"} == 1)", 3.0),
        ("count(holdfast_lock_endings_total{group=\"other\",cause=\"forced\"} == 1)", 3.0),
        ("count(holdfast_lock_left_total{group=\"jobs/\",cause=\"wait_timeout\"} == 1)", 3.0),
        ("count(holdfast_lock_waited_seconds_count{group=\"jobs/\"} == 1)", 3.0),
        ("count(holdfast_lock_held_seconds_count{group=\"invoices/\"} == 1)", 3.0),
        ("count(holdfast_lock_held_seconds_bucket{group=\"invoices/\",le=\"0.1\"} == 0)", 3.0),
        ("count(holdfast_lock_queue_length{group=\"jobs/\"} == 0)", 3.0),
        ("max(holdfast_lock_holders{group=\"jobs/\"})", 1.0),
        ("max(holdfast_lock_holders{group=\"other\"})", 0.0),
    ] {
        prometheus.tells(query, number).await;
    }
    for node in cluster.ids() {
        promtool_passes(&["metrics"], &metrics_of(&cluster, node).await);
    }
    are_healthy(&prometheus).await;
}

/// The documented alerts are evaluated without an error.
async fn are_healthy(prometheus: &Prometheus) {
    let rules = eventually(PATIENCE, "all rules were evaluated", async || {
        let groups = prometheus.api("rules").await["groups"].as_array()?.clone();
        let rules: Vec<Value> =
            groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    })
    .await;
    assert!(rules.len() >= 4 && rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");
}

/// A follower does not know the time better than its leader tells it, and nothing happens meanwhile that would.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_lease_at_its_renewal_is_measured_by_a_follower_and_by_the_leader() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    for node in [leader, cluster.others(leader)[0]] {
        let attempt = Attempt::at(format!("a{node}")).ttl_ms(10_000);
        cluster.client(node).acquire(&attempt).await.unwrap().ok();
        let_pass(Duration::from_millis(4_500)).await;
        cluster.client(node).renew(&attempt).await.unwrap().ok();
        cluster.client(node).renew(&attempt).await.unwrap().ok();
        let text = metrics_of(&cluster, node).await;
        for (bound, count) in [("0.6", 1), ("+Inf", 2)] {
            let series = format!("holdfast_lock_renew_margin_ratio_bucket{{group=\"other\",le=\"{bound}\"}}");
            let line = format!("{series} {count}");
            let told: Vec<_> = text.lines().filter(|line| line.contains("margin_ratio_b")).collect();
            assert!(text.lines().any(|it| it == line), "node {node}: {line}\n{told:#?}");
        }
    }
}
