//! Calls that work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use holdfast_replica::peers::TcpTransport;
use holdfast_replica::peers::limits::{IN_FLIGHT_MAX, body_len_max};
use holdfast_replica::world::{CallError, CallKind, PeerLane, PeerService, Transport};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::timeout;

use crate::support::{LONG, Listening, SOON, call, echo, peering, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_a_thousand_concurrent_calls_gets_its_own_answer_over_one_connection() {
    let listening = Listening::start(1, echo()).await;
    let transport = TcpTransport::new(peering(2));
    let calls = (0..1000).map(|n: u32| call(&transport, &listening.address, n.to_string()));
    let answers = join_all(calls.collect::<Vec<_>>()).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), n.to_string());
    }
    let stats = listening.peering.stats();
    listening.stop().await;
    let lane = stats.lane(PeerLane::Consensus);
    assert_eq!((lane.accepts.get(), lane.frames_in.get(), lane.frames_out.get()), (1, 1000, 1000));
    assert_eq!(lane.disconnects.get(), 1);
}

#[tokio::test]
async fn the_service_learns_who_calls_and_what_for() {
    let service = serving(|from, kind, _| async move { format!("{from} {kind:?}").into() }.boxed());
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let answer =
        transport.call(&listening.address, PeerLane::Forward, CallKind::Claim, Bytes::new(), LONG).await;
    assert_eq!(answer.unwrap(), "2 Claim");
}

#[tokio::test]
async fn a_body_of_the_largest_length_arrives_whole_and_a_longer_one_is_not_sent() {
    let listening = Listening::start(1, echo()).await;
    let transport = TcpTransport::new(peering(2));
    for lane in [PeerLane::Consensus, PeerLane::Forward, PeerLane::Bulk] {
        let whole: Bytes = (0..body_len_max(lane)).map(|at| (at % 251) as u8).collect();
        let ask = |body| transport.call(&listening.address, lane, CallKind::SnapshotChunk, body, LONG);
        assert!(ask(whole.clone()).await.unwrap() == whole, "{lane:?}");
        let longer = [whole.as_ref(), b"x"].concat().into();
        assert!(matches!(ask(longer).await, Err(CallError::NotSent(_))), "{lane:?}");
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call_and_no_other() {
    let service = serving(|_, _, body| {
        let is_long = body == "long";
        async move { if is_long { vec![0; 4 * 1024 * 1024 + 1].into() } else { body } }.boxed()
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let (long, short) = tokio::join!(
        call(&transport, &listening.address, "long"),
        call(&transport, &listening.address, "short")
    );
    assert!(matches!(long, Err(CallError::NoAnswer(text)) if text.contains("over the limit")));
    assert_eq!(short.unwrap(), "short");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_start_in_the_order_of_the_calls_whatever_the_order_of_the_waits() {
    let started = Arc::new(Mutex::new(Vec::new()));
    let service = serving({
        let started = started.clone();
        move |_, _, body| {
            let started = started.clone();
            async move {
                started.lock().unwrap().push(String::from_utf8_lossy(&body).parse::<usize>().unwrap());
                tokio::task::yield_now().await;
                body
            }
            .boxed()
        }
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let mut calls: Vec<_> = (0..2000).map(|n| call(&transport, &listening.address, n.to_string())).collect();
    calls.reverse();
    let waits = calls.into_iter().map(tokio::spawn);
    for answer in join_all(waits).await {
        answer.unwrap().unwrap();
    }
    assert!(started.lock().unwrap().iter().copied().eq(0..2000));
}

#[tokio::test]
async fn a_quick_answer_overtakes_a_slow_one() {
    let release = Arc::new(Notify::new());
    let service = serving({
        let release = release.clone();
        move |_, _, body| {
            let release = release.clone();
            async move {
                if body == "slow" {
                    release.notified().await;
                }
                body
            }
            .boxed()
        }
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let slow = call(&transport, &listening.address, "slow");
    assert_eq!(call(&transport, &listening.address, "quick").await.unwrap(), "quick");
    release.notify_one();
    assert_eq!(slow.await.unwrap(), "slow");
}

#[tokio::test]
async fn a_dropped_call_is_sent_all_the_same() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let service = serving(move |_, _, body: Bytes| {
        seen.send(body.clone()).unwrap();
        async move { body }.boxed()
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    drop(call(&transport, &listening.address, "dropped"));
    call(&transport, &listening.address, "kept").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), "dropped");
    assert_eq!(requests.recv().await.unwrap(), "kept");
}

#[tokio::test]
async fn a_peer_with_a_new_address_is_called_there() {
    let named = |name: &'static str| serving(move |_, _, _| async move { name.into() }.boxed());
    let (old, new) = (Listening::start(1, named("old")).await, Listening::start(1, named("new")).await);
    let transport = TcpTransport::new(peering(2));
    assert_eq!(call(&transport, &old.address, "").await.unwrap(), "old");
    assert_eq!(call(&transport, &new.address, "").await.unwrap(), "new");
}

/// Holds requests behind a gate, and counts how many it holds. A request for the status passes.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    held: Arc<AtomicUsize>,
    held_max: Arc<AtomicUsize>,
    is_full: Arc<Notify>,
}

impl Gate {
    fn closed() -> Self {
        let (held, held_max) = Default::default();
        Self { open: Arc::new(Semaphore::new(0)), held, held_max, is_full: Arc::default() }
    }

    fn arrive(&self) {
        let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
        self.held_max.fetch_max(held, Ordering::SeqCst);
        if held == IN_FLIGHT_MAX {
            self.is_full.notify_one();
        }
    }

    async fn pass(self) {
        let _permit = self.open.acquire().await.unwrap();
        self.held.fetch_sub(1, Ordering::SeqCst);
    }

    fn service(&self) -> Arc<dyn PeerService> {
        let gate = self.clone();
        serving(move |_, kind, body| {
            if kind == CallKind::Status {
                return async move { body }.boxed();
            }
            gate.arrive();
            let gate = gate.clone();
            async move {
                gate.pass().await;
                body
            }
            .boxed()
        })
    }
}

#[tokio::test]
async fn no_more_requests_are_in_work_than_the_limit_and_the_others_follow() {
    const MORE: usize = 500;
    let gate = Gate::closed();
    let listening = Listening::start(1, gate.service()).await;
    let transport = TcpTransport::new(peering(2));
    let mut calls: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| call(&transport, &listening.address, "")).collect();
    timeout(SOON, gate.is_full.notified()).await.unwrap();
    calls.extend((0..MORE).map(|_| call(&transport, &listening.address, "")));
    // Another lane's calls show that the listener is at work, and does not take more on this one.
    for _ in 0..200 {
        let other = transport.call(&listening.address, PeerLane::Forward, CallKind::Status, "".into(), LONG);
        other.await.unwrap();
    }
    assert_eq!(gate.held_max.load(Ordering::SeqCst), IN_FLIGHT_MAX);
    gate.open.add_permits(IN_FLIGHT_MAX);
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(gate.held_max.load(Ordering::SeqCst), IN_FLIGHT_MAX);
}
