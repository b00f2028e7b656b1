//! How long a lease lasts, what renews it, and what is left of it when it is over.

use std::time::{Duration, Instant};

use holdfast_tests::{Answer, Attempt, Client, Cluster, let_pass};
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;
const SLACK: Duration = Duration::from_secs(1);

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

/// Acquires without ever renewing, and measures when the next one gets in: not before the TTL, and within the slack.
async fn measure(holder: Client, waiter: Client, ttl: Duration) {
    let lock = format!("ttl-{}", ms(ttl));
    let sent = Instant::now();
    let grant = holder.acquire(&Attempt::at(&lock).ttl_ms(ms(ttl))).await.unwrap().ok();
    let answered = Instant::now();
    assert_eq!(grant.body["ttl_ms"], ms(ttl));
    let next = waiter.acquire(&Attempt::at(&lock).wait_ms(LONG_MS)).await.unwrap().ok();
    let granted = Instant::now();
    assert!(next.fence() > grant.fence());
    assert!(granted - sent >= ttl, "{ttl:?}: over after {:?}", granted - sent);
    assert!(granted - answered < ttl + SLACK, "{ttl:?}: over only after {:?}", granted - answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_its_ttl_and_at_most_a_second_longer() {
    let cluster = Cluster::start(3).await;
    let mut measured = JoinSet::new();
    for (number, ttl_ms) in [100, 1_000, 2_000, 5_000, 10_000, 30_000].into_iter().enumerate() {
        let node = |offset: usize| cluster.nodes()[(number + offset) % 3].client();
        measured.spawn(measure(node(0), node(1), Duration::from_millis(ttl_ms)));
    }
    measured.spawn(a_short_ttl_of_a_rival_does_not_matter(cluster.client(2)));
    measured.spawn(the_dead_holders_lock_is_there_for_a_newcomer(cluster.client(3)));
    measured.join_all().await;
}

async fn a_short_ttl_of_a_rival_does_not_matter(client: Client) {
    const TTL: Duration = Duration::from_secs(15);
    let sent = Instant::now();
    client.acquire(&Attempt::at("rival").ttl_ms(ms(TTL))).await.unwrap().ok();
    while sent.elapsed() < TTL - SLACK {
        let answer = client.acquire(&Attempt::at("rival").ttl_ms(1_000)).await.unwrap();
        assert_eq!(answer.code(), "held", "after {:?}", sent.elapsed());
        let answer = client.acquire(&Attempt::at("rival").ttl_ms(1_000).wait_ms(500)).await.unwrap();
        assert!(answer.code() == "wait_timeout" || sent.elapsed() >= TTL, "after {:?}", sent.elapsed());
    }
}

async fn the_dead_holders_lock_is_there_for_a_newcomer(client: Client) {
    const TTL: Duration = Duration::from_secs(3);
    client.acquire(&Attempt::at("dead").ttl_ms(ms(TTL))).await.unwrap().ok();
    let_pass(TTL + SLACK).await;
    Client::new(client.url()).acquire(&Attempt::at("dead")).await.unwrap().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_let_in_one_lease_at_a_time() {
    const TTL: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(3).await;
    let mut attempts = JoinSet::new();
    for number in 0..4 {
        let client = cluster.nodes()[number % 3].client();
        attempts.spawn(async move {
            let attempt = Attempt::at("db").ttl_ms(ms(TTL)).wait_ms(60_000);
            let fence = client.acquire(&attempt).await.unwrap().ok().fence();
            (fence, Instant::now())
        });
    }
    let mut grants = attempts.join_all().await;
    grants.sort_unstable();
    for pair in grants.windows(2) {
        let (earlier, later) = (pair[0], pair[1]);
        let gap = later.1 - earlier.1;
        // Both ends are measured at the client, so that the way back of the earlier answer may shorten the gap.
        assert!(gap >= TTL - SLACK / 4 && gap < TTL + SLACK, "{gap:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_set_the_lease_and_do_not_add_up() {
    const TTL: Duration = Duration::from_secs(4);
    let cluster = Cluster::start(3).await;
    let holder = Attempt::at("db").ttl_ms(ms(TTL));
    cluster.client(1).acquire(&holder).await.unwrap().ok();
    let waiter = {
        let client = cluster.client(2);
        tokio::spawn(async move {
            client.acquire(&Attempt::at("db").wait_ms(LONG_MS)).await.unwrap().ok();
            Instant::now()
        })
    };
    let mut last = (Instant::now(), Instant::now());
    for number in 0..50 {
        let sent = Instant::now();
        let grant = cluster.client(1 + number % 3).renew(&holder).await.unwrap().ok();
        last = (sent, Instant::now());
        assert!(grant.millis("expires_in_ms") <= TTL);
        let lock = cluster.client(1 + number % 3).lock("db").await.unwrap().ok();
        assert!(lock.body["holders"][0]["expires_in_ms"].as_u64().unwrap() <= ms(TTL));
    }
    let granted = waiter.await.unwrap();
    assert!(granted - last.0 >= TTL && granted - last.1 < TTL + SLACK, "{:?}", granted - last.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_leaves_the_next_holder_alone() {
    let cluster = Cluster::start(3).await;
    let (first, second) = (Attempt::at("db").ttl_ms(1_000), Attempt::at("db").ttl_ms(30_000).wait_ms(10_000));
    cluster.client(1).acquire(&first).await.unwrap().ok();
    let fence = cluster.client(2).acquire(&second).await.unwrap().ok().fence();
    let left = |lock: &Answer| lock.body["holders"][0]["expires_in_ms"].as_u64().unwrap();
    for id in cluster.ids() {
        assert_eq!(cluster.client(id).release(&first).await.unwrap().code(), "lease_expired");
        let lock = cluster.client(id).lock("db").await.unwrap().ok();
        assert_eq!(lock.held_fence(), Some(fence));
        assert!(left(&lock) > 20_000, "the lease is what it was: {lock:?}");
        assert_eq!(cluster.client(id).acquire(&Attempt::at("db")).await.unwrap().code(), "held");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_is_not_revived_whoever_came_after_it() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client(2);
    for after in ["nobody", "somebody who left", "somebody who holds"] {
        let lock = format!("db-{}", after.len());
        let first = Attempt::at(&lock).ttl_ms(500);
        let fence = cluster.client(1).acquire(&first).await.unwrap().ok().fence();
        let next = Attempt::at(&lock).ttl_ms(LONG_MS).wait_ms(10_000);
        if after == "nobody" {
            let_pass(Duration::from_millis(500) + SLACK).await;
        } else {
            assert_eq!(client.acquire(&next).await.unwrap().ok().fence(), fence + 1);
        }
        if after == "somebody who left" {
            client.release(&next).await.unwrap().ok();
        }
        for id in cluster.ids() {
            let refused = cluster.client(id).renew(&first).await.unwrap();
            assert_eq!((refused.status, refused.code()), (409, "lease_expired"), "after {after}");
            let refused = cluster.client(id).acquire(&first).await.unwrap();
            assert_eq!((refused.status, refused.code()), (409, "lease_expired"), "after {after}");
        }
        let holder = client.lock(&lock).await.unwrap().ok().held_fence();
        assert_eq!(holder, (after == "somebody who holds").then_some(fence + 1), "after {after}");
        let probe = client.acquire(&Attempt::at(format!("{lock}-probe"))).await.unwrap().ok().fence();
        assert_eq!(probe, if after == "nobody" { fence + 1 } else { fence + 2 }, "no number was used up");
    }
}

/// What a lock protects: it keeps the highest fence that it has seen, and refuses lower ones.
#[derive(Default)]
struct Store {
    highest: u64,
    content: &'static str,
}

impl Store {
    fn write(&mut self, fence: u64, content: &'static str) -> bool {
        let is_current = fence >= self.highest;
        if is_current {
            (self.highest, self.content) = (fence, content);
        }
        is_current
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_wakes_up_too_late_is_stopped_by_its_fence() {
    let cluster = Cluster::start(3).await;
    let mut store = Store::default();
    for round in 0..12 {
        let sleeper = Attempt::at("db").owner("sleeper").ttl_ms(100);
        let old = cluster.client(1 + round % 3).acquire(&sleeper).await.unwrap().ok().fence();
        let awake = Attempt::at("db").owner("awake").wait_ms(10_000);
        let new = cluster.client(1 + (round + 1) % 3).acquire(&awake).await.unwrap().ok().fence();
        assert!(new > old, "as numbers, also from 9 to 10");
        assert!(store.write(new, "by the one who is awake"));
        assert!(!store.write(old, "by the sleeper"));
        assert_eq!(store.content, "by the one who is awake");
        assert_eq!(cluster.client(1).renew(&sleeper).await.unwrap().code(), "lease_expired");
        cluster.client(1).release(&awake).await.unwrap().ok();
    }
}

/// Late, doubled and unknown calls, all at once.
#[tokio::test(flavor = "multi_thread")]
async fn late_doubled_and_unknown_calls_are_refused_and_harm_nobody() {
    const LOCKS: usize = 50;
    let cluster = Cluster::start(3).await;
    let pids: Vec<_> = cluster.nodes().iter().map(|node| node.pid()).collect();
    let mut locks = JoinSet::new();
    for number in 0..LOCKS {
        let clients: Vec<_> = cluster.nodes().iter().map(|node| node.client()).collect();
        locks.spawn(take_over_and_be_late(clients, number));
    }
    locks.join_all().await;
    for (node, pid) in cluster.nodes().iter().zip(pids) {
        assert!(node.is_running() && node.pid() == pid);
        assert!(!node.log().contains("panicked"), "{}", node.log());
    }
    for number in 0..LOCKS {
        let answer = cluster.client(1).acquire(&Attempt::at(format!("lock-{number}"))).await.unwrap().ok();
        assert!(answer.took < SLACK, "{:?}", answer.took);
    }
}

async fn take_over_and_be_late(clients: Vec<Client>, number: usize) {
    let client = |offset: usize| clients[(number + offset) % clients.len()].clone();
    let lock = format!("lock-{number}");
    let late = Attempt::at(&lock).ttl_ms(300);
    client(0).acquire(&late).await.unwrap().ok();
    let next = Attempt::at(&lock).ttl_ms(LONG_MS).wait_ms(30_000);
    client(1).acquire(&next).await.unwrap().ok();
    let unknown = Attempt::at(&lock);
    let mut calls = JoinSet::new();
    for offset in 0..2 {
        for attempt in [late.clone(), unknown.clone()] {
            let (releases, renews) = (client(offset), client(offset + 1));
            let again = attempt.clone();
            calls.spawn(async move { releases.release(&attempt).await.unwrap() });
            calls.spawn(async move { renews.renew(&again).await.unwrap() });
        }
    }
    for answer in calls.join_all().await {
        assert!(matches!(answer.code(), "lease_expired" | "not_holder"), "{answer:?}");
    }
    client(2).release(&next).await.unwrap().ok();
    client(0).release(&next).await.unwrap().ok();
}
