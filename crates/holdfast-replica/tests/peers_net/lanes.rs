//! Lanes do not wait for each other.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use holdfast_replica::peers::TcpTransport;
use holdfast_replica::world::{CallKind, PeerLane, Transport};
use tokio::time::timeout;

use crate::support::{LONG, Listening, SOON, call, peering, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_bulk_lane_does_not_delay_consensus_calls() {
    let service = serving(|_, kind, body| match kind {
        CallKind::SnapshotChunk => std::future::pending().boxed(),
        _ => async move { body }.boxed(),
    });
    let listening = Listening::start(1, service).await;
    let transport = TcpTransport::new(peering(2));
    let chunk = Bytes::from(vec![0; 2 * 1024 * 1024]);
    let send =
        |_| transport.call(&listening.address, PeerLane::Bulk, CallKind::SnapshotChunk, chunk.clone(), LONG);
    // One chunk shows that the lane is open; then more than the listener takes and the queue holds.
    let mut blocked: Vec<_> = (0..30).map(send).collect();
    let asking = async {
        for _ in 0..100 {
            call(&transport, &listening.address, "heartbeat").await.unwrap();
        }
    };
    timeout(SOON, asking).await.unwrap();
    blocked.extend((0..30).map(send));
    let forwarded = (0..100).map(|_| {
        transport.call(&listening.address, PeerLane::Forward, CallKind::Propose, "batch".into(), LONG)
    });
    let answers = timeout(SOON, join_all(forwarded)).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
}
