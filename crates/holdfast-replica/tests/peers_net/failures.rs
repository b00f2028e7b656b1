//! Calls that fail, and what is known then.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use holdfast_replica::peers::handshake::{Reply, read_greeting};
use holdfast_replica::peers::limits::QUEUE_LEN_MAX;
use holdfast_replica::peers::{TcpTransport, serve};
use holdfast_replica::world::{CallError, CallKind, PeerAddress, PeerLane, Transport};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::{LONG, Listening, SOON, call, echo, identity, peering, serving, silent};

fn is_not_sent<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::NotSent(_)))
}

fn is_no_answer<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::NoAnswer(_)))
}

/// A port that the kernel accepts connections on, and nobody reads from.
async fn deaf_peer() -> (TcpListener, PeerAddress) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    (listener, PeerAddress { node: 1, addr })
}

/// Calls until there is an answer. Calls fail at once while the transport waits to reconnect.
async fn call_until_answered(transport: &TcpTransport, to: &PeerAddress) {
    let trying = async {
        while call(transport, to, "again").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, trying).await.expect("the transport reconnects");
}

#[tokio::test]
async fn calls_under_way_fail_at_once_when_the_peer_dies_and_later_ones_reach_its_successor() {
    let (service, mut requests) = silent();
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let calls = [call(&transport, &listening.address, "a"), call(&transport, &listening.address, "b")];
    requests.recv().await.unwrap();
    requests.recv().await.unwrap();
    let address = listening.address.clone();
    listening.kill().await;
    for call in calls {
        assert!(is_no_answer(&timeout(SOON, call).await.expect("long before its timeout")));
    }
    assert!(is_not_sent(&call(&transport, &address, "nobody is there").await));

    let successor = Listening::start_at(&address.addr, 1, peering(1), echo()).await;
    call_until_answered(&transport, &address).await;
    let stats = successor.peering.stats();
    assert_eq!(stats.lane(PeerLane::Consensus).accepts.get(), 1);
}

#[tokio::test]
async fn after_a_healthy_connection_is_lost_the_next_call_reconnects_without_a_pause() {
    let listening = Listening::start(1, echo()).await;
    let transport = TcpTransport::new(peering(2));
    let mut lost = transport.disconnects();
    call(&transport, &listening.address, "").await.unwrap();
    let address = listening.address.clone();
    listening.kill().await;
    let _successor = Listening::start_at(&address.addr, 1, peering(1), echo()).await;
    assert_eq!(timeout(SOON, lost.recv()).await.unwrap(), Ok(1));
    call(&transport, &address, "").await.unwrap();
}

#[tokio::test]
async fn a_refused_port_fails_calls_as_not_sent_and_is_left_alone_for_a_while() {
    let (listener, address) = deaf_peer().await;
    drop(listener);
    let transport = TcpTransport::new(peering(2));
    let mut lost = transport.disconnects();
    assert!(is_not_sent(&call(&transport, &address, "").await));
    assert_eq!(lost.recv().await, Ok(1));
    let Err(CallError::NotSent(text)) = call(&transport, &address, "").await else { panic!("not sent") };
    assert!(text.contains("waiting to reconnect"), "{text}");
}

#[tokio::test]
async fn a_call_that_times_out_before_it_is_written_is_not_sent() {
    let (_listener, address) = deaf_peer().await;
    let mine = peering(2);
    let transport = TcpTransport::new(mine.clone());
    let short = Duration::from_millis(30);
    let answer = transport.call(&address, PeerLane::Consensus, CallKind::Vote, "vote".into(), short).await;
    assert_eq!(answer, Err(CallError::NotSent("timed out in the queue".to_owned())));
    let stats = mine.stats();
    let lane = stats.lane(PeerLane::Consensus);
    assert_eq!((lane.calls_not_sent.get(), lane.calls_no_answer.get()), (1, 0));
}

#[tokio::test]
async fn a_withdrawn_request_does_not_reach_a_peer_that_greets_late() {
    let (listener, address) = deaf_peer().await;
    let transport = TcpTransport::new(peering(2));
    let short = Duration::from_millis(30);
    let withdrawn = transport.call(&address, PeerLane::Consensus, CallKind::Vote, "old".into(), short).await;
    assert!(is_not_sent(&withdrawn));
    let (service, mut requests) = silent();
    let stop = std::future::pending();
    let _serving = tokio::spawn(serve(peering(1), listener, service, stop));
    let _waiting = call(&transport, &address, "new");
    assert_eq!(timeout(SOON, requests.recv()).await.unwrap().unwrap(), "new");
}

#[tokio::test]
async fn a_call_that_times_out_after_it_was_written_has_no_answer_and_harms_no_other() {
    let (service, mut requests) = silent();
    let listening = Listening::start(1, service).await;
    let mine = peering(2);
    let transport = TcpTransport::new(mine.clone());
    let other = call(&transport, &listening.address, "other");
    requests.recv().await.unwrap();
    let short = Duration::from_millis(100);
    let answer =
        transport.call(&listening.address, PeerLane::Consensus, CallKind::Vote, "v".into(), short).await;
    assert_eq!(answer, Err(CallError::NoAnswer("timed out".to_owned())));
    let stats = mine.stats();
    let lane = stats.lane(PeerLane::Consensus);
    assert_eq!((lane.calls_not_sent.get(), lane.calls_no_answer.get(), lane.disconnects.get()), (0, 1, 0));
    assert!(other.now_or_never().is_none());
}

