//! Members that are removed: dead ones, leaders, and those that the cluster cannot do without.

use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Cluster, PATIENCE, eventually, let_pass};
use serde_json::json;

use super::load::Load;
use super::{reign, remove, sees, votes};

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_is_removed_within_five_seconds_and_replaced_under_a_new_id() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let dead = cluster.others(leader)[0];
    let fence =
        cluster.client(leader).acquire(&Attempt::at("db").ttl_ms(600_000)).await.unwrap().ok().fence();
    cluster.node(dead).kill();
    let view =
        sees(&cluster, leader, "that it is gone", |view| view.0["health"]["status"] == "degraded").await;
    assert!(view.0["health"]["reasons"].to_string().contains(&format!("node {dead} does not answer")));
    let left = cluster.others(dead);
    let begun = Instant::now();
    remove(&cluster, left[1], dead).await.unwrap().ok();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(cluster.status(leader).await.unwrap().voter_ids(), left);
    remove(&cluster, left[0], dead).await.unwrap().ok(); // It is safe to repeat.

    let replacement = cluster.joiner(4, &left, &[]);
    replacement.start();
    votes(&cluster, leader, &replacement).await;
    assert_eq!(replacement.client().lock("db").await.unwrap().ok().held_fence(), Some(fence));
    cluster.dismiss(dead);
    cluster.adopt(replacement);
    assert_eq!(
        sees(&cluster, leader, "all well", |view| view.0["health"]["status"] == "ok").await.voter_ids().len(),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_knows_it_serves_nobody_and_disturbs_nobody_also_after_a_restart() {
    const WHILE: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let removed = cluster.others(leader)[0];
    let left = cluster.others(removed);
    remove(&cluster, removed, removed).await.unwrap().ok(); // Through the one that goes.
    let before = cluster.status(leader).await.unwrap();
    for round in 0..2 {
        let node = cluster.node(removed);
        eventually(PATIENCE, "it says what has happened", async || {
            (node.log().matches("was removed from the cluster. Stop it").count() > round).then_some(())
        })
        .await;
        let ready = node.client().get("/readyz").await.unwrap();
        assert!(ready.status == 503 && ready.detail().contains("was removed"), "{ready:?}");
        let_pass(WHILE).await;
        let now = cluster.status(leader).await.unwrap();
        assert_eq!((now.leader_id(), now.term()), (Some(leader), before.term()));
        assert_eq!(now.member_ids(), left);
        node.kill();
        node.start();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_removed_lets_another_one_lead_first() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let urls: Vec<_> = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect();
    let load = Load::start("load", &urls, 3).await;
    remove(&cluster, leader, leader).await.unwrap().ok();
    let left = cluster.others(leader);
    cluster.leader_among(&left).await;
    let gap = load.stop().await;
    assert!(gap < Duration::from_secs(1), "{gap:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_cost_the_majority_is_refused_unless_it_is_forced() {
    let cluster = Cluster::start(3).await;
    let (leader, term) = reign(&cluster).await;
    let [alive, away] = cluster.others(leader)[..] else { unreachable!("there are three") };
    cluster.node(away).pause();
    let refused = remove(&cluster, leader, alive).await.unwrap();
    assert_eq!((refused.status, refused.code()), (409, "unsafe"));
    assert!(refused.detail().contains(&format!("Silent: node {away}")), "{}", refused.detail());
    assert_eq!(cluster.status(leader).await.unwrap().voter_ids(), [1, 2, 3]);

    // By force it begins, and cannot end before the other one is back. Meanwhile nothing else can be changed.
    let path = format!("/v1/cluster/members/{alive}?force=true");
    let client = cluster.client(leader);
    let forced = tokio::spawn(async move { client.delete(&path, &json!({})).await });
    sees(&cluster, leader, "a change under way", |view| {
        view.0["health"]["reasons"].to_string().contains("change of the members is under way")
    })
    .await;
    let second = remove(&cluster, leader, away).await.unwrap();
    assert_eq!((second.status, second.code()), (409, "change_in_progress"));
    cluster.node(away).resume();
    let _ = forced.await.unwrap(); // It may not have waited for so long.
    let view = sees(&cluster, leader, "it gone", |view| !view.member_ids().contains(&alive)).await;
    assert!(view.term() >= term);

    // Two are left. The last one cannot be removed, by force or not.
    cluster.leader_among(&[leader, away]).await;
    remove(&cluster, leader, away).await.unwrap().ok();
    for force in [false, true] {
        let body = json!({ "force": force });
        let last =
            cluster.client(leader).delete(&format!("/v1/cluster/members/{leader}"), &body).await.unwrap();
        assert_eq!(last.code(), "unsafe", "{last:?}");
        assert!(last.detail().contains("last voter"), "{}", last.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_be_removed_and_a_malformed_id_is_refused() {
    let cluster = Cluster::start(1).await;
    let unknown = remove(&cluster, 1, 9).await.unwrap();
    assert_eq!((unknown.status, unknown.code()), (404, "not_found"));
    let malformed = cluster.client(1).delete("/v1/cluster/members/x", &json!({})).await.unwrap();
    assert_eq!(malformed.code(), "invalid_argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_members_survives_a_restart_of_all() {
    let mut cluster = Cluster::start(1).await;
    let node = cluster.joiner(2, &[1], &[]);
    node.start();
    votes(&cluster, 1, &node).await;
    cluster.adopt(node);
    let third = cluster.joiner(3, &[1, 2], &[]);
    third.start();
    votes(&cluster, 1, &third).await;
    cluster.adopt(third);
    remove(&cluster, 1, 2).await.unwrap().ok();
    cluster.dismiss(2);
    cluster.kill_all();
    cluster.start_all();
    cluster.leader().await;
    for id in cluster.ids() {
        assert_eq!(cluster.status(id).await.unwrap().voter_ids(), [1, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_while_leaders_are_killed_and_the_list_is_what_the_answers_say() {
    const ROUNDS: u64 = 4;
    let mut cluster = Cluster::start(3).await;
    let fence = cluster.client(1).acquire(&Attempt::at("db").ttl_ms(600_000)).await.unwrap().ok().fence();
    for id in 4..4 + ROUNDS {
        let joiner = cluster.joiner(id, &cluster.ids(), &[]);
        joiner.start();
        let leader = cluster.leader().await;
        sees(&cluster, leader, "the joiner", |view| view.member_ids().contains(&id)).await;
        cluster.node(leader).kill(); // Perhaps amid the promotion.
        let left = cluster.others(leader);
        votes(&cluster, left[0], &joiner).await;
        cluster.adopt(joiner);
        let gone = leader;
        eventually(PATIENCE, "the killed one is removed", async || {
            remove(&cluster, left[1], gone).await.ok().filter(holdfast_tests::Answer::is_ok)
        })
        .await;
        cluster.dismiss(gone);
        let mut expected = cluster.ids();
        expected.sort_unstable();
        sees(&cluster, left[0], "the new list", |view| view.voter_ids() == expected).await;
    }
    cluster.leader().await;
    for id in cluster.ids() {
        assert_eq!(cluster.client(id).lock("db").await.unwrap().ok().held_fence(), Some(fence));
    }
}
