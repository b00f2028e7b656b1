//! Garbage on the peer port harms nobody else.

use bytes::BytesMut;
use futures_util::FutureExt;
use holdfast_replica::peers::frame::{self, Frame, FrameRole};
use holdfast_replica::peers::handshake::MAGIC;
use holdfast_replica::peers::limits::UNAUTHENTICATED_MAX;
use holdfast_replica::peers::{RefusalReason, TcpTransport};
use holdfast_replica::world::PeerLane;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{
    Listening, accepted, call, closed, echo, greet_raw, opening, peering, read_frame, request, serving,
};

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

async fn is_well(listening: &Listening) {
    let transport = TcpTransport::new(peering(3));
    assert_eq!(call(&transport, &listening.address, "hi").await.unwrap(), "hi");
    transport.shutdown().await;
}

/// The listener closes a connection that starts with these bytes, at the latest after the time for greetings.
async fn is_turned_away(bytes: &[u8], reason: RefusalReason) {
    let listening = Listening::start(1, echo()).await;
    let mut stream = TcpStream::connect(listening.socket_addr()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    closed(stream).await;
    assert_eq!(listening.refusals(reason), 1);
    is_well(&listening).await;
    listening.stop().await;
}

#[tokio::test]
async fn a_connection_that_is_closed_without_a_byte_is_turned_away() {
    let listening = Listening::start(1, echo()).await;
    drop(TcpStream::connect(listening.socket_addr()).await.unwrap());
    is_well(&listening).await;
    listening.stop().await;
}

#[tokio::test]
async fn a_silent_connection_is_turned_away() {
    is_turned_away(b"", RefusalReason::Silent).await;
}

#[tokio::test]
async fn half_a_greeting_is_turned_away() {
    is_turned_away(&opening().encode()[..30], RefusalReason::Silent).await;
}

#[tokio::test]
async fn an_http_request_is_turned_away() {
    is_turned_away(b"GET / HTTP/1.1\r\nHost: peer\r\n\r\n", RefusalReason::Garbage).await;
    is_turned_away(b"POST /raft/append HTTP/1.1\r\nContent-Length: 0\r\n\r\n", RefusalReason::Garbage).await;
}

#[tokio::test]
async fn random_bytes_are_turned_away() {
    let bytes: Vec<u8> = (0..100_000).map(|_| rand::random()).collect();
    is_turned_away(&bytes, RefusalReason::Garbage).await;
}

#[tokio::test]
async fn an_overlong_or_damaged_greeting_is_turned_away() {
    is_turned_away(&[&MAGIC[..], &[0xff, 0xff]].concat(), RefusalReason::Garbage).await;
    let mut damaged = opening().encode().to_vec();
    damaged[20] ^= 1;
    is_turned_away(&damaged, RefusalReason::Garbage).await;
}

#[tokio::test]
async fn a_greeting_of_nonsense_with_a_valid_checksum_is_turned_away() {
    let mut message = [&MAGIC[..], &[5, 0], b"hello"].concat();
    message.extend(crc32c::crc32c(&message).to_le_bytes());
    is_turned_away(&message, RefusalReason::Garbage).await;
}

#[tokio::test]
async fn two_hundred_idle_connections_keep_nobody_out_and_are_closed() {
    let listening = Listening::start(1, echo()).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(listening.socket_addr()).await.unwrap());
    }
    is_well(&listening).await;
    for stream in idle {
        closed(stream).await;
    }
    assert_eq!(listening.refusals(RefusalReason::Silent), 200);
    is_well(&listening).await;
    listening.stop().await;
}

#[tokio::test]
async fn more_silent_strangers_than_the_limit_push_out_the_oldest_and_not_a_peer() {
    let listening = Listening::start(1, echo()).await;
    let mut idle = Vec::new();
    for _ in 0..UNAUTHENTICATED_MAX + 100 {
        idle.push(TcpStream::connect(listening.socket_addr()).await.unwrap());
    }
    is_well(&listening).await;
    for stream in idle {
        closed(stream).await;
    }
    let (crowded, silent) =
        (listening.refusals(RefusalReason::Crowded), listening.refusals(RefusalReason::Silent));
    assert_eq!(crowded + silent, UNAUTHENTICATED_MAX as u64 + 100);
}

