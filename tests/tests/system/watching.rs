//! Those who watch are told everything, in order, from any node, or are told that they were not.

use std::time::Duration;

use holdfast_client::api::LockEvent;
use holdfast_client::{Client, Watch, Watched};
use holdfast_core::EVENTS_KEPT;
use holdfast_tests::{Attempt, Cluster, PATIENCE};
use hyper::Method;
use serde_json::json;

fn client_of(cluster: &Cluster, nodes: &[u64]) -> Client {
    let endpoints = nodes.iter().map(|id| cluster.client(*id).url().to_owned());
    Client::builder().endpoints(endpoints).build().unwrap()
}

async fn next(watch: &mut Watch) -> Watched {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("something happens").unwrap()
}

async fn next_event(watch: &mut Watch) -> (String, LockEvent) {
    match next(watch).await {
        Watched::Event { kind, event, .. } => (kind, *event),
        Watched::Reset(reset) => panic!("a hole: {reset:?}"),
    }
}

/// All events up to the first one of a lock.
async fn until(watch: &mut Watch, last: &str) -> Vec<LockEvent> {
    let mut events = Vec::new();
    loop {
        let (_, event) = next_event(watch).await;
        let is_last = event.name == last;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_told_everything_once_over_a_killed_leader_and_a_restart_of_all() {
    const WORKERS: usize = 6;
    let cluster = Cluster::start(3).await;
    let mut watch = client_of(&cluster, &cluster.ids()).watch("", Some(0));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let roamer = cluster.roamer(worker);
        workers.spawn(async move {
            for round in 0..40 {
                let attempt = Attempt::at(format!("job-{}", (worker + round) % 4)).wait_ms(60_000);
                roamer.acquire(&attempt).await.ok();
                roamer.release(&attempt).await.ok();
            }
        });
    }
    let watching = tokio::spawn(async move { until(&mut watch, "the end").await });
    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    cluster.leader_among(&cluster.others(leader)).await;
    cluster.node(leader).start();
    cluster.kill_all();
    cluster.start_all();
    workers.join_all().await;
    cluster.roamer(0).acquire(&Attempt::at("the end")).await.ok();

    let told = watching.await.unwrap();
    let numbers: Vec<_> = told.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=told.len() as u64).collect::<Vec<_>>());
    // Every node tells the same past.
    for node in cluster.ids() {
        cluster.node(node).ready(PATIENCE).await;
        let mut again = client_of(&cluster, &[node]).watch("", Some(0));
        assert_eq!(until(&mut again, "the end").await, told);
    }
}

