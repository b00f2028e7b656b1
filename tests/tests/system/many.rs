//! Many locks at once, and cycles of waits, on real processes.

use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Client, Cluster, PATIENCE, Roamer, eventually, new_token};
use serde_json::{Value, json};

const WAIT_MS: u64 = 60_000;
const ROUNDS: usize = 200;

fn many(locks: &[&str], owner: &str) -> Value {
    let locks: Vec<_> = locks.iter().map(|name| json!({"name": name})).collect();
    json!({"locks": locks, "owner": owner, "token": new_token(), "ttl_ms": 600_000, "wait_ms": WAIT_MS})
}

async fn insist(roamer: &Roamer, path: &str, body: &Value) -> holdfast_tests::Answer {
    roamer.post(path, body, Duration::from_millis(body["wait_ms"].as_u64().unwrap_or(0))).await
}

async fn take_and_give(roamer: &Roamer, locks: &[&str], owner: &str) {
    let body = many(locks, owner);
    let granted = insist(roamer, "/v1/acquire", &body).await.ok();
    for lock in locks {
        let holders = roamer.lock(lock).await.ok().body["holders"].clone();
        assert_eq!(holders[0]["owner"], owner, "{lock} while {owner} holds all: {holders}");
    }
    let fences: Vec<_> =
        granted.body["grants"].as_array().unwrap().iter().map(|grant| &grant["fence"]).collect();
    assert_eq!(fences.len(), locks.len());
    insist(roamer, "/v1/release", &json!({"token": body["token"]})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_name_the_same_locks_in_opposite_orders_both_always_get_through() {
    let cluster = Cluster::start(3).await;
    let mut workers = tokio::task::JoinSet::new();
    for (node, locks, owner) in [(0, ["a", "b", "c"], "forwards"), (1, ["c", "b", "a"], "backwards")] {
        let roamer = cluster.roamer(node);
        workers.spawn(async move {
            for _ in 0..ROUNDS {
                take_and_give(&roamer, &locks, owner).await;
            }
        });
    }
    workers.join_all().await;
    cluster.equal_digests(&cluster.ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_and_waited_for_at_once_survives_a_killed_leader() {
    let cluster = Cluster::start(3).await;
    let held = many(&["a", "b"], "holder");
    let granted = insist(&cluster.roamer(0), "/v1/acquire", &held).await.ok().body;
    let waiting = many(&["b", "c"], "waiter");
    let roamer = cluster.roamer(1);
    let waits = tokio::spawn({
        let waiting = waiting.clone();
        async move { insist(&roamer, "/v1/acquire", &waiting).await.ok().body }
    });
    eventually(PATIENCE, "it waits", async || {
        (cluster.roamer(0).lock("c").await.ok().body["queue_length"] == 1).then_some(())
    })
    .await;
    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    cluster.leader_among(&cluster.others(leader)).await;
    let token = json!({"token": held["token"]});
    let renewed = insist(&cluster.roamer(0), "/v1/renew", &token).await.ok().body;
    assert_eq!(renewed["grants"], granted["grants"]);
    assert!(!waits.is_finished());
    insist(&cluster.roamer(0), "/v1/release", &token).await.ok();
    let fences = waits.await.unwrap()["grants"].clone();
    assert!(fences[0]["fence"].as_u64() > granted["grants"][1]["fence"].as_u64());
    assert_eq!(fences[1]["name"], "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_that_closes_a_cycle_is_refused_at_once_with_the_locks_of_the_cycle() {
    let cluster = Cluster::start(3).await;
    let attempt = |lock: &str, owner: &str| Attempt::at(lock).owner(owner).ttl_ms(600_000);
    let (a, b) = (attempt("a", "alice"), attempt("b", "bob"));
    cluster.roamer(0).acquire(&a).await.ok();
    cluster.roamer(1).acquire(&b).await.ok();
    let roamer = cluster.roamer(0);
    let waits = tokio::spawn(async move {
        roamer.acquire(&attempt("b", "alice").wait_ms(WAIT_MS)).await.ok();
    });
    eventually(PATIENCE, "alice waits", async || {
        (cluster.roamer(0).lock("b").await.ok().body["queue_length"] == 1).then_some(())
    })
    .await;
    for node in 0..3 {
        let begun = Instant::now();
        let refused = cluster.roamer(node).acquire(&attempt("a", "bob").wait_ms(WAIT_MS)).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
        assert_eq!((refused.code(), &refused.body["cycle"]), ("deadlock", &json!(["a", "b"])));
    }
    cluster.roamer(2).release(&b).await.ok();
    waits.await.unwrap();
}

/// The client hangs up while it waits: those behind it go on in each of its queues.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_hangs_up_while_it_waits_for_many_holds_nobody_up() {
    let cluster = Cluster::start(3).await;
    let held = Attempt::at("b").ttl_ms(600_000);
    cluster.roamer(0).acquire(&held).await.ok();
    let client: Client = cluster.client(2).clone();
    let gone = tokio::spawn(async move {
        let wait = Duration::from_millis(WAIT_MS);
        client.post("/v1/acquire", &many(&["a", "b"], "gone"), wait).await
    });
    eventually(PATIENCE, "it waits", async || {
        (cluster.roamer(0).lock("a").await.ok().body["queue_length"] == 1).then_some(())
    })
    .await;
    gone.abort();
    let begun = Instant::now();
    cluster.roamer(1).acquire(&Attempt::at("a").wait_ms(WAIT_MS)).await.ok();
    assert!(begun.elapsed() < Duration::from_secs(2) + Duration::from_secs(1), "{:?}", begun.elapsed());
}
