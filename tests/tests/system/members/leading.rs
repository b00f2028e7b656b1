//! Leadership that is handed over: by hand, and when nodes are restarted one after the other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdfast_client::Client;
use holdfast_tests::{Cluster, PATIENCE, eventually, holdfast};
use serde_json::json;

use super::load::Load;
use super::{reign, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn leadership_goes_to_each_node_in_turn_and_the_answer_comes_once_it_serves() {
    let cluster = Cluster::start(3).await;
    let urls: Vec<_> = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect();
    let load = Load::start("load", &urls, 3).await;
    for to in [1, 2, 3, 1, 3, 2, 1] {
        let through = cluster.others(to)[usize::try_from(to).unwrap() % 2];
        let answer = transfer(&cluster, through, to).await.ok();
        assert_eq!(answer.body["leader_id"], to);
        assert_eq!(cluster.status(through).await.unwrap().leader_id(), Some(to));
    }
    let before = cluster.leader().await;
    let answer = cluster.client(1).post("/v1/cluster/transfer", &json!({}), PATIENCE).await.unwrap().ok();
    assert_ne!(answer.body["leader_id"], before);
    let gap = load.stop().await;
    assert!(gap < Duration::from_secs(1), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_lead_is_refused_as_successor_and_the_leader_stays() {
    let cluster = Cluster::start(3).await;
    let learner = cluster.joiner(4, &[1], &["--learner"]);
    learner.start();
    learner.ready(PATIENCE).await;
    let before = reign(&cluster).await;
    let away = cluster.others(before.0)[0];

    let unknown = transfer(&cluster, 1, 9).await;
    assert_eq!((unknown.status, unknown.code()), (404, "not_found"));
    let no_vote = transfer(&cluster, 1, 4).await;
    assert_eq!((no_vote.status, no_vote.code()), (400, "invalid_argument"));
    assert!(no_vote.detail().contains("learner"), "{}", no_vote.detail());
    transfer(&cluster, 1, before.0).await.ok(); // It leads already.
    cluster.node(away).pause();
    let silent = transfer(&cluster, before.0, away).await;
    assert_eq!((silent.status, silent.code()), (409, "unsafe"));
    cluster.node(away).resume();
    assert_eq!(reign(&cluster).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_restarted_one_after_the_other_fail_no_call_of_the_client_library() {
    let cluster = Cluster::start(3).await;
    let urls: Vec<_> = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect();
    let load = Load::start("load", &urls, 3).await;
    let client = Client::builder().endpoints(urls.clone()).build().unwrap();
    let mut guard = client.lock("kept").ttl(Duration::from_secs(5)).acquire().await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let calls = tokio::spawn(async move {
        let mut done = 0_u32;
        while !*stopped.borrow() {
            let mut guard = client.lock("busy").acquire().await.expect("no call fails");
            guard.release().await.expect("no call fails");
            done += 1;
        }
        done
    });
    roll(&cluster, &urls).await;
    stop.send_replace(true);
    assert!(calls.await.unwrap() > 10);
    guard.release().await.unwrap();
    let gap = load.stop().await;
    assert!(gap < Duration::from_secs(1), "{gap:?}");
}

/// Runs the script, and restarts each node that it asks for by a file.
async fn roll(cluster: &Cluster, urls: &[String]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/rolling-restart");
    let folder = cluster.folder().display();
    let command =
        format!("touch {folder}/wanted-{{id}}; until [ -e {folder}/done-{{id}} ]; do sleep 0.05; done");
    let mut script = Command::new(script)
        .args(["--command", &command, "--endpoints", &urls.join(",")])
        .env("HOLDFAST_BIN", holdfast())
        .spawn()
        .unwrap();
    let mut left = cluster.ids();
    let status = eventually(PATIENCE * 2, "all nodes are restarted", async || {
        if let Some(at) = left.iter().position(|id| cluster.folder().join(format!("wanted-{id}")).exists()) {
            let id = left.swap_remove(at);
            assert!(cluster.node(id).terminate().await.success());
            cluster.node(id).start();
            std::fs::write(cluster.folder().join(format!("done-{id}")), "").unwrap();
        }
        script.try_wait().unwrap()
    })
    .await;
    assert!(status.success() && left.is_empty(), "{status}, not restarted: {left:?}");
}
