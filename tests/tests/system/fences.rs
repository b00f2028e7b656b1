//! One row of fences for the whole life of a cluster.

use std::time::Duration;

use holdfast_tests::{Attempt, Cluster};

const CYCLES: u64 = 500;
/// A node is killed after so many cycles: the leader, then one of the others, then all of them.
const KILL_EVERY: u64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn fences_rise_over_five_hundred_cycles_with_killed_leaders_restarts_and_reads() {
    let cluster = Cluster::start(3).await;
    let mut last = 0;
    for cycle in 0..CYCLES {
        let first = usize::try_from(cycle).unwrap();
        if cycle % KILL_EVERY == KILL_EVERY - 1 {
            let leader = cluster.leader().await;
            match cycle / KILL_EVERY % 3 {
                0 => cluster.node(leader).kill(),
                1 => cluster.node(cluster.others(leader)[0]).kill(),
                _ => cluster.kill_all(),
            }
            cluster.start_all();
        }
        let attempt = Attempt::at("db");
        let fence = cluster.roamer(first).acquire(&attempt).await.ok().fence();
        assert!(fence > last, "fence {fence} after {last}, cycle {cycle}");
        if cycle % 10 == 0 {
            for node in 0..3 {
                for _ in 0..3 {
                    assert_eq!(cluster.roamer(node).lock("db").await.ok().held_fence(), Some(fence));
                }
            }
        }
        cluster.roamer(first + 1).release(&attempt).await.ok();
        last = fence;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_after_a_restart_is_never_older_than_what_was_told_before() {
    const ROUNDS: u64 = 30;
    for nodes in [1, 3] {
        let cluster = Cluster::start(nodes).await;
        for round in 0..ROUNDS {
            let lock = format!("lock-{round}");
            let attempt = Attempt::at(&lock).ttl_ms(600_000);
            let fence = cluster.roamer(0).acquire(&attempt).await.ok().fence();
            cluster.kill_all();
            cluster.start_all();
            for node in 0..nodes {
                // A node that has nothing to say yet says 503, and is asked again at once.
                let id = cluster.ids()[node];
                let seen = holdfast_tests::Roamer::new(vec![cluster.client(id)], 0).lock(&lock).await.ok();
                assert_eq!(seen.held_fence(), Some(fence), "node {id} of {nodes}, round {round}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_and_a_returner_elect_a_leader_whoever_of_them_has_seen_more() {
    const ROUNDS: usize = 5;
    const WITHIN: Duration = Duration::from_secs(10);
    let cluster = Cluster::start(3).await;
    for round in 0..ROUNDS {
        let leader = cluster.leader().await;
        let [early, left] = cluster.others(leader)[..] else { panic!("three nodes") };
        cluster.node(early).kill();
        cluster.roamer(round).acquire(&Attempt::at(format!("lock-{round}"))).await.ok();
        cluster.node(leader).kill();
        // It has nobody to vote for it, and time to ask many times.
        holdfast_tests::let_pass(Duration::from_secs(3)).await;
        assert!(!cluster.node(left).is_ready().await);
        cluster.node(early).start();
        let elected = cluster.leader_within(&[early, left], WITHIN).await;
        assert_eq!(elected, left, "the other lacks an entry");
        cluster.start_all();
    }
}
