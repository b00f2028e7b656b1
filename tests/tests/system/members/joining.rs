//! Nodes that join, and those that are not let in.

use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, Node, PATIENCE, Setup, eventually, let_pass};
use serde_json::json;

use super::load::Load;
use super::{reign, remove, sees, votes};

/// Renewals may be late by this, whatever happens to the members.
const GAP_MAX: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_from_one_to_three_to_five_and_shrinks_to_three_and_no_holder_notices() {
    let mut cluster = Cluster::start(1).await;
    let fence = cluster.client(1).acquire(&Attempt::at("kept").ttl_ms(600_000)).await.unwrap().ok().fence();
    let load = Load::start("few", &[cluster.client(1).url().to_owned()], 4).await;
    for id in 2..=5 {
        let through: Vec<u64> = cluster.ids();
        let node = cluster.joiner(id, &through, &[]);
        node.start();
        votes(&cluster, 1, &node).await;
        cluster.adopt(node);
        if id == 3 {
            cluster.leader().await;
        }
    }
    let leader = cluster.leader().await;
    let urls: Vec<_> = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect();
    let more = Load::start("load", &urls, 5).await;
    for id in 2..=3 {
        let through = cluster.others(id)[0];
        remove(&cluster, through, id).await.unwrap().ok();
        let view = sees(&cluster, through, "it gone", |view| !view.member_ids().contains(&id)).await;
        assert_eq!(view.voter_ids(), view.member_ids());
        // Its process stays up: clients find the others.
    }
    let left: Vec<u64> = vec![1, 4, 5];
    cluster.leader_among(&left).await;
    let gap = more.stop().await.max(load.stop().await);
    assert!(gap < GAP_MAX, "{gap:?} between two renewals; the leader was {leader}");
    for id in left {
        assert_eq!(cluster.client(id).lock("kept").await.unwrap().ok().held_fence(), Some(fence));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_stays_one_if_it_is_told_to_and_gets_a_vote_once_it_is_not() {
    let cluster = Cluster::start(1).await;
    let learner = cluster.joiner(2, &[1], &["--learner"]);
    learner.start();
    learner.ready(PATIENCE).await;
    let hold = Attempt::at("db").ttl_ms(600_000);
    let fence = learner.client().acquire(&hold).await.unwrap().ok().fence();
    let view = sees(&cluster, 1, "a learner without lag", |view| {
        view.member(2).is_some_and(|member| member["role"] == "learner" && member["lag"] == 0)
    })
    .await;
    assert_eq!(view.voter_ids(), [1]);
    assert_eq!(view.0["health"]["status"], "ok");
    assert!(view.member(2).unwrap()["last_seen_ms"].as_u64().unwrap() < 2_000);
    let_pass(Duration::from_secs(1)).await; // It would have asked for a vote long since.
    assert_eq!(cluster.status(1).await.unwrap().voter_ids(), [1]);

    learner.terminate().await;
    let voter = learner.again(learner.data_dir().into(), vec![]);
    voter.start();
    votes(&cluster, 1, &voter).await;
    assert_eq!(voter.client().lock("db").await.unwrap().ok().held_fence(), Some(fence));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_let_in_is_told_why_and_nobody_else_notices() {
    let cluster = Cluster::start(3).await;
    let before = reign(&cluster).await;

    // An id that belongs to another folder.
    let wiped = cluster.joiner(2, &[1, 2, 3], &[]);
    is_refused(&wiped, "Node id 2 belongs to another data folder").await;

    // A node that nobody reaches where it says that it is.
    let nowhere = cluster.joiner(7, &[1, 2, 3], &["--peer-advertise", "127.0.0.1:1"]);
    is_refused(&nowhere, "does not reach node 7 at 127.0.0.1:1").await;

    // The address of another member.
    let taken = cluster.node(3).addresses().peer.to_string();
    let twin = cluster.joiner(8, &[1, 2, 3], &["--peer-advertise", &taken]);
    is_refused(&twin, "is that of node 3").await;

    // A node of another cluster.
    let other = Setup::nodes(1).start().await;
    other.node(1).terminate().await;
    let urls = cluster.client(1).url().to_owned();
    let stranger = other.node(1).again(other.node(1).data_dir().into(), vec!["--join".into(), urls]);
    is_refused(&stranger, "the data folder belongs to cluster").await;

    assert_eq!(reign(&cluster).await, before, "leader and term are as they were");
    let view = cluster.status(1).await.unwrap();
    assert_eq!((view.member_ids(), view.0["health"]["status"].as_str()), (vec![1, 2, 3], Some("ok")));
}

/// The process ends, and says why.
async fn is_refused(node: &Node, why: &str) {
    node.start();
    let status = node.exited(PATIENCE).await;
    assert!(!status.success() && node.log().contains(why), "{status} {why}:\n{}", node.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_waits_for_a_cluster_that_has_no_leader_yet() {
    let cluster = Setup::nodes(3).make();
    cluster.node(1).start();
    let joiner = cluster.joiner(4, &[1, 2, 3], &[]);
    joiner.start();
    eventually(PATIENCE, "it says that it waits", async || {
        joiner.log().contains("not let in yet").then_some(())
    })
    .await;
    assert!(!joiner.is_ready().await);
    cluster.start_all();
    cluster.ready().await;
    votes(&cluster, 1, &joiner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_joiner_goes_on_where_it_was_and_a_restarted_one_needs_no_flag() {
    let cluster = Cluster::start(1).await;
    let roamer = cluster.roamer(0);
    for number in 0..50 {
        roamer.acquire(&Attempt::at(format!("many-{number}")).ttl_ms(600_000)).await.ok();
    }
    let joiner = cluster.joiner(2, &[1], &[]);
    joiner.start();
    sees(&cluster, 1, "a second member", |view| view.member_ids().len() == 2).await;
    joiner.kill();
    joiner.start();
    votes(&cluster, 1, &joiner).await;
    joiner.kill();
    let again = joiner.again(joiner.data_dir().into(), vec![]);
    again.start();
    again.ready(PATIENCE).await;
    assert_eq!(cluster.status(1).await.unwrap().voter_ids(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_joiner_says_of_itself_is_checked() {
    let cluster = Cluster::start(1).await;
    let storage = "0123456789abcdef0123456789abcdef";
    for (body, field) in [
        (json!({ "id": 0, "peer_addr": "h:1", "storage": storage }), "id"),
        (json!({ "id": 2, "peer_addr": "h", "storage": storage }), "peer_addr"),
        (json!({ "id": 2, "peer_addr": "h:1", "storage": "xyz" }), "storage"),
        (json!({ "id": 2, "peer_addr": "h:1" }), "storage"),
    ] {
        let answer = cluster.client(1).post("/v1/cluster/members", &body, PATIENCE).await.unwrap();
        assert_eq!((answer.status, answer.code()), (400, "invalid_argument"), "{body}");
        assert!(answer.detail().contains(field), "{}", answer.detail());
    }
}
