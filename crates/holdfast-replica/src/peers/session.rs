//! One accepted connection: reads requests, hands them to the service, writes the answers.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use super::driver::recycle;
use super::frame::{self, Frame, FrameError, FrameRole};
use super::limits::{BATCH_BYTES, DRAIN_TIMEOUT, IN_FLIGHT_MAX, IN_FLIGHT_PIECE, body_len_max};
use super::peering::Peering;
use super::reception::Guest;
use super::stats::LaneStats;
use super::stream::{FrameReader, ReadError};
use super::wire::kind_from_number;
use crate::world::{NodeId, PeerLane, PeerService};

/// An accepted connection.
pub(super) struct Session {
    peering: Peering,
    service: Arc<dyn PeerService>,
    guest: Guest,
    from: IpAddr,
}

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Read(ReadError),
    #[error("{0}")]
    Write(io::Error),
    #[error("the service has panicked")]
    Panic,
    #[error("this node stops")]
    Stopping,
    #[error("a newer connection has taken its place")]
    Replaced,
    #[error("this node has become part of a cluster and is to be greeted anew")]
    Outgrown,
}

impl Session {
    pub(super) fn new(peering: Peering, service: Arc<dyn PeerService>, guest: Guest, from: IpAddr) -> Self {
        Self { peering, service, guest, from }
    }

    /// Serves until the connection ends, or must end.
    pub(super) async fn run(self, mut stopping: watch::Receiver<()>) {
        let Self { peering, service, guest, from } = self;
        let Guest { stream, lane, ours, theirs, mut seat } = guest;
        let stats = peering.lane_stats(lane);
        stats.accepts.add(1);
        let (read, write) = stream.into_split();
        let (answers, written) = unbounded_channel();
        let mut desk = Desk {
            service,
            from: theirs.node,
            lane,
            capacity: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            tasks: JoinSet::new(),
        };
        let reader = FrameReader::new(read, lane, peering.stats());
        let mut writer = pin!(write_answers(written, write, stats));
        let end = tokio::select! {
            end = desk.take_requests(reader, answers) => end,
            error = &mut writer => End::from_writer(error),
            () = seat.sent_away() => End::Replaced,
            () = peering.identity.outgrows(ours.cluster, theirs.cluster) => End::Outgrown,
            _ = stopping.changed() => End::Stopping,
        };
        if matches!(end, End::Stopping) {
            // What is not answered by then is given up.
            let _ = timeout(DRAIN_TIMEOUT, async { tokio::join!(desk.finish(), writer) }).await;
        }
        desk.tasks.shutdown().await;
        stats.disconnects.add(1);
        ended(&peering, theirs.node, from, &end);
    }
}

impl End {
    fn from_writer(result: io::Result<()>) -> Self {
        // The writer ends well only when nobody can send to it any more, which includes the reader beside it.
        Self::Write(result.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
    }
}

fn ended(peering: &Peering, node: NodeId, from: IpAddr, end: &End) {
    match end {
        End::Read(ReadError::Frame(error)) => peering.complain(from, "frame", error),
        End::Read(ReadError::Closed | ReadError::Io(_)) | End::Write(_) => peering.lost(node),
        End::Panic => tracing::error!(node, "peer connection: {end}"),
        End::Stopping | End::Replaced | End::Outgrown => {}
    }
    tracing::debug!(node, %from, "peer connection ended: {end}");
}

/// Where the requests of one connection are worked on.
struct Desk {
    service: Arc<dyn PeerService>,
    from: NodeId,
    lane: PeerLane,
    /// Taken by each request until its answer is written.
    capacity: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

/// An answer on its way to the socket, with its share of the capacity.
struct Outgoing {
    frame: Frame,
    _share: OwnedSemaphorePermit,
}

impl Desk {
    async fn take_requests(&mut self, mut reader: FrameReader, answers: UnboundedSender<Outgoing>) -> End {
        loop {
            let frame = tokio::select! {
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(()) => continue,
                    Err(_) => return End::Panic,
                },
                frame = reader.next() => frame,
            };
            match frame {
                Ok(frame) if frame.role == FrameRole::Request => self.take(frame, &answers).await,
                Ok(_) => return End::Read(ReadError::Frame(FrameError::Direction)),
                Err(error) => return End::Read(error),
            }
        }
    }

    /// Hands one request to the service once there is room for it.
    async fn take(&mut self, request: Frame, answers: &UnboundedSender<Outgoing>) {
        let share = self.capacity.clone().acquire_many_owned(weight(&request)).await;
        let share = share.expect("the semaphore is never closed");
        let (id, kind, lane) = (request.id, request.kind, self.lane);
        let Some(call) = kind_from_number(kind) else {
            let frame = failure(id, kind, format!("call kind {kind} is unknown here"));
            let _ = answers.send(Outgoing { frame, _share: share }); // The writer has ended with the connection.
            return;
        };
        let mut serving = self.service.serve(self.from, call, request.body);
        if let Some(body) = poll_once(&mut serving).await {
            let _ = answers.send(Outgoing { frame: answer(id, kind, lane, body), _share: share });
            return;
        }
        let answers = answers.clone();
        self.tasks.spawn(async move {
            let frame = answer(id, kind, lane, serving.await);
            let _ = answers.send(Outgoing { frame, _share: share });
        });
    }

    /// Waits for all answers.
    async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// How many places a request takes.
fn weight(request: &Frame) -> u32 {
    let pieces = 1 + request.body.len() / IN_FLIGHT_PIECE;
    u32::try_from(pieces).expect("the reader has checked the length of the body")
}

/// Polls a future for the first time, right here, so that requests start in the order in which they came.
///
/// Without tokio's budget, which could make the future yield before it has done anything.
async fn poll_once(serving: &mut BoxFuture<'static, Bytes>) -> Option<Bytes> {
    let first = poll_fn(|context| match serving.as_mut().poll(context) {
        Poll::Ready(body) => Poll::Ready(Some(body)),
        Poll::Pending => Poll::Ready(None),
    });
    unconstrained(first).await
}

fn answer(id: u64, kind: u8, lane: PeerLane, body: Bytes) -> Frame {
    let (len, len_max) = (body.len(), body_len_max(lane));
    if len > len_max {
        return failure(id, kind, format!("an answer of {len} bytes is over the limit of {len_max}"));
    }
    Frame { id, kind, role: FrameRole::Answer, body }
}

fn failure(id: u64, kind: u8, text: String) -> Frame {
    Frame { id, kind, role: FrameRole::Failure, body: text.into() }
}

/// Writes answers, as many at a time as there are. Ends when nobody can send any more.
async fn write_answers(
    mut answers: UnboundedReceiver<Outgoing>,
    mut half: OwnedWriteHalf,
    stats: &LaneStats,
) -> io::Result<()> {
    let (mut out, mut batch) = (BytesMut::new(), Vec::new());
    while let Some(first) = answers.recv().await {
        batch.push(first);
        frame::encode(&batch[0].frame, &mut out);
        while out.len() < BATCH_BYTES
            && let Ok(next) = answers.try_recv()
        {
            frame::encode(&next.frame, &mut out);
            batch.push(next);
        }
        half.write_all(&out).await?;
        stats.frames_out.add(batch.len());
        stats.bytes_out.add(out.len());
        batch.clear();
        recycle(&mut out);
    }
    half.shutdown().await
}
