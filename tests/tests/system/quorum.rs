//! Without a majority: nothing is promised, nothing is taken away, and everybody is told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Client, Cluster, NoAnswer, PATIENCE, Reply, eventually, let_pass};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

const LONG_MS: u64 = 600_000;
/// The longest election timeout at the defaults, and what the promise adds to it.
const NOT_READY_WITHIN: Duration = Duration::from_millis(600 + 1_000);
const BACK_WITHIN: Duration = Duration::from_secs(2);
const OWED_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_majority_gives_no_success_says_so_and_recovers() {
    let cluster = Cluster::start(3).await;
    for survivor_leads in [true, false] {
        let leader = cluster.leader().await;
        let survivor = if survivor_leads { leader } else { cluster.others(leader)[0] };
        let held = Attempt::at(format!("held-{survivor_leads}")).owner("holder").ttl_ms(LONG_MS);
        let fence = cluster.client(leader).acquire(&held).await.unwrap().ok().fence();

        let cut = Instant::now();
        cluster.others(survivor).into_iter().for_each(|id| cluster.node(id).kill());
        let client = cluster.client(survivor);
        let early = every_call(&client, &held);
        eventually(NOT_READY_WITHIN.saturating_sub(cut.elapsed()), "readiness is withdrawn", async || {
            client.get("/readyz").await.is_ok_and(|answer| answer.status != 200).then_some(())
        })
        .await;
        check_refusals(early).await;
        check_refusals(every_call(&client, &held)).await;
        assert!(client.get("/livez").await.unwrap().is_ok());
        let stale = client.get(&format!("/v1/locks/{}?consistency=stale", held.lock)).await.unwrap().ok();
        assert_eq!(stale.body["stale"], true);
        assert_eq!(cluster.status(survivor).await.unwrap().leader_id(), None, "nobody leads a minority");

        cluster.node(cluster.others(survivor)[0]).start();
        cluster.node(cluster.others(survivor)[0]).alive(PATIENCE).await;
        let quorum = Instant::now();
        cluster.node(survivor).ready(PATIENCE).await;
        let attempt = Attempt::at(format!("new-{survivor_leads}"));
        let roamer = holdfast_tests::Roamer::new(vec![client.clone()], 0);
        roamer.acquire(&attempt).await.ok();
        let took = quorum.elapsed();
        assert!(took < BACK_WITHIN, "served again only after {took:?}");
        assert_eq!(roamer.renew(&held).await.ok().fence(), fence);
        cluster.start_all();
        cluster.ready().await;
    }
}

/// One of each kind, all at once.
fn every_call(client: &Client, held: &Attempt) -> JoinSet<(&'static str, Duration, Reply)> {
    const WAIT_MS: u64 = 2_000;
    let mut calls = JoinSet::new();
    let free = format!("{}-free", held.lock);
    let cases = [
        ("try", Attempt::at(&free)),
        ("wait", Attempt::at(&free).wait_ms(WAIT_MS)),
        ("try what is held", Attempt::at(&held.lock)),
        ("wait for what is held", Attempt::at(&held.lock).wait_ms(WAIT_MS)),
        ("acquire again", held.clone()),
    ];
    for (what, attempt) in cases {
        let client = client.clone();
        calls.spawn(async move { (what, attempt.wait(), client.acquire(&attempt).await) });
    }
    let (renews, attempt) = (client.clone(), held.clone());
    calls.spawn(async move { ("renew", Duration::ZERO, renews.renew(&attempt).await) });
    // A token that holds nothing: a release that should take effect later would harm what follows.
    let (releases, attempt) = (client.clone(), Attempt::at(&held.lock));
    calls.spawn(async move { ("release", Duration::ZERO, releases.release(&attempt).await) });
    let (looks, lock) = (client.clone(), held.lock.clone());
    calls.spawn(async move { ("look", Duration::ZERO, looks.lock(&lock).await) });
    let lists = client.clone();
    calls.spawn(async move { ("list", Duration::ZERO, lists.get("/v1/locks").await) });
    calls
}

/// Refused, in time: neither a success nor a word about who holds what.
async fn check_refusals(calls: JoinSet<(&'static str, Duration, Reply)>) {
    for (what, wait, reply) in calls.join_all().await {
        let answer = reply.unwrap_or_else(|why| panic!("{what}: {why:?}"));
        let code = (answer.status, answer.code());
        assert!(matches!(code, (503, "no_leader") | (504, "unknown_outcome")), "{what}: {answer:?}");
        assert!(answer.status != 503 || answer.headers.contains_key("retry-after"), "{what}: {answer:?}");
        assert!(answer.took < wait + OWED_WITHIN, "{what}: {:?}", answer.took);
    }
}

/// Ten holders renew as they should over a gap in which nobody can: a lock changes hands only once its holder's own
/// clock has told it that the lock may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn no_lock_is_given_away_while_its_holder_may_still_rely_on_it() {
    const GAP: Duration = Duration::from_secs(4);
    let cluster = Cluster::start(3).await;
    for is_killed in [false, true] {
        let (stop, stopped) = watch::channel(false);
        let (mut holders, mut rivals) = (JoinSet::new(), Vec::new());
        for number in 0..10 {
            let lock = format!("held-{is_killed}-{number}");
            let attempt = Attempt::at(&lock).owner("holder").ttl_ms(TTL_MS);
            let sent = Instant::now();
            cluster.roamer(number).acquire(&attempt).await.ok();
            holders.spawn(keep(clients(&cluster, number), number, attempt, sent, stopped.clone()));
            let rival = Attempt::at(&lock).owner("rival").ttl_ms(LONG_MS).wait_ms(LONG_MS);
            let roamer = cluster.roamer(number + 1);
            rivals.push(tokio::spawn(async move {
                roamer.acquire(&rival).await.ok();
                Instant::now()
            }));
        }
        let away = &cluster.ids()[..2];
        if is_killed {
            away.iter().for_each(|id| cluster.node(*id).kill());
            let_pass(GAP).await;
            cluster.start_all();
        } else {
            away.iter().for_each(|id| cluster.node(*id).pause());
            let_pass(GAP).await;
            away.iter().for_each(|id| cluster.node(*id).resume());
        }
        cluster.ready().await;
        let_pass(2 * Duration::from_millis(TTL_MS)).await; // Whoever was forgotten would lose the lock now.
        stop.send_replace(true);
        let mut kept = 0;
        for (number, relied_until) in holders.join_all().await {
            match relied_until {
                Held::Still => {
                    kept += 1;
                    assert!(!rivals[number].is_finished(), "lock {number} has two holders");
                }
                Held::Until(end) => {
                    let granted = (&mut rivals[number]).await.unwrap();
                    assert!(granted >= end, "lock {number} changed hands {:?} too early", end - granted);
                }
            }
        }
        rivals.iter().for_each(tokio::task::JoinHandle::abort);
        assert!(kept > 0 || !is_killed, "time stands still without a leader");
    }
}

