//! Leaders that stop in good order, leaders that freeze, and followers that come back.

use std::time::{Duration, Instant};

use holdfast_tests::{
    Answer, Attempt, Client, Cluster, NoAnswer, PATIENCE, Roamer, Signal, eventually, let_pass, median,
};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_stop_hands_over_and_answers_what_is_in_flight() {
    const ROUNDS: usize = 5;
    let cluster = Cluster::start(3).await;
    let mut gaps = Vec::new();
    for round in 0..ROUNDS {
        let leader = cluster.leader().await;
        let lock = format!("busy-{round}");
        let holder = Attempt::at(&lock).owner("holder").ttl_ms(600_000);
        let fence = cluster.client(leader).acquire(&holder).await.unwrap().ok().fence();
        let in_flight = requests_in_flight(&cluster, leader, &lock).await;

        let told = Instant::now();
        cluster.node(leader).signal(Signal::Term);
        let others: Vec<_> = cluster.others(leader).iter().map(|id| cluster.client(*id)).collect();
        let others = Roamer::new(others, round);
        others.acquire(&Attempt::at(format!("next-{round}"))).await.ok();
        gaps.push(told.elapsed());

        assert!(cluster.node(leader).exited(PATIENCE).await.success(), "the leader ends with status 0");
        for answer in in_flight.join_all().await {
            assert!(matches!(answer.status, 200 | 409 | 503 | 504), "{answer:?}");
        }
        assert_eq!(others.lock(&lock).await.held_fence(), Some(fence));
        cluster.start_all();
        cluster.ready().await;
    }
    let gap = median(&gaps);
    assert!(gap < Duration::from_millis(300), "median {gap:?} of {gaps:?}");
}

/// Clients that wait at the leader, and clients that renew and try there without a pause.
async fn requests_in_flight(cluster: &Cluster, leader: u64, lock: &str) -> JoinSet<Answer> {
    const WAITERS: usize = 10;
    const BUSY: usize = 5;
    let mut calls = JoinSet::new();
    for number in 0..WAITERS {
        let (client, attempt) = (cluster.client(leader), Attempt::at(lock).wait_ms(60_000));
        let attempt = attempt.owner(format!("waiter-{number}"));
        calls.spawn(async move { client.acquire(&attempt).await.expect("a request in flight is answered") });
    }
    for number in 0..BUSY {
        calls.spawn(try_until_refused(cluster.client(leader), format!("{lock}-{number}")));
    }
    let roamer = cluster.roamer(0);
    eventually(PATIENCE, "all of them wait", async || {
        (roamer.lock(lock).await.queue().len() == WAITERS).then_some(())
    })
    .await;
    calls
}

/// Acquires and renews until the node says that it is over; a connection may be refused only once the node has closed.
async fn try_until_refused(client: Client, lock: String) -> Answer {
    let attempt = Attempt::at(lock).ttl_ms(600_000);
    let mut last = client.acquire(&attempt).await.expect("the node runs");
    while last.is_ok() {
        match client.renew(&attempt).await {
            Ok(answer) => last = answer,
            // Between two requests the node may close the connection, and then its door.
            Err(NoAnswer::Broken(why)) => {
                assert!(
                    why.contains("Connect") || why.contains("ChannelClosed") || why.contains("Canceled"),
                    "{why}"
                );
                return last;
            }
            Err(NoAnswer::Silent(span)) => panic!("no answer for {span:?}"),
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_frozen_for_longer_than_a_lease_gives_no_stale_success() {
    const TTL_MS: u64 = 2_000;
    let cluster = Cluster::start(3).await;
    let frozen = cluster.leader().await;
    let first = Attempt::at("db").owner("first").ttl_ms(TTL_MS);
    let fence = cluster.client(frozen).acquire(&first).await.unwrap().ok().fence();
    let others = cluster.others(frozen);
    let second = Attempt::at("db").owner("second").ttl_ms(600_000).wait_ms(60_000);
    let (waiting, attempt) = (cluster.client(others[0]), second.clone());
    let waiting = tokio::spawn(async move { waiting.acquire(&attempt).await });
    eventually(PATIENCE, "the second one waits", async || {
        (cluster.client(others[0]).lock("db").await.ok()?.queue() == ["second"]).then_some(())
    })
    .await;

    cluster.node(frozen).pause();
    let late = ask_the_frozen(&cluster.client(frozen), &first);
    let granted = waiting.await.unwrap().unwrap().ok();
    assert!(granted.fence() > fence);
    cluster.node(frozen).resume();

    for answer in late.join_all().await {
        // Refused by the rules, or the new state; never the old one.
        let is_true = match answer.status {
            200 => answer.held_fence() == Some(granted.fence()),
            409 => answer.code() == "lease_expired",
            _ => false,
        };
        assert!(is_true, "{answer:?}");
    }
    cluster.ready().await;
    for id in cluster.ids() {
        let refused = cluster.client(id).renew(&first).await.unwrap();
        assert_eq!(refused.code(), "lease_expired", "node {id}");
        let lock = cluster.client(id).lock("db").await.unwrap().ok();
        assert_eq!(lock.held_fence(), Some(granted.fence()), "node {id}");
    }
}

/// Requests that lie in the sockets of the frozen node until it goes on.
fn ask_the_frozen(client: &Client, first: &Attempt) -> JoinSet<Answer> {
    const EACH: usize = 5;
    let mut calls = JoinSet::new();
    for _ in 0..EACH {
        // It may owe an answer for longer than a client waits for it: then the client asks again.
        let alone = || Roamer::new(vec![Client::new(client.url())], 0);
        let (roamer, attempt) = (alone(), first.clone());
        calls.spawn(async move { roamer.renew(&attempt).await });
        let roamer = alone();
        calls.spawn(async move { roamer.lock("db").await });
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_comes_back_never_unseats_a_healthy_leader() {
    const AWAY: Duration = Duration::from_secs(10);
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let term = cluster.status(leader).await.unwrap().term();
    let follower = cluster.node(cluster.others(leader)[0]);
    let hold = Attempt::at("db").ttl_ms(600_000);
    let fence = cluster.client(leader).acquire(&hold).await.unwrap().ok().fence();

    follower.pause();
    let_pass(AWAY).await;
    follower.resume();
    check_reign(&cluster, leader, term, &hold, fence).await;

    follower.kill();
    follower.start();
    check_reign(&cluster, leader, term, &hold, fence).await;

    follower.kill();
    let_pass(AWAY).await;
    follower.start();
    check_reign(&cluster, leader, term, &hold, fence).await;
}

/// Once all are equally far, the leader and its term are what they were.
async fn check_reign(cluster: &Cluster, leader: u64, term: u64, hold: &Attempt, fence: u64) {
    cluster.ready().await;
    assert_eq!(cluster.client(leader).renew(hold).await.unwrap().ok().fence(), fence);
    cluster.equal_digests(&cluster.ids()).await;
    for id in cluster.ids() {
        let status = cluster.status(id).await.expect("the node answers");
        assert_eq!((status.leader_id(), status.term()), (Some(leader), term), "as node {id} sees it");
    }
}
