//! Nodes that are killed and started again: what was acknowledged is there.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, PATIENCE, Roamer, eventually, let_pass};
use tokio::sync::watch;
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_kept_when_all_nodes_are_killed_and_started_in_any_order() {
    let cluster = Cluster::start(3).await;
    let cluster_id = cluster.cluster_id(1).await;
    let holder = Attempt::at("db").owner("holder").ttl_ms(LONG_MS);
    let fence = cluster.roamer(0).acquire(&holder).await.ok().fence();
    let mut waiters = JoinSet::new();
    let owners: Vec<_> = (0..6).map(|number| format!("waiter-{number}")).collect();
    for (number, owner) in owners.iter().enumerate() {
        let attempt = Attempt::at("db").owner(owner).ttl_ms(LONG_MS).wait_ms(LONG_MS);
        let roamer = cluster.roamer(number);
        waiters.spawn(async move {
            let fence = roamer.acquire(&attempt).await.ok().fence();
            roamer.release(&attempt).await.ok();
            (fence, number)
        });
        wait_for_queue(&cluster.roamer(0), &owners[..=number]).await;
    }
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        cluster.kill_all();
        for id in order {
            cluster.node(id).start();
            cluster.node(id).alive(PATIENCE).await;
        }
        cluster.ready().await;
        wait_for_queue(&cluster.roamer(0), &owners).await;
        for id in order {
            let lock = cluster.client(id).lock("db").await.unwrap().ok();
            assert_eq!(lock.held_fence(), Some(fence), "node {id}, started in the order {order:?}");
            assert_eq!(cluster.cluster_id(id).await, cluster_id);
        }
    }
    cluster.roamer(0).release(&holder).await.ok();
    let mut granted = waiters.join_all().await;
    granted.sort_unstable();
    assert_eq!(granted.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert!(granted[0].0 > fence);
}

async fn wait_for_queue(roamer: &Roamer, owners: &[String]) {
    eventually(PATIENCE, "everybody has the old place", async || {
        (roamer.lock("db").await.queue() == owners).then_some(())
    })
    .await;
}

/// What one client holds, by lock. All its other locks are free.
type Held = BTreeMap<String, (Attempt, u64)>;

const CLIENTS: usize = 6;
const LOCKS_EACH: usize = 10;

fn lock_of(client: usize, number: usize) -> String {
    format!("client-{client}-lock-{number}")
}

/// `scripts/kill-loop` asks for more.
const ROUNDS_VARIABLE: &str = "HOLDFAST_TEST_ROUNDS";
const ROUNDS_DEFAULT: usize = 50;

fn rounds() -> usize {
    let given = std::env::var(ROUNDS_VARIABLE).ok();
    given.map_or(ROUNDS_DEFAULT, |text| text.parse().expect("a number of rounds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_grant_is_lost_in_fifty_rounds_of_kills() {
    let cluster = Cluster::start(3).await;
    let mut held: Vec<Held> = vec![Held::new(); CLIENTS];
    let mut last_fence = 0;
    for round in 0..rounds() {
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for (client, held) in held.drain(..).enumerate() {
            let roamer = cluster.roamer(client + round);
            let stopped = stopped.clone();
            clients.spawn(async move { (client, take_and_free(roamer, client, held, stopped).await) });
        }
        crash(&cluster, round).await;
        cluster.ready().await;
        stop.send_replace(true);
        let by_client: BTreeMap<_, _> = clients.join_all().await.into_iter().collect();
        held.extend(by_client.into_values());
        last_fence = check(&cluster, round, &held, last_fence).await;
    }
}

/// Acquires free locks and releases held ones, one after the other, until it is told to stop.
async fn take_and_free(roamer: Roamer, client: usize, mut held: Held, stop: watch::Receiver<bool>) -> Held {
    for number in (0..LOCKS_EACH).cycle() {
        if *stop.borrow() {
            break;
        }
        let lock = lock_of(client, number);
        if let Some((attempt, _)) = held.remove(&lock) {
            roamer.release(&attempt).await.ok();
        } else {
            let attempt = Attempt::at(&lock).ttl_ms(LONG_MS);
            let fence = roamer.acquire(&attempt).await.ok().fence();
            held.insert(lock, (attempt, fence));
        }
    }
    held
}

/// Kills all nodes, the leader, or another one, in turn, while the clients are at work; and starts them again.
async fn crash(cluster: &Cluster, round: usize) {
    const AT_WORK: Duration = Duration::from_millis(50);
    let leader = cluster.leader().await;
    let_pass(AT_WORK).await;
    match round % 3 {
        0 => cluster.kill_all(),
        1 => cluster.node(leader).kill(),
        _ => cluster.node(cluster.others(leader)[round % 2]).kill(),
    }
    cluster.start_all();
}

/// Every lock is what its client was last told, and fences have not gone back.
async fn check(cluster: &Cluster, round: usize, held: &[Held], last_fence: u64) -> u64 {
    let roamer = cluster.roamer(round);
    let listed = roamer.list("client-").await;
    let found: BTreeMap<_, _> = listed
        .iter()
        .map(|lock| (lock["name"].as_str().expect("a name"), lock["holders"][0]["fence"].as_u64()))
        .collect();
    for (client, held) in held.iter().enumerate() {
        for lock in (0..LOCKS_EACH).map(|number| lock_of(client, number)) {
            let expected = held.get(&lock).map(|(_, fence)| *fence);
            assert_eq!(found.get(lock.as_str()).copied().flatten(), expected, "{lock} after round {round}");
        }
    }
    let fence = roamer.acquire(&Attempt::at(format!("probe-{round}"))).await.ok().fence();
    let highest = held.iter().flat_map(Held::values).map(|(_, fence)| *fence).max().unwrap_or(0);
    assert!(fence > highest && fence > last_fence, "round {round}: {fence}, {highest}, {last_fence}");
    fence
}