const TTL_MS: u64 = 5_000;

/// What a holder knows by its own clock.
enum Held {
    Still,
    /// It was told that the lease is over; it had relied on the lock until then.
    Until(Instant),
}

fn clients(cluster: &Cluster, first: usize) -> Vec<Client> {
    let nodes = cluster.nodes();
    (0..nodes.len()).map(|offset| nodes[(first + offset) % nodes.len()].client()).collect()
}

/// Renews every 1.5 s, through another node at once where there is no answer within a second.
async fn keep(
    clients: Vec<Client>,
    number: usize,
    attempt: Attempt,
    acquired: Instant,
    stop: watch::Receiver<bool>,
) -> (usize, Held) {
    let mut last_success = acquired;
    for client in clients.iter().cycle() {
        let sent = Instant::now();
        match tokio::time::timeout(Duration::from_secs(1), client.renew(&attempt)).await {
            Ok(Ok(answer)) if answer.is_ok() => {
                last_success = sent;
                if *stop.borrow() {
                    break;
                }
                let_pass(Duration::from_millis(1_500)).await;
            }
            Ok(Ok(answer)) if !answer.is_unanswered() => {
                assert_eq!(answer.code(), "lease_expired", "{answer:?}");
                return (number, Held::Until(last_success + Duration::from_millis(TTL_MS)));
            }
            _ => let_pass(Duration::from_millis(50)).await,
        }
    }
    (number, Held::Still)
}

/// Twenty holds of 4 s, some of which lapse, looked at on all nodes while leaders come and go and one node freezes.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_lease_is_never_negative_nor_above_the_ttl() {
    const LEASE_MS: u64 = 4_000;
    const TRANSFERS: usize = 6;
    let cluster = Cluster::start(3).await;
    let (stop, stopped) = watch::channel(false);
    let mut looks = JoinSet::new();
    for id in cluster.ids() {
        looks.spawn(look(cluster.client(id), LEASE_MS, stopped.clone()));
    }
    for round in 0..TRANSFERS {
        for number in 0..20 {
            let attempt = Attempt::at(format!("lease-{number}")).ttl_ms(LEASE_MS);
            cluster.roamer(number).acquire(&attempt).await;
        }
        let leader = cluster.leader().await;
        if round % 3 == 2 {
            let frozen = cluster.node(cluster.others(leader)[0]);
            frozen.pause();
            let_pass(Duration::from_secs(3)).await;
            frozen.resume();
        } else {
            assert!(cluster.node(leader).terminate().await.success());
        }
        cluster.start_all();
        cluster.ready().await;
    }
    stop.send_replace(true);
    let seen: usize = looks.join_all().await.into_iter().sum();
    assert!(seen > 100, "there was something to see: {seen}");
}

/// Lists the locks 20 times a second; returns how many holds it has seen.
async fn look(client: Client, ttl_ms: u64, stop: watch::Receiver<bool>) -> usize {
    let mut spent: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut seen = 0;
    while !*stop.borrow() {
        match client.get("/v1/locks?prefix=lease-").await {
            Ok(answer) if answer.is_ok() => {
                for lock in answer.body["locks"].as_array().unwrap() {
                    seen += 1;
                    check_lease(&lock["holders"][0], ttl_ms, &mut spent);
                }
            }
            Ok(answer) => assert!(answer.is_unanswered(), "{answer:?}"),
            Err(NoAnswer::Broken(_) | NoAnswer::Silent(_)) => {} // It is being stopped, or is frozen.
        }
        let_pass(Duration::from_millis(50)).await;
    }
    seen
}

/// A hold with nothing left may be shown for the slack of an expiry and the time without a leader, not longer.
fn check_lease(holder: &serde_json::Value, ttl_ms: u64, spent: &mut BTreeMap<u64, Instant>) {
    const SHOWN_SPENT_MAX: Duration = Duration::from_secs(3);
    let left = holder["expires_in_ms"].as_i64().unwrap_or_else(|| panic!("no number: {holder}"));
    assert!((0..=ttl_ms as i64).contains(&left), "{holder}");
    assert_eq!(holder["ttl_ms"], json!(ttl_ms));
    if left == 0 {
        let since = *spent.entry(holder["fence"].as_u64().unwrap()).or_insert_with(Instant::now);
        assert!(since.elapsed() < SHOWN_SPENT_MAX, "{holder}");
    }
}