#[tokio::test]
async fn a_full_queue_turns_calls_away() {
    let (_listener, address) = deaf_peer().await;
    let transport = TcpTransport::new(peering(2));
    let queued: Vec<_> = (0..QUEUE_LEN_MAX).map(|_| call(&transport, &address, "")).collect();
    let Err(CallError::NotSent(text)) = call(&transport, &address, "").await else { panic!("not sent") };
    assert!(text.contains("full"), "{text}");
    drop(queued);
}

#[tokio::test]
async fn queued_bodies_are_limited_in_bytes_too() {
    let (_listener, address) = deaf_peer().await;
    let transport = TcpTransport::new(peering(2));
    let body = Bytes::from(vec![0; 4 * 1024 * 1024]);
    let _queued: Vec<_> = (0..16).map(|_| call(&transport, &address, body.clone())).collect();
    let Err(CallError::NotSent(text)) = call(&transport, &address, body).await else { panic!("not sent") };
    assert!(text.contains("full"), "{text}");
}

#[tokio::test]
async fn a_peer_that_stops_reading_does_not_hold_calls_until_their_timeouts() {
    let (listener, address) = deaf_peer().await;
    let transport = TcpTransport::new(peering(2));
    let body = Bytes::from(vec![0; 4 * 1024 * 1024]);
    let calls: Vec<_> = (0..8).map(|_| call(&transport, &address, body.clone())).collect();
    let _unread = greet_and_read_no_more(&listener).await;
    let answers = timeout(SOON, join_all(calls)).await.expect("long before their timeouts");
    assert!(is_no_answer(&answers[0]), "written, at least in part");
    assert!(is_not_sent(&answers[7]), "never left the queue");
}

/// Accepts a connection and everything that it greets with.
async fn greet_and_read_no_more(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    read_greeting(&mut stream).await.unwrap();
    let reply = Reply::Accepted { version: 1, hello: identity(1, Some(7)).hello() };
    stream.write_all(&reply.encode()).await.unwrap();
    stream
}

#[tokio::test]
async fn both_ends_learn_that_the_other_is_gone() {
    let listening = Listening::start(1, echo()).await;
    let transport = TcpTransport::new(peering(2));
    let mut callers = listening.peering.disconnects();
    let mut callees = transport.disconnects();
    call(&transport, &listening.address, "").await.unwrap();
    transport.shutdown().await;
    assert_eq!(timeout(SOON, callers.recv()).await.unwrap(), Ok(2));

    let other = TcpTransport::new(peering(3));
    let mut lost = other.disconnects();
    call(&other, &listening.address, "").await.unwrap();
    listening.kill().await;
    assert_eq!(timeout(SOON, lost.recv()).await.unwrap(), Ok(1));
    assert!(callees.try_recv().is_err(), "this node has closed that one itself");
}

#[tokio::test]
async fn a_transport_that_was_shut_down_fails_calls_under_way_and_later_ones() {
    let (service, mut requests) = silent();
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let under_way = call(&transport, &listening.address, "");
    requests.recv().await.unwrap();
    transport.shutdown().await;
    assert!(is_no_answer(&under_way.await));
    assert!(is_not_sent(&call(&transport, &listening.address, "").await));
}

#[tokio::test]
async fn dropping_the_transport_fails_calls_under_way() {
    let (service, mut requests) = silent();
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let under_way = call(&transport, &listening.address, "");
    requests.recv().await.unwrap();
    drop(transport);
    assert!(is_no_answer(&timeout(SOON, under_way).await.unwrap()));
}

#[tokio::test]
async fn a_listener_that_stops_answers_what_it_has_taken_and_gives_up_the_rest() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let release = Arc::new(Notify::new());
    let service = serving({
        let release = release.clone();
        move |_, _, body| {
            started.send(()).unwrap();
            let release = release.clone();
            async move {
                if body == "never" {
                    std::future::pending::<()>().await;
                }
                release.notified().await;
                body
            }
            .boxed()
        }
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let calls = [call(&transport, &listening.address, "soon"), call(&transport, &listening.address, "never")];
    starts.recv().await.unwrap();
    starts.recv().await.unwrap();
    let address = listening.address.clone();
    let stopping = tokio::spawn(listening.stop());
    release.notify_one();
    let [soon, never] = calls;
    assert_eq!(soon.await.unwrap(), "soon");
    assert!(is_no_answer(&timeout(SOON, never).await.unwrap()));
    stopping.await.unwrap();
    assert!(is_not_sent(&transport.call(&address, PeerLane::Bulk, CallKind::Status, "".into(), LONG).await));
}
