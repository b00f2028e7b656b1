//! The leader is killed while clients hold and wait: nothing that was answered is lost, and nobody is jumped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_tests::{Attempt, Client, Cluster, NoAnswer, PATIENCE, Roamer, eventually};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const HELD: usize = 50;
const QUEUES: usize = 5;
const WAITERS: usize = 50;
/// One in so many of those who wait at the leader never comes back.
const GONE_EVERY: usize = 5;
const LONG_MS: u64 = 600_000;

/// One of the clients that wait.
struct Waiting {
    queue: usize,
    attempt: Attempt,
    is_gone: bool,
}

fn held_lock(number: usize) -> String {
    format!("held-{number:02}")
}

/// Who was granted, in order, for each queue.
type Order = Arc<Mutex<Vec<Vec<(String, u64)>>>>;

#[tokio::test(flavor = "multi_thread")]
async fn holds_fences_and_places_survive_a_killed_leader() {
    let cluster = Cluster::start(3).await;
    let holders = hold_locks(&cluster).await;
    let leader = cluster.leader().await;
    let order = Order::default();
    order.lock().await.resize(QUEUES, Vec::new());
    let (waiters, calls) = queue_up(&cluster, leader, &order).await;

    cluster.node(leader).kill();
    let survivors = cluster.others(leader);
    cluster.leader_among(&survivors).await;

    let roamer = cluster.roamer(0);
    check_holds(&roamer, &holders).await;
    for queue in 0..QUEUES {
        let expected = owners_still_there(&waiters, queue);
        eventually(PATIENCE, "everybody who comes back has the old place", async || {
            (roamer.lock(&held_lock(queue)).await.queue() == expected).then_some(())
        })
        .await;
    }
    for (holder, _) in &holders {
        roamer.release(holder).await.ok();
    }
    calls.join_all().await;
    check_grants(&waiters, &holders, &order.lock().await);
}

async fn hold_locks(cluster: &Cluster) -> Vec<(Attempt, u64)> {
    let mut holders = Vec::new();
    for number in 0..HELD {
        let attempt = Attempt::at(held_lock(number)).owner(format!("holder-{number}")).ttl_ms(LONG_MS);
        let fence = cluster.roamer(number).acquire(&attempt).await.ok().fence();
        holders.push((attempt, fence));
    }
    holders
}

/// Queues all waiters up one after the other, over all nodes, so that their order is known.
async fn queue_up(cluster: &Cluster, leader: u64, order: &Order) -> (Vec<Waiting>, JoinSet<()>) {
    let (mut waiters, mut calls) = (Vec::new(), JoinSet::new());
    let mut at_leader = 0;
    for number in 0..WAITERS {
        let queue = number % QUEUES;
        let node = (number / QUEUES) % cluster.nodes().len();
        let waits_at_leader = cluster.nodes()[node].id() == leader;
        at_leader += usize::from(waits_at_leader);
        let is_gone = waits_at_leader && at_leader % GONE_EVERY == 0;
        let attempt = Attempt::at(held_lock(queue)).owner(format!("waiter-{number}")).ttl_ms(LONG_MS);
        let attempt = attempt.wait_ms(LONG_MS);
        if is_gone {
            calls.spawn(wait_once(cluster.client(leader), attempt.clone()));
        } else {
            calls.spawn(wait_and_pass_on(cluster.roamer(node), attempt.clone(), queue, order.clone()));
        }
        let owner = format!("waiter-{number}");
        let roamer = cluster.roamer(node);
        let what = format!("{owner} is in the queue of {}", attempt.lock);
        eventually(PATIENCE, &what, async || {
            (roamer.lock(&attempt.lock).await.queue().last() == Some(&owner)).then_some(())
        })
        .await;
        waiters.push(Waiting { queue, attempt, is_gone });
    }
    (waiters, calls)
}

/// A client that gives up when its node dies.
async fn wait_once(client: Client, attempt: Attempt) {
    let reply = client.acquire(&attempt).await;
    assert!(matches!(reply, Err(NoAnswer::Broken(_))), "its node was killed: {reply:?}");
}

/// A client that comes back with its token, notes its turn, and lets the next one in.
async fn wait_and_pass_on(roamer: Roamer, attempt: Attempt, queue: usize, order: Order) {
    let fence = roamer.acquire(&attempt).await.ok().fence();
    order.lock().await[queue].push((attempt.token.clone(), fence));
    roamer.release(&attempt).await.ok();
}

async fn check_holds(roamer: &Roamer, holders: &[(Attempt, u64)]) {
    for (holder, fence) in holders {
        assert_eq!(roamer.lock(&holder.lock).await.ok().held_fence(), Some(*fence), "{}", holder.lock);
        assert_eq!(roamer.renew(holder).await.ok().fence(), *fence, "{}", holder.lock);
    }
}

fn still_there(waiters: &[Waiting], queue: usize) -> impl Iterator<Item = (usize, &Waiting)> {
    waiters.iter().enumerate().filter(move |(_, waiter)| waiter.queue == queue && !waiter.is_gone)
}

fn owners_still_there(waiters: &[Waiting], queue: usize) -> Vec<String> {
    still_there(waiters, queue).map(|(number, _)| format!("waiter-{number}")).collect()
}

fn check_grants(waiters: &[Waiting], holders: &[(Attempt, u64)], order: &[Vec<(String, u64)>]) {
    let last_before = holders.iter().map(|(_, fence)| *fence).max().expect("there are holders");
    let mut all = BTreeSet::new();
    for (queue, granted) in order.iter().enumerate() {
        let expected: Vec<_> = still_there(waiters, queue).map(|(_, waiter)| &waiter.attempt.token).collect();
        assert_eq!(granted.iter().map(|(token, _)| token).collect::<Vec<_>>(), expected, "queue {queue}");
        let fences: Vec<_> = granted.iter().map(|(_, fence)| *fence).collect();
        assert!(fences.is_sorted_by(|a, b| a < b) && fences[0] > last_before, "queue {queue}: {fences:?}");
        all.extend(fences);
    }
    assert_eq!(all.len(), order.iter().map(Vec::len).sum::<usize>(), "no fence is given twice");
}

/// At the defaults, on the machine as it is: the median of several rounds, since one round may meet another process's
/// burst of work.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_grant_comes_within_two_seconds_of_a_killed_leader() {
    const ROUNDS: usize = 5;
    let cluster = Cluster::start(3).await;
    let mut gaps = Vec::new();
    for round in 0..ROUNDS {
        let leader = cluster.leader().await;
        let killed = std::time::Instant::now();
        cluster.node(leader).kill();
        let survivors: Vec<_> = cluster.others(leader).iter().map(|id| cluster.client(*id)).collect();
        let roamer = Roamer::new(survivors, round);
        roamer.acquire(&Attempt::at(format!("after-kill-{round}"))).await.ok();
        gaps.push(killed.elapsed());
        cluster.start_all();
        cluster.ready().await;
    }
    let gap = holdfast_tests::median(&gaps);
    assert!(gap < Duration::from_secs(2), "median {gap:?} of {gaps:?}");
}