/// The listener closes an accepted connection that goes on with these bytes.
async fn ends_the_connection(bytes: &[u8]) {
    let listening = Listening::start(1, echo()).await;
    let mut stream = accepted(listening.socket_addr(), &opening()).await;
    stream.write_all(bytes).await.unwrap();
    closed(stream).await;
    let stats = listening.peering.stats();
    assert_eq!(stats.lane(PeerLane::Consensus).frames_out.get(), 0);
    is_well(&listening).await;
    listening.stop().await;
}

#[tokio::test]
async fn a_frame_with_a_changed_byte_ends_the_connection_wherever_the_byte_is() {
    let whole = request(1, 1, "body");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        ends_the_connection(&damaged).await;
    }
}

#[tokio::test]
async fn a_length_over_the_limit_ends_the_connection_before_the_rest_arrives() {
    ends_the_connection(&u32::MAX.to_le_bytes()).await;
    ends_the_connection(&(4 * 1024 * 1024 + 1_u32).to_le_bytes()).await;
}

#[tokio::test]
async fn an_answer_nobody_asked_for_ends_the_connection() {
    let mut out = BytesMut::new();
    let answer = Frame { id: 1, kind: 1, role: FrameRole::Answer, body: "42".into() };
    frame::encode(&answer, &mut out);
    ends_the_connection(&out).await;
}

#[tokio::test]
async fn a_connection_that_ends_within_a_frame_harms_no_other() {
    let listening = Listening::start(1, echo()).await;
    let mut lost = listening.peering.disconnects();
    let mut stream = accepted(listening.socket_addr(), &opening()).await;
    let whole = request(1, 1, vec![0; 1000]);
    stream.write_all(&whole[..500]).await.unwrap();
    drop(stream);
    assert_eq!(lost.recv().await, Ok(2));
    is_well(&listening).await;
}

#[tokio::test]
async fn an_unknown_call_kind_is_answered_with_a_failure_and_the_connection_goes_on() {
    let listening = Listening::start(1, echo()).await;
    let mut stream = accepted(listening.socket_addr(), &opening()).await;
    stream.write_all(&request(1, 200, "?")).await.unwrap();
    let failure = read_frame(&mut stream).await;
    assert_eq!((failure.id, failure.kind, failure.role), (1, 200, FrameRole::Failure));
    stream.write_all(&request(2, 1, "known")).await.unwrap();
    assert_eq!(read_frame(&mut stream).await.body, "known");
}

#[tokio::test]
async fn a_service_that_panics_loses_only_the_connection_that_asked() {
    let service = serving(|_, _, body| {
        async move {
            tokio::task::yield_now().await;
            assert_ne!(body, "panic");
            body
        }
        .boxed()
    });
    let listening = Listening::start(1, service).await;
    let mut stream = accepted(listening.socket_addr(), &opening()).await;
    stream.write_all(&request(1, 1, "panic")).await.unwrap();
    closed(stream).await;
    is_well(&listening).await;
    listening.stop().await;
}

#[tokio::test]
async fn announced_lengths_cost_no_memory_before_the_bytes_arrive() {
    let listening = Listening::start(1, echo()).await;
    is_well(&listening).await;
    let before = resident();
    let mut open = Vec::new();
    for connection in 0..100_u64 {
        let mut opening = opening();
        opening.hello.node = 10 + connection;
        let (mut stream, _) = greet_raw(listening.socket_addr(), &opening.encode()).await;
        let announces_4_mib = request(1, 1, vec![0; 4 * 1024 * 1024]);
        stream.write_all(&announces_4_mib[..frame::HEADER_LEN]).await.unwrap();
        open.push(stream);
    }
    is_well(&listening).await;
    // 400 MiB were announced. One message's worth is what this test itself had in hand.
    assert!(resident() < before + 40 * 1024 * 1024, "{before} {}", resident());
}
