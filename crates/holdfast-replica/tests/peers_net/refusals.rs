//! Who may not talk to whom.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_replica::peers::handshake::{Opening, Reply};
use holdfast_replica::peers::{Hello, PeerIdentity, Peering, Refusal, RefusalReason, TcpTransport};
use holdfast_replica::world::{CallError, PeerLane};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::{
    Listening, SOON, accepted, call, closed, echo, greet_raw, identity, opening, peering, read_frame,
    request, silent,
};

/// A cluster 7 that knows every node by the storage id of [`identity`], and has removed node 9.
fn strict_peering(ours: Arc<PeerIdentity>) -> Peering {
    let directory = |hello: &Hello| {
        if hello.node == 9 {
            return Err(Refusal::new(RefusalReason::NotMember, "node 9 was removed"));
        }
        if hello.storage != 1000 + u128::from(hello.node) {
            let text = format!("node {} is known with another disk", hello.node);
            return Err(Refusal::new(RefusalReason::OtherStorage, text));
        }
        Ok(())
    };
    Peering::new(ours, Arc::new(directory))
}

/// Node 1 of cluster 7 turns the opening away, counts it, and goes on serving others.
async fn is_refused(reason: RefusalReason, change: impl FnOnce(&mut Opening)) {
    let listening = Listening::start_as(1, strict_peering(identity(1, Some(7))), echo()).await;
    let mut opening = opening();
    change(&mut opening);
    let (stream, reply) = greet_raw(listening.socket_addr(), &opening.encode()).await;
    let Reply::Refused { code, text } = reply else { panic!("{reply:?}") };
    assert_eq!(RefusalReason::from_number(code), Some(reason), "{text}");
    assert!(!text.is_empty());
    closed(stream).await;
    assert_eq!(listening.refusals(reason), 1);
    let friend = TcpTransport::new(peering(3));
    assert_eq!(call(&friend, &listening.address, "hi").await.unwrap(), "hi");
    listening.stop().await;
}

#[tokio::test]
async fn a_node_without_a_common_version_is_refused() {
    is_refused(RefusalReason::Version, |opening| opening.versions = 7..=9).await;
}

#[tokio::test]
async fn an_impossible_version_range_is_refused() {
    #[expect(clippy::reversed_empty_ranges, reason = "a peer may send anything")]
    is_refused(RefusalReason::Version, |opening| opening.versions = 9..=1).await;
}

#[tokio::test]
async fn an_unknown_lane_is_refused() {
    is_refused(RefusalReason::Lane, |opening| opening.lane = 77).await;
}

#[tokio::test]
async fn a_node_of_another_cluster_is_refused() {
    is_refused(RefusalReason::OtherCluster, |opening| opening.hello.cluster = Some(8)).await;
}

#[tokio::test]
async fn a_connection_meant_for_another_node_is_refused() {
    is_refused(RefusalReason::OtherNode, |opening| opening.to = 5).await;
}

#[tokio::test]
async fn a_node_that_reaches_itself_is_refused() {
    is_refused(RefusalReason::Itself, |opening| opening.hello = identity(1, Some(7)).hello()).await;
}

#[tokio::test]
async fn a_node_that_uses_the_listeners_own_id_is_refused() {
    is_refused(RefusalReason::OtherStorage, |opening| opening.hello.node = 1).await;
}

#[tokio::test]
async fn a_known_node_with_another_disk_is_refused() {
    is_refused(RefusalReason::OtherStorage, |opening| opening.hello.storage = 4711).await;
}

#[tokio::test]
async fn a_node_that_was_removed_is_refused() {
    is_refused(RefusalReason::NotMember, |opening| opening.hello = identity(9, Some(7)).hello()).await;
}

#[tokio::test]
async fn a_newer_version_range_that_includes_ours_is_accepted_with_ours() {
    let listening = Listening::start(1, echo()).await;
    let newer = Opening { versions: 1..=9, ..opening() };
    let (_stream, reply) = greet_raw(listening.socket_addr(), &newer.encode()).await;
    let Reply::Accepted { version, hello } = reply else { panic!("{reply:?}") };
    assert_eq!((version, hello), (1, identity(1, Some(7)).hello()));
}

#[tokio::test]
async fn unknown_extensions_are_ignored() {
    let listening = Listening::start(1, echo()).await;
    let plain = opening().encode();
    let body = [&plain[10..plain.len() - 6], &[3, 0], b"new"].concat();
    let mut message = [&plain[..8], &u16::try_from(body.len()).unwrap().to_le_bytes(), &body].concat();
    message.extend(crc32c::crc32c(&message).to_le_bytes());
    let (_stream, reply) = greet_raw(listening.socket_addr(), &message).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
}

