//! What this node answers to its peers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_core::ClusterTime;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest};
use openraft::storage::Snapshot;
use openraft_rt::Instant as _;
use serde::Serialize;

use crate::consensus::network::{ChunkCall, ChunkReply};
use crate::consensus::{Types, codec};
use crate::proposals::forward;
use crate::replica::Inner;
use crate::snapshot_files::SnapshotWriter;
use crate::wire::{self, ClaimCall, ClaimReply, OperateCall, ProposeCall, ProposeReply, ReadIndexReply};
use crate::world::{CallKind, NodeId, PeerService, Runtime};

/// How long a leader waits to be as far as the node that claims a grant.
const CLAIM_PATIENCE: Duration = Duration::from_millis(500);
/// Between two lines about a snapshot that is being received.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Answers peers on behalf of one replica.
struct Service<R: Runtime> {
    inner: Arc<Inner<R>>,
    incoming: Mutex<Option<Incoming<R>>>,
}

/// A snapshot that is being received.
struct Incoming<R: Runtime> {
    from: NodeId,
    meta: Vec<u8>,
    next: u64,
    writer: SnapshotWriter,
    bytes: u64,
    told: R::Instant,
}

impl<R: Runtime> Incoming<R> {
    /// A long transfer says now and then how far it is.
    fn tell(&mut self) {
        if self.told + TELL_EVERY <= R::Instant::now() {
            self.told = R::Instant::now();
            tracing::info!(received = self.bytes, from = self.from, "catching up: a snapshot is under way");
        }
    }
}

/// What a malformed body, and a node that was removed, is answered with: nothing that any caller takes for an answer.
const MALFORMED: Bytes = Bytes::new();

impl<R: Runtime> Service<R> {
    fn new(inner: Arc<Inner<R>>) -> Self {
        Self { inner, incoming: Mutex::new(None) }
    }

    async fn append(&self, body: Bytes) -> Bytes {
        let Some((has_majority, rest)) = body.split_first() else { return MALFORMED };
        let Some((now, rest)) = rest.split_first_chunk::<8>() else { return MALFORMED };
        let Some(request) = wire::decode::<AppendEntriesRequest<Types<R>>>(rest) else { return MALFORMED };
        let term = request.vote.leader_id().term;
        let answer = self.inner.raft.append_entries(request).await;
        let is_my_leader =
            matches!(&answer, Ok(answer) if !matches!(answer, AppendEntriesResponse::HigherVote(_)));
        if is_my_leader {
            let now = ClusterTime(u64::from_le_bytes(*now));
            self.inner.leadership.heard_from_leader(term, now, *has_majority == 1);
        }
        result(answer)
    }

    async fn vote(&self, from: NodeId, body: Bytes) -> Bytes {
        if self.inner.was_removed(from) {
            return MALFORMED;
        }
        match wire::decode::<VoteRequest<Types<R>>>(&body) {
            Some(request) => result(self.inner.raft.vote(request).await),
            None => MALFORMED,
        }
    }

    async fn pre_vote(&self, from: NodeId, body: Bytes) -> Bytes {
        if self.inner.was_removed(from) {
            return MALFORMED;
        }
        match wire::decode::<VoteRequest<Types<R>>>(&body) {
            Some(request) => result(self.inner.raft.pre_vote(request).await),
            None => MALFORMED,
        }
    }

    async fn transfer_leader(&self, body: Bytes) -> Bytes {
        match wire::decode::<TransferLeaderRequest<Types<R>>>(&body) {
            Some(request) => result(self.inner.raft.handle_transfer_leader(request).await),
            None => MALFORMED,
        }
    }

    async fn snapshot_chunk(&self, from: NodeId, body: Bytes) -> Bytes {
        let Some(chunk) = wire::decode::<ChunkCall>(&body) else { return MALFORMED };
        let reply = self.take_chunk(from, chunk).await;
        wire::encode(&reply.unwrap_or_else(|error| ChunkReply::Failed(error.to_string())))
    }

