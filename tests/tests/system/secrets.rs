//! Tokens are in nobody's hands but their owner's: no log, listing, error, metric or file has them.

use std::fs;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, Setup, eventually};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_in_no_listing_error_metric_log_or_file() {
    let cluster = Setup { log_level: "debug,openraft=trace".into(), ..Setup::nodes(3) }.start().await;
    let mut tokens = Vec::new();
    let mut said = String::new();
    for number in 0..6 {
        let lock = format!("db-{number}");
        let holder = Attempt::at(&lock).owner("holder").ttl_ms(600_000);
        cluster.roamer(number).acquire(&holder).await.ok();
        let waiter = Attempt::at(&lock).owner("waiter").wait_ms(60_000);
        let (client, attempt) = (cluster.roamer(number + 1), waiter.clone());
        tokio::spawn(async move { client.acquire(&attempt).await });
        eventually(PATIENCE, "it waits", async || {
            (cluster.roamer(0).lock(&lock).await.body["queue_length"] == 1).then_some(())
        })
        .await;
        let stranger = Attempt::at(&lock);
        let client = cluster.client(1 + (number % 3) as u64);
        for answer in [
            client.acquire(&stranger).await.unwrap(),
            client.acquire(&Attempt::at(&lock).with_token(&holder.token)).await.unwrap(),
            client.renew(&stranger).await.unwrap(),
            client.release(&stranger).await.unwrap(),
            client.acquire(&Attempt::at(&lock).with_token(format!("{}!", holder.token))).await.unwrap(),
            client.lock(&lock).await.unwrap(),
        ] {
            said.push_str(&format!("{answer:?}\n"));
        }
        let wrong = json!({ "token": [holder.token], "owner": 1 });
        let answer = client.post(&format!("/v1/locks/{lock}/acquire"), &wrong, Duration::ZERO).await.unwrap();
        said.push_str(&format!("{answer:?}\n"));
        let looked_up = json!({ "token": holder.token });
        for (path, body) in [("attempt", Some(&looked_up)), ("why", None), ("history", None)] {
            let path = format!("/v1/locks/{lock}/{path}");
            let answer = match body {
                Some(body) => client.post(&path, body, Duration::ZERO).await.unwrap(),
                None => client.get(&path).await.unwrap(),
            };
            said.push_str(&format!("{answer:?}\n"));
        }
        tokens.extend([holder.token, waiter.token, stranger.token]);
    }
    for id in cluster.ids() {
        for path in ["/v1/locks", "/v1/cluster", "/metrics", "/openapi.json", "/debug/digest", "/readyz"] {
            said.push_str(&format!("{:?}\n", cluster.client(id).get(path).await.unwrap()));
        }
    }
    let endpoints = cluster.ids().into_iter().map(|id| cluster.client(id).url().to_owned());
    let watch = holdfast_client::Client::builder().endpoints(endpoints).build().unwrap();
    let mut watch = watch.watch("", Some(0));
    for _ in 0..12 {
        said.push_str(&format!("{:?}\n", watch.next().await.unwrap()));
    }
    cluster.kill_all();
    for node in cluster.nodes() {
        let log = node.log();
        assert!(log.contains("/v1/locks/db-"), "the log is as talkative as it can be");
        said.push_str(&log);
        for entry in fs::read_dir(node.data_dir()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                said.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
            }
        }
    }
    for token in &tokens {
        let at = said.find(token.as_str());
        assert!(at.is_none(), "a token is here: {:?}", at.map(|at| said.split_at(at).0.lines().last()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_token_itself_releases_or_renews() {
    let cluster = Cluster::start(3).await;
    let former = Attempt::at("db").owner("me");
    cluster.client(1).acquire(&former).await.unwrap().ok();
    cluster.client(1).release(&former).await.unwrap().ok();
    let hold = Attempt::at("db").owner("me").ttl_ms(600_000);
    let fence = cluster.client(1).acquire(&hold).await.unwrap().ok().fence();
    let other_case: String =
        hold.token.chars().map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c }).collect();
    let guesses = [former.token.clone(), hold.token[..16].into(), other_case, format!("{}0", hold.token)];
    for token in guesses.into_iter().filter(|token| *token != hold.token) {
        let guess = Attempt::at("db").with_token(token);
        for id in cluster.ids() {
            let renewed = cluster.client(id).renew(&guess).await.unwrap();
            assert!(matches!(renewed.code(), "not_holder" | "lease_released"), "{renewed:?}");
            let released = cluster.client(id).release(&guess).await.unwrap();
            // A former holder's release again is a success that touches nobody.
            assert!(released.is_ok() == (guess.token == former.token), "{released:?}");
            assert_eq!(cluster.client(id).lock("db").await.unwrap().ok().held_fence(), Some(fence));
        }
    }
}