#[tokio::test]
async fn a_caller_that_is_refused_learns_the_reason_and_waits_before_it_tries_again() {
    let listening = Listening::start_as(1, strict_peering(identity(1, Some(7))), echo()).await;
    let removed = TcpTransport::new(peering(9));
    let Err(CallError::NotSent(text)) = call(&removed, &listening.address, "").await else {
        panic!("refused")
    };
    assert!(text.contains("not_member: node 9 was removed"), "{text}");
    let Err(CallError::NotSent(text)) = call(&removed, &listening.address, "").await else {
        panic!("waiting")
    };
    assert!(text.contains("waiting to reconnect") && text.contains("node 9 was removed"), "{text}");
}

#[tokio::test]
async fn a_caller_does_not_trust_a_wiped_peer_that_trusts_everybody() {
    let wiped = PeerIdentity::new(1, 4711, 1, "0.0.0-test", None);
    let trusting = Peering::new(Arc::new(wiped), Arc::new(|_: &Hello| Ok(())));
    let listening = Listening::start_as(1, trusting, echo()).await;
    let mine = strict_peering(identity(2, Some(7)));
    let transport = TcpTransport::new(mine.clone());
    let Err(CallError::NotSent(text)) = call(&transport, &listening.address, "").await else {
        panic!("not trusted")
    };
    assert!(text.contains("another disk"), "{text}");
    assert_eq!(mine.stats().refusals(RefusalReason::OtherStorage), 1);
}

#[tokio::test]
async fn an_older_connection_of_the_same_node_and_lane_is_refused_while_a_newer_one_is_open() {
    let listening = Listening::start(1, echo()).await;
    let newer = accepted(listening.socket_addr(), &Opening { connection: 5, ..opening() }).await;
    let older = Opening { connection: 4, ..opening() };
    let (_stream, reply) = greet_raw(listening.socket_addr(), &older.encode()).await;
    let Reply::Refused { code, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(code, RefusalReason::Stale as u8);
    let other_lane = Opening { lane: 2, ..older };
    accepted(listening.socket_addr(), &other_lane).await;
    drop(newer);
}

#[tokio::test]
async fn a_newer_connection_of_the_same_node_and_lane_replaces_the_older_one() {
    let listening = Listening::start(1, echo()).await;
    let mut lost = listening.peering.disconnects();
    let older = accepted(listening.socket_addr(), &Opening { connection: 5, ..opening() }).await;
    let mut rebooted = opening();
    rebooted.hello.boot += 1;
    let mut newer = accepted(listening.socket_addr(), &rebooted).await;
    closed(older).await;
    newer.write_all(&request(1, 1, "still here")).await.unwrap();
    assert_eq!(read_frame(&mut newer).await.body, "still here");
    assert!(lost.try_recv().is_err(), "a node that comes back is not gone");
}

/// Two nodes that had no cluster yet talk; then the callee's becomes `callees`, and the caller's `callers`.
async fn clusters_form(callees: u128, callers: u128) -> Result<Bytes, CallError> {
    let (ours, theirs) = (identity(2, None), identity(1, None));
    let listening = Listening::start_as(1, strict_peering(theirs.clone()), echo()).await;
    let transport = TcpTransport::new(strict_peering(ours.clone()));
    call(&transport, &listening.address, "before").await.unwrap();
    let mut closings = transport.disconnects();
    theirs.set_cluster(callees).unwrap();
    timeout(SOON, closings.recv()).await.expect("greeted without a cluster, so closed").unwrap();
    ours.set_cluster(callers).unwrap();
    call(&transport, &listening.address, "after").await
}

#[tokio::test]
async fn nodes_that_formed_different_clusters_stop_talking() {
    let answer = clusters_form(7, 8).await;
    assert!(matches!(answer, Err(CallError::NotSent(text)) if text.contains("other_cluster")));
}

#[tokio::test]
async fn nodes_that_formed_the_same_cluster_go_on_talking() {
    assert_eq!(clusters_form(7, 7).await.unwrap(), "after");
}

#[tokio::test]
async fn a_node_that_joins_keeps_its_connections_to_the_cluster_it_joins() {
    let joining = identity(2, None);
    let (service, mut requests) = silent();
    let listening = Listening::start(1, service).await;
    let mine = strict_peering(joining.clone());
    let transport = TcpTransport::new(mine.clone());
    let under_way = tokio::spawn(call(&transport, &listening.address, "join"));
    requests.recv().await.unwrap();
    joining.set_cluster(7).unwrap();
    let _next = call(&transport, &listening.address, "as a member");
    requests.recv().await.unwrap();
    assert!(!under_way.is_finished());
    assert_eq!(mine.stats().lane(PeerLane::Consensus).connects.get(), 1);
}

#[tokio::test]
async fn a_node_belongs_to_one_cluster_for_ever() {
    let node = identity(1, None);
    node.set_cluster(7).unwrap();
    node.set_cluster(7).unwrap();
    assert!(node.set_cluster(8).is_err());
    assert_eq!(node.hello().cluster, Some(7));
}