    async fn take_chunk(&self, from: NodeId, chunk: ChunkCall) -> std::io::Result<ChunkReply> {
        let meta = codec::decode_meta::<R>(&chunk.meta)?;
        let vote = codec::decode_vote::<R>(&chunk.vote)?;
        let under_way = self.incoming.lock().expect("no code panics while it holds this").take();
        let mut incoming = match under_way {
            _ if chunk.number == 0 => {
                let writer = self.inner.snapshots.begin(&meta).await?;
                let told = R::Instant::now();
                Incoming { from, meta: chunk.meta.clone(), next: 0, writer, bytes: 0, told }
            }
            Some(incoming)
                if incoming.from == from && incoming.meta == chunk.meta && incoming.next == chunk.number =>
            {
                incoming
            }
            _ => return Ok(ChunkReply::OutOfOrder),
        };
        incoming.bytes += chunk.bytes.len() as u64;
        incoming.tell();
        incoming.writer.write_chunk(Bytes::from(chunk.bytes)).await?;
        incoming.next += 1;
        if !chunk.is_last {
            *self.incoming.lock().expect("no code panics while it holds this") = Some(incoming);
            return Ok(ChunkReply::Next);
        }
        let snapshot = incoming.writer.finish().await?;
        let installed = self.inner.raft.install_full_snapshot(vote, Snapshot { meta, snapshot }).await;
        let response = installed.map_err(std::io::Error::other)?;
        Ok(ChunkReply::Done(codec::encode_vote::<R>(&response.vote).to_vec()))
    }

    async fn propose(&self, body: Bytes) -> Bytes {
        let Some(call) = wire::decode::<ProposeCall>(&body) else { return MALFORMED };
        let reply: ProposeReply = forward::serve(&self.inner.proposals, call).await;
        wire::encode(&reply)
    }

    async fn read_index(&self) -> Bytes {
        wire::encode(&match self.inner.reads.point(true).await {
            Ok(point) => ReadIndexReply::Index { index: point.index, now: point.now },
            Err(_) => ReadIndexReply::NotLeader,
        })
    }

    async fn operate(&self, body: Bytes) -> Bytes {
        let Some(call) = wire::decode::<OperateCall>(&body) else { return MALFORMED };
        wire::encode(&self.inner.answer_operator(call).await)
    }

    async fn claim(&self, body: Bytes) -> Bytes {
        let Some(call) = wire::decode::<ClaimCall>(&body) else { return MALFORMED };
        wire::encode(&self.inner.answer_claim(&call).await)
    }
}

fn result<T: Serialize, E: std::fmt::Display>(answer: Result<T, E>) -> Bytes {
    wire::encode(&answer.map_err(|error| error.to_string()))
}

impl<R: Runtime> Inner<R> {
    /// Whether a grant from the queue stands, as the leader knows it (see [`crate::claims`]).
    pub(crate) async fn answer_claim(&self, call: &ClaimCall) -> ClaimReply {
        let Some(leading) = self.leadership.leading() else { return ClaimReply::NotLeader };
        if !self.wait_until_applied(call.index, CLAIM_PATIENCE).await {
            return ClaimReply::NotLeader;
        }
        // With the state locked: a grant that is looked up here cannot be taken back in between.
        self.machine.look(|state| {
            if state.position().term > leading.term {
                return ClaimReply::NotLeader;
            }
            let stands =
                state.table.is_held_by(&call.lock, call.fence) && self.effects.claims.confirm(call.fence);
            if stands { ClaimReply::Confirmed } else { ClaimReply::Refused }
        })
    }
}

/// The service as the listener wants it: each answer owns what it needs.
pub(crate) struct SharedService<R: Runtime>(Arc<Service<R>>);

impl<R: Runtime> SharedService<R> {
    pub(crate) fn new(inner: Arc<Inner<R>>) -> Self {
        Self(Arc::new(Service::new(inner)))
    }
}

impl<R: Runtime> PeerService for SharedService<R> {
    fn serve(&self, from: NodeId, kind: CallKind, body: Bytes) -> BoxFuture<'static, Bytes> {
        let service = self.0.clone();
        async move {
            match kind {
                CallKind::Append => service.append(body).await,
                CallKind::Vote => service.vote(from, body).await,
                CallKind::PreVote => service.pre_vote(from, body).await,
                CallKind::TransferLeader => service.transfer_leader(body).await,
                CallKind::SnapshotChunk => service.snapshot_chunk(from, body).await,
                CallKind::Propose => service.propose(body).await,
                CallKind::ReadIndex => service.read_index().await,
                CallKind::Claim => service.claim(body).await,
                CallKind::Status => wire::encode(&service.inner.report()),
                CallKind::Operate => service.operate(body).await,
            }
        }
        .boxed()
    }
}
