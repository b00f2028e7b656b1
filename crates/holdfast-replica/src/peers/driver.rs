//! The task behind a link: opens its connections, writes its requests, reads its answers.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

use super::dial::{Connection, DialError, dial};
use super::frame::{Frame, FrameError, FrameRole};
use super::limits::BATCH_BYTES;
use super::link::Link;
use super::refusal::RefusalReason;
use super::stream::{FrameReader, ReadError};
use crate::world::{CallError, PeerAddress};

/// Serves the link until it is closed. However it ends, no call is left without an error.
pub(super) async fn drive(link: Arc<Link>) {
    let _closing = CloseOnDrop(&link);
    while link.has_work().await {
        match dial(&link).await {
            Ok(connection) => {
                let end = converse(&link, connection).await;
                ended(&link, &end);
            }
            Err(error) => not_connected(&link, &error),
        }
    }
}

struct CloseOnDrop<'a>(&'a Link);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close("the peer network has stopped");
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Read(ReadError),
    #[error("{0}")]
    Write(io::Error),
    #[error("the link was closed")]
    Closed,
    #[error("this node has become part of a cluster and greets anew")]
    Outgrown,
}

async fn converse(link: &Link, connection: Connection) -> End {
    let Connection { stream, ours, theirs } = connection;
    link.peering.lane_stats(link.lane).connects.add(1);
    let (read, write) = stream.into_split();
    let reader = FrameReader::new(read, link.lane, link.peering.stats());
    tokio::select! {
        end = read_answers(link, reader) => end,
        end = write_requests(link, write) => end,
        () = link.peering.identity.outgrows(ours.cluster, theirs.cluster) => End::Outgrown,
    }
}

async fn write_requests(link: &Link, mut half: OwnedWriteHalf) -> End {
    let stats = link.peering.lane_stats(link.lane);
    let mut out = BytesMut::new();
    while link.has_work().await {
        let frames = link.take_batch(&mut out);
        if let Err(error) = half.write_all(&out).await {
            return End::Write(error);
        }
        stats.frames_out.add(frames);
        stats.bytes_out.add(out.len());
        recycle(&mut out);
    }
    End::Closed
}

/// Empties a write buffer, and gives the memory back that an unusually big body has taken.
pub(super) fn recycle(out: &mut BytesMut) {
    if out.capacity() > 2 * BATCH_BYTES {
        *out = BytesMut::new();
    }
    out.clear();
}

async fn read_answers(link: &Link, mut reader: FrameReader) -> End {
    loop {
        let frame = match reader.next().await {
            Ok(frame) => frame,
            Err(error) => return End::Read(error),
        };
        match frame.role {
            FrameRole::Answer => link.deliver(frame.id, Ok(frame.body)),
            FrameRole::Failure => link.deliver(frame.id, Err(failure(&frame))),
            FrameRole::Request => return End::Read(ReadError::Frame(FrameError::Direction)),
        }
    }
}

/// A failure frame's body is a text for people.
fn failure(frame: &Frame) -> CallError {
    CallError::NoAnswer(String::from_utf8_lossy(&frame.body).into_owned())
}

fn ended(link: &Link, end: &End) {
    link.peering.lane_stats(link.lane).disconnects.add(1);
    let node = link.to.node;
    link.connection_failed(&format!("connection to node {node}: {end}"));
    match end {
        End::Read(ReadError::Frame(error)) => link.peering.complain(format!("node {node}"), "frame", error),
        End::Read(ReadError::Closed | ReadError::Io(_)) | End::Write(_) => link.peering.lost(node),
        End::Closed | End::Outgrown => {}
    }
}

fn not_connected(link: &Link, error: &DialError) {
    link.peering.lane_stats(link.lane).connects_failed.add(1);
    let PeerAddress { node, addr } = &link.to;
    link.connection_failed(&format!("connection to node {node} at {addr}: {error}"));
    let source = format!("node {node} at {addr}");
    match error {
        DialError::Rejected(refusal) => link.peering.refuse(source, refusal),
        DialError::Refused { code, .. } => {
            link.peering.complain(source, "refused_by_peer", error);
            link.peering.directory.turned_away(RefusalReason::from_number(*code));
        }
        _ if error.is_sign_of_death() => link.peering.lost(*node),
        _ => {}
    }
}
