//! Looking attempts up, checking fences, an operator's hand, and the past.

use std::time::Duration;

use holdfast_core::EVENTS_KEPT;
use holdfast_tests::{Answer, Attempt, Cluster, PATIENCE, eventually};
use serde_json::{Value, json};

async fn post(cluster: &Cluster, node: u64, path: &str, body: Value) -> Answer {
    cluster.client(node).post(path, &body, Duration::ZERO).await.unwrap()
}

async fn look_up(cluster: &Cluster, node: u64, attempt: &Attempt) -> Value {
    let path = format!("/v1/locks/{}/attempt", attempt.lock);
    post(cluster, node, &path, json!({"token": attempt.token})).await.ok().body
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_found_through_every_node_from_its_queue_to_its_end() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (Attempt::at("a"), Attempt::at("a").wait_ms(60_000));
    assert_eq!(look_up(&cluster, 1, &holder).await, json!({"name": "a", "state": "unknown"}));
    let fence = cluster.client(1).acquire(&holder).await.unwrap().ok().fence();
    let (client, waits) = (cluster.client(2), waiter.clone());
    let waiting = tokio::spawn(async move { client.acquire(&waits).await.unwrap().ok().fence() });
    eventually(PATIENCE, "it waits", async || {
        let found = look_up(&cluster, 3, &waiter).await;
        (found == json!({"name": "a", "state": "queued", "place": 1})).then_some(())
    })
    .await;
    let held = look_up(&cluster, 2, &holder).await;
    assert_eq!((&held["state"], &held["fence"]), (&json!("held"), &json!(fence)));
    assert!(held["expires_in_ms"].as_u64().unwrap() <= 30_000);
    cluster.client(3).release(&holder).await.unwrap().ok();
    let next = waiting.await.unwrap();
    for node in cluster.ids() {
        let ended = look_up(&cluster, node, &holder).await;
        assert_eq!((&ended["state"], &ended["ending"]), (&json!("ended"), &json!("released")));
        assert_eq!(ended["fence"], json!(fence));
        assert!(ended["ended_ms_ago"].as_u64().unwrap() < 60_000);
        assert_eq!(look_up(&cluster, node, &waiter).await["fence"], json!(next));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_is_checked_against_the_holds_in_force_and_the_highest_one() {
    let cluster = Cluster::start(3).await;
    let check = async |node, fence: u64| {
        let found = post(&cluster, node, "/v1/locks/a/check", json!({"fence": fence})).await.ok().body;
        (found["current"].as_bool().unwrap(), found["highest"].as_u64().unwrap())
    };
    assert_eq!(check(1, 1).await, (false, 0));
    let old = Attempt::at("a");
    let first = cluster.client(1).acquire(&old).await.unwrap().ok().fence();
    assert_eq!(check(2, first).await, (true, first));
    cluster.client(2).release(&old).await.unwrap().ok();
    assert_eq!(check(3, first).await, (false, first));
    cluster.client(3).acquire(&Attempt::at("other")).await.unwrap().ok();
    let second = cluster.client(3).acquire(&Attempt::at("a")).await.unwrap().ok().fence();
    for node in cluster.ids() {
        assert_eq!(check(node, first).await, (false, second));
        assert_eq!(check(node, second).await, (true, second));
    }
    let bad = post(&cluster, 1, "/v1/locks/a/check", json!({"fence": 0})).await;
    assert!(bad.status == 400 && bad.detail().contains("fence"), "{}", bad.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_hold_and_a_wait_and_their_owners_are_told() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (Attempt::at("a").owner("alice"), Attempt::at("a").owner("bob").wait_ms(60_000));
    let fence = cluster.client(1).acquire(&holder).await.unwrap().ok().fence();
    let (client, waits) = (cluster.client(2), waiter.clone());
    let waiting = tokio::spawn(async move { client.acquire(&waits).await.unwrap() });
    eventually(PATIENCE, "it waits", async || {
        (cluster.client(3).lock("a").await.unwrap().queue() == ["bob"]).then_some(())
    })
    .await;
    let leave = json!({"owner": "bob", "reason": "not today", "by": "olga"});
    let left = post(&cluster, 3, "/v1/locks/a/force-leave", leave.clone()).await.ok();
    assert_eq!(left.body, json!({"name": "a", "owner": "bob", "left": 1}));
    assert_eq!(waiting.await.unwrap().code(), "lease_forced");
    assert_eq!(cluster.client(1).acquire(&waiter).await.unwrap().code(), "lease_forced");
    // The answer may have been lost.
    assert_eq!(post(&cluster, 1, "/v1/locks/a/force-leave", leave).await.ok().body["left"], 0);
    let nobody = json!({"owner": "carol", "reason": "not today"});
    let nobody = post(&cluster, 1, "/v1/locks/a/force-leave", nobody).await;
    assert_eq!((nobody.status, nobody.code()), (409, "not_holder"));

    let wrong = json!({"fence": fence + 1, "reason": "it hangs"});
    let wrong = post(&cluster, 2, "/v1/locks/a/force-release", wrong).await;
    assert_eq!((wrong.status, wrong.code()), (409, "not_holder"));
    let force = json!({"fence": fence, "reason": "it hangs", "by": "olga"});
    for node in [2, 3] {
        let forced = post(&cluster, node, "/v1/locks/a/force-release", force.clone()).await.ok();
        assert_eq!(forced.body, json!({"name": "a", "fence": fence, "forced": true}));
    }
    let renewed = cluster.client(1).renew(&holder).await.unwrap();
    assert_eq!((renewed.status, renewed.code()), (409, "lease_forced"));
    assert_eq!(look_up(&cluster, 1, &holder).await["ending"], "forced");
    for (field, body) in [
        ("reason", json!({"fence": fence})),
        ("reason", json!({"fence": fence, "reason": ""})),
        ("reason", json!({"fence": fence, "reason": "x".repeat(513)})),
        ("by", json!({"fence": fence, "reason": "x", "by": ""})),
        ("fence", json!({"reason": "x"})),
    ] {
        let bad = post(&cluster, 1, "/v1/locks/a/force-release", body).await;
        assert!(bad.status == 400 && bad.detail().contains(&format!("`{field}`")), "{field}: {}", bad.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_a_lock_is_told_page_by_page_with_who_and_why_and_when() {
    let cluster = Cluster::start(3).await;
    let mut fences = Vec::new();
    for n in 0..5 {
        let attempt = Attempt::at("a").owner(format!("worker-{n}"));
        fences.push(cluster.client(1 + n % 3).acquire(&attempt).await.unwrap().ok().fence());
        match n {
            4 => {
                let force = json!({"fence": fences[4], "reason": "it hangs", "by": "olga"});
                post(&cluster, 2, "/v1/locks/a/force-release", force).await.ok();
            }
            _ => drop(cluster.client(2).release(&attempt).await.unwrap().ok()),
        }
    }
    let page = async |node, query: &str| {
        let path = format!("/v1/locks/a/history{query}");
        cluster.client(node).get(&path).await.unwrap().ok().body
    };
    let all = page(1, "").await;
    let told = |page: &Value| -> Vec<u64> {
        page["endings"].as_array().unwrap().iter().map(|ending| ending["fence"].as_u64().unwrap()).collect()
    };
    let newest_first: Vec<_> = fences.iter().rev().copied().collect();
    assert_eq!(told(&all), newest_first);
    let last = &all["endings"][0];
    assert_eq!((&last["owner"], &last["ended"]), (&json!("worker-4"), &json!("forced")));
    assert_eq!((&last["by"], &last["reason"]), (&json!("olga"), &json!("it hangs")));
    assert_eq!(all["endings"][1]["ended"], "released");
    // Of the leader's clock on the wall: it is told a little after the cluster was born.
    eventually(PATIENCE, "the time of day is known", async || {
        page(3, "").await["endings"][0]["at"]
            .as_str()
            .map(|at| assert!(at.ends_with('Z') && at.starts_with("20")))
    })
    .await;
    let first_page = page(2, "?limit=2").await;
    assert_eq!(told(&first_page), newest_first[..2]);
    let before = first_page["next"].as_u64().unwrap();
    let rest = page(3, &format!("?limit=3&before={before}")).await;
    assert_eq!((told(&rest), &rest["next"]), (newest_first[2..].to_vec(), &Value::Null));
}

/// The replicated events are bounded; what each node has written down outlives them, and its own restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_past_outlives_the_replicated_events_and_a_restart() {
    let cluster = Cluster::start(3).await;
    let mut fences = Vec::new();
    for n in 0..3 {
        let attempt = Attempt::at("old").owner(format!("worker-{n}"));
        fences.push(cluster.client(1).acquire(&attempt).await.unwrap().ok().fence());
        cluster.client(1).release(&attempt).await.unwrap().ok();
    }
    let locks: Vec<_> = (0..64).map(|n| json!({"name": format!("many-{n}")})).collect();
    for round in 0..=EVENTS_KEPT / 128 {
        let token = format!("token-of-round-{round:06}");
        let acquire = json!({"locks": locks, "token": token});
        post(&cluster, 1, "/v1/acquire", acquire).await.ok();
        post(&cluster, 1, "/v1/release", json!({"token": token})).await.ok();
    }
    let told = async |node: u64| -> Vec<Value> {
        let page = cluster.client(node).get("/v1/locks/old/history").await;
        let endings = page.ok().filter(Answer::is_ok).map(|page| page.body["endings"].clone());
        endings.and_then(|endings| endings.as_array().cloned()).unwrap_or_default()
    };
    let newest_first: Vec<_> = fences.iter().rev().map(|fence| json!(fence)).collect();
    for node in cluster.ids() {
        let fences: Vec<_> = told(node).await.iter().map(|ending| ending["fence"].clone()).collect();
        assert_eq!(fences, newest_first, "node {node}");
    }
    assert!(cluster.node(2).terminate().await.success());
    cluster.node(2).start();
    cluster.node(2).ready(PATIENCE).await;
    let owners: Vec<_> = told(2).await.iter().map(|ending| ending["owner"].clone()).collect();
    assert_eq!(owners, ["worker-2", "worker-1", "worker-0"]);
    let page = cluster.client(2).get(&format!("/v1/locks/old/history?limit=1&before={}", fences[2])).await;
    let page = page.unwrap().ok().body;
    assert_eq!((&page["endings"][0]["fence"], &page["next"]), (&json!(fences[1]), &json!(fences[1])));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_is_explained_as_data_and_in_one_sentence() {
    let cluster = Cluster::start(3).await;
    let why = async || cluster.client(2).get("/v1/locks/a/why").await.unwrap().ok().body;
    let free = why().await;
    assert_eq!((&free["state"], &free["why"]), (&json!("free"), &json!("The lock is free.")));
    let fence = cluster.client(1).acquire(&Attempt::at("a").owner("alice")).await.unwrap().ok().fence();
    let client = cluster.client(1);
    let waiter = Attempt::at("a").owner("bob").wait_ms(60_000);
    let waiting = tokio::spawn(async move { client.acquire(&waiter).await });
    let held = eventually(PATIENCE, "somebody waits", async || {
        let held = why().await;
        (held["queue_length"] == 1).then_some(held)
    })
    .await;
    assert_eq!((&held["holders"][0]["fence"], &held["ahead"][0]["owner"]), (&json!(fence), &json!("bob")));
    let sentence = held["why"].as_str().unwrap();
    assert!(sentence.contains("alice") && sentence.contains(&format!("fence {fence}")), "{sentence}");
    assert!(sentence.contains("1 waits"), "{sentence}");
    waiting.abort();
}

/// What an operator does at a terminal: every number that is asked for has been shown before.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_broken_from_what_the_listing_shows() {
    let cluster = Cluster::start(3).await;
    let endpoints = cluster.ids().into_iter().map(|id| cluster.client(id).url().to_owned());
    let endpoints: Vec<_> = endpoints.collect();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(holdfast_tests::holdfast());
        command.args(arguments).env("HOLDFAST_ENDPOINTS", endpoints.join(",")).env_remove("HOLDFAST_TOKEN");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let mut watch = std::process::Command::new(holdfast_tests::holdfast())
        .args(["watch", "db", "--since", "0", "--json"])
        .env("HOLDFAST_ENDPOINTS", endpoints.join(","))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let dead = Attempt::at("db").owner("dead").ttl_ms(3_600_000);
    cluster.client(1).acquire(&dead).await.unwrap().ok();
    let waiter = Attempt::at("db").owner("next").wait_ms(60_000);
    let (client, waits) = (cluster.client(2), waiter.clone());
    let waiting = tokio::spawn(async move { client.acquire(&waits).await.unwrap().ok().fence() });
    eventually(PATIENCE, "somebody waits", async || run(&["why", "db"]).1.contains("1 waits").then_some(()))
        .await;
    let (_, shown, _) = run(&["get", "db", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let fence = shown["holders"][0]["fence"].to_string();
    assert_eq!(run(&["check-fence", "db", &fence]).0, 0);
    let force = ["force-release", "db", "--fence", &fence, "--reason", "its machine is gone", "--by", "olga"];
    let (exit, said, _) = run(&force);
    assert!(exit == 0 && said.starts_with("ended the hold of db"), "{said}");
    assert!(waiting.await.unwrap().to_string() > fence);
    // The same number again does no harm, and one that never was is refused.
    assert_eq!(run(&force).0, 0);
    let (exit, _, said) = run(&["force-release", "db", "--fence", "77", "--reason", "x"]);
    assert!(exit == 76 && said.contains("not_holder"), "{said}");
    let (exit, _, said) = run(&["check-fence", "db", &fence]);
    assert!(exit == 76 && said.contains("no hold in force"), "{said}");
    assert_eq!(cluster.client(3).renew(&dead).await.unwrap().code(), "lease_forced");
    let (_, attempt, _) = run(&["attempt", "db", "--token", &dead.token]);
    assert!(attempt.contains("forced"), "{attempt}");
    let (_, history, _) = run(&["history", "db"]);
    assert!(history.contains("forced, by olga: its machine is gone"), "{history}");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let told: Vec<Value> = lines.take(4).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let kinds: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["acquired", "queued", "forced", "acquired"]);
    assert_eq!((&told[2]["by"], told[2]["fence"].to_string()), (&json!("olga"), fence));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