/// Whoever asks one node after the other, a slow one among them, always from the last number on, sees the order of commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_hops_from_node_to_node_sees_every_event_once_and_in_order() {
    const ROUNDS: u64 = 60;
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let slow = cluster.others(leader)[0];
    let roamer = cluster.roamer(0);
    let changing = tokio::spawn(async move {
        for _ in 0..ROUNDS {
            let attempt = Attempt::at("job");
            roamer.acquire(&attempt).await.ok();
            roamer.release(&attempt).await.ok();
        }
    });
    let (mut seen, mut hops) = (Vec::new(), cluster.ids().into_iter().cycle());
    while seen.last().is_none_or(|last| *last < 2 * ROUNDS) {
        cluster.node(slow).pause();
        let node = hops.next().unwrap();
        let since = seen.last().copied().unwrap_or(0);
        let mut watch = client_of(&cluster, &[node]).watch("", Some(since));
        // It has fallen behind, and is asked at once.
        cluster.node(slow).resume();
        for _ in 0..5 {
            if seen.last() == Some(&(2 * ROUNDS)) {
                break;
            }
            let (_, event) = next_event(&mut watch).await;
            assert_eq!(watch.seq(), Some(event.seq));
            seen.push(event.seq);
        }
    }
    changing.await.unwrap();
    assert_eq!(seen, (1..=2 * ROUNDS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_of_some_locks_is_told_of_these_alone_and_why_they_end() {
    let cluster = Cluster::start(3).await;
    let list = cluster.client(1).get("/v1/locks?prefix=jobs/").await.unwrap().ok();
    let mut watch = client_of(&cluster, &[2]).watch("jobs/", list.body["seq"].as_u64());
    let holder = Attempt::at("jobs/a").owner("alice");
    let waiter = Attempt::at("jobs/a").owner("bob").wait_ms(60_000);
    let fence = cluster.client(1).acquire(&holder).await.unwrap().ok().fence();
    cluster.client(2).acquire(&Attempt::at("other")).await.unwrap().ok();
    let (client, waits) = (cluster.client(3), waiter.clone());
    let waiting = tokio::spawn(async move { client.acquire(&waits).await.unwrap().ok().fence() });
    let short = |(kind, event): (String, LockEvent)| {
        (kind, event.name, event.owner, event.fence, event.cause.unwrap_or_default())
    };
    let row = |kind: &str, owner: &str, fence: Option<u64>, cause: &str| {
        (kind.to_owned(), "jobs/a".to_owned(), owner.to_owned(), fence, cause.to_owned())
    };
    let granted = next_event(&mut watch).await;
    assert_eq!(granted.1.waited_ms, None);
    assert_eq!(short(granted), row("acquired", "alice", Some(fence), ""));
    assert_eq!(short(next_event(&mut watch).await), row("queued", "bob", None, ""));
    let force = json!({"fence": fence, "reason": "it hangs", "by": "olga"});
    cluster.client(1).post("/v1/locks/jobs%2Fa/force-release", &force, Duration::ZERO).await.unwrap().ok();
    let next_fence = waiting.await.unwrap();
    let (kind, event) = next_event(&mut watch).await;
    assert_eq!((event.by.as_deref(), event.reason.as_deref()), (Some("olga"), Some("it hangs")));
    assert_eq!(short((kind, event)), row("forced", "alice", Some(fence), "forced"));
    let granted = next_event(&mut watch).await;
    assert!(granted.1.waited_ms.is_some_and(|ms| ms < 60_000), "{granted:?}");
    assert_eq!(short(granted), row("acquired", "bob", Some(next_fence), ""));
    cluster.client(2).release(&waiter).await.unwrap().ok();
    assert_eq!(short(next_event(&mut watch).await), row("released", "bob", Some(next_fence), "released"));
    let brief = Attempt::at("jobs/b").owner("carol").ttl_ms(100);
    let fence = cluster.client(1).acquire(&brief).await.unwrap().ok().fence();
    assert_eq!(next_event(&mut watch).await.0, "acquired");
    let (kind, event) = next_event(&mut watch).await;
    assert_eq!(
        (kind.as_str(), event.fence, event.cause.as_deref()),
        ("expired", Some(fence), Some("expired"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_told_any_more_is_told_as_a_reset() {
    let cluster = Cluster::start(3).await;
    let client = client_of(&cluster, &cluster.ids());
    let mut ahead = client.watch("", Some(1_000_000));
    let Watched::Reset(reset) = next(&mut ahead).await else { panic!("there is no such number yet") };
    assert_eq!(reset.seq, 0);
    // It goes on from there.
    cluster.client(1).acquire(&Attempt::at("a")).await.unwrap().ok();
    assert_eq!(next_event(&mut ahead).await.1.seq, 1);

    let locks: Vec<_> = (0..64).map(|n| json!({"name": format!("many-{n}")})).collect();
    for round in 0..=EVENTS_KEPT / 128 {
        let token = format!("token-of-round-{round:06}");
        let acquire = json!({"locks": locks, "token": token});
        cluster.client(1).post("/v1/acquire", &acquire, Duration::ZERO).await.unwrap().ok();
        cluster.client(1).post("/v1/release", &json!({"token": token}), Duration::ZERO).await.unwrap().ok();
    }
    let seq = cluster.client(2).lock("a").await.unwrap().ok().body["seq"].as_u64().unwrap();
    let oldest = seq - EVENTS_KEPT as u64;
    for node in cluster.ids() {
        let client = client_of(&cluster, &[node]);
        let mut late = client.watch("", Some(oldest - 1));
        assert_eq!(next(&mut late).await, Watched::Reset(reset_of(seq, &mut late)));
        let mut in_time = client.watch("", Some(oldest));
        assert_eq!(next_event(&mut in_time).await.1.seq, oldest + 1);
    }
}

/// What a reset to this number says, whatever its words.
fn reset_of(seq: u64, watch: &mut Watch) -> holdfast_client::api::EventReset {
    assert_eq!(watch.seq(), Some(seq));
    holdfast_client::api::EventReset { seq, reason: "the events since then are not kept any more".into() }
}

/// A client without a library: it reads the stream as it is, and resumes it with the last id.
#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_one_of_server_sent_events_and_says_that_it_lives() {
    use http_body_util::BodyExt;
    use hyper_util::rt::TokioIo;

    let cluster = Cluster::start(3).await;
    cluster.client(1).acquire(&Attempt::at("a").owner("alice")).await.unwrap().ok();
    let address = cluster.client(2).url().trim_start_matches("http://").to_owned();
    let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request =
        hyper::Request::get("/v1/events?since=9").header("host", &address).header("last-event-id", "0");
    let answer = sender.send_request(request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap());
    let mut answer = answer.await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    while !text.ends_with("\n\n:\n\n") {
        let frame = tokio::time::timeout(Duration::from_secs(20), answer.frame()).await.expect("it lives");
        text.push_str(&String::from_utf8_lossy(&frame.unwrap().unwrap().into_data().unwrap()));
    }
    let (head, data) = text.split_once("data: ").unwrap();
    assert_eq!(head, "id: 0\n\nevent: acquired\nid: 1\n");
    let event: LockEvent = serde_json::from_str(data.lines().next().unwrap()).unwrap();
    assert_eq!(
        (event.seq, event.name.as_str(), event.owner.as_str(), event.fence),
        (1, "a", "alice", Some(1))
    );
    drop((answer, sender));
    connection.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_answers_when_something_happens_to_its_lock() {
    let cluster = Cluster::start(3).await;
    let attempt = Attempt::at("a");
    cluster.client(1).acquire(&attempt).await.unwrap().ok();
    let seq = cluster.client(2).lock("a").await.unwrap().ok().body["seq"].clone();
    let poll = |since: serde_json::Value, wait_ms: u64| {
        let (client, path) = (cluster.client(2), format!("/v1/locks/a?since={since}&wait_ms={wait_ms}"));
        async move {
            let wait = Duration::from_millis(wait_ms);
            client.send(Method::GET, &path, None, bytes::Bytes::new(), wait).await
        }
    };
    let polling = tokio::spawn(poll(seq.clone(), 60_000));
    // What happens to others is not waited for.
    cluster.client(1).acquire(&Attempt::at("ab")).await.unwrap().ok();
    cluster.client(3).release(&attempt).await.unwrap().ok();
    let answer = polling.await.unwrap().unwrap().ok();
    assert_eq!(answer.body["state"], "free");
    assert!(answer.body["seq"].as_u64() > seq.as_u64());
    // It has happened already: there is no wait. And if nothing happens, the wait ends.
    assert_eq!(poll(seq, 60_000).await.unwrap().ok().body["state"], "free");
    let begun = std::time::Instant::now();
    poll(answer.body["seq"].clone(), 300).await.unwrap().ok();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let bad = cluster.client(1).get("/v1/locks/a?wait_ms=600001").await.unwrap();
    assert_eq!((bad.status, bad.code()), (400, "invalid_argument"));
    assert!(bad.detail().contains("wait_ms") && bad.detail().contains("600000"), "{}", bad.detail());
}

/// A node that is told to stop ends its streams; their clients go on elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_node_and_keep_nobody_from_stopping() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let mut watch = client_of(&cluster, &[leader, others[0], others[1]]).watch("", Some(0));
    cluster.client(leader).acquire(&Attempt::at("first")).await.unwrap().ok();
    until(&mut watch, "first").await;
    let stopped = tokio::time::timeout(PATIENCE, cluster.node(leader).terminate()).await;
    assert!(stopped.expect("it stops").success());
    cluster.roamer(0).acquire(&Attempt::at("last")).await.ok();
    assert_eq!(until(&mut watch, "last").await.len(), 1);
}
