//! The calls that openraft makes to other nodes.

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::BoxStream;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, alias};
use openraft_rt::Select2;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::consensus::codec;
use crate::consensus::types::{Types, VoteOf};
use crate::leadership::Leadership;
use crate::snapshot_files::SnapshotFile;
use crate::wire;
use crate::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, Runtime, Transport};

/// Batches of entries that are under way to one follower.
const APPENDS_IN_FLIGHT_MAX: usize = 3;
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// One chunk of a snapshot on its way to a follower.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChunkCall {
    /// The leader's vote, encoded as on disk.
    pub(crate) vote: Vec<u8>,
    /// The snapshot's heading, encoded as on disk. Identifies the transfer.
    pub(crate) meta: Vec<u8>,
    pub(crate) number: u64,
    pub(crate) is_last: bool,
    pub(crate) bytes: Vec<u8>,
}

/// What the follower says to a chunk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ChunkReply {
    Next,
    /// The snapshot is installed, or refused by this vote.
    Done(Vec<u8>),
    /// It is not the chunk that comes next: begin again.
    OutOfOrder,
    Failed(String),
}

/// Makes the connections.
pub(crate) struct Network<R: Runtime> {
    transport: Arc<dyn Transport>,
    leadership: LeadershipSlot<R>,
}

/// Filled once the leadership exists, which itself needs what needs the network.
pub(crate) type LeadershipSlot<R> = Arc<OnceLock<Weak<Leadership<R>>>>;

impl<R: Runtime> Network<R> {
    pub(crate) fn new(transport: Arc<dyn Transport>, leadership: LeadershipSlot<R>) -> Self {
        Self { transport, leadership }
    }
}

impl<R: Runtime> RaftNetworkFactory<Types<R>> for Network<R> {
    type Network = Peer<R>;

    async fn new_client(&mut self, target: NodeId, node: &BasicNode) -> Peer<R> {
        Peer {
            address: PeerAddress { node: target, addr: node.addr.clone() },
            transport: self.transport.clone(),
            leadership: self.leadership.clone(),
        }
    }
}

/// The way to one node.
pub(crate) struct Peer<R: Runtime> {
    address: PeerAddress,
    transport: Arc<dyn Transport>,
    leadership: LeadershipSlot<R>,
}

impl<R: Runtime> Peer<R> {
    /// Where the node is now: a member that moves keeps its replication stream.
    fn address(&self) -> PeerAddress {
        let leadership = self.leadership.get().and_then(Weak::upgrade);
        let now = leadership.and_then(|leadership| leadership.address_of(self.address.node));
        now.unwrap_or_else(|| self.address.clone())
    }
}

type RpcResult<R, T> = Result<T, RPCError<Types<R>>>;

impl<R: Runtime> Peer<R> {
    async fn call<T: DeserializeOwned>(
        &self,
        kind: CallKind,
        body: Bytes,
        timeout: Duration,
    ) -> RpcResult<R, T> {
        let lane = PeerLane::Consensus;
        let answer = self.transport.call(&self.address(), lane, kind, body, timeout).await;
        read_answer::<R, T>(answer)
    }

    /// A leader tells its followers whether it has a majority, without which they must not count on it, and what time
    /// it is, so that a successor can go on from there.
    fn append_body(&self, request: &AppendEntriesRequest<Types<R>>) -> Bytes {
        let leadership = self.leadership.get().and_then(Weak::upgrade);
        let mut body = BytesMut::with_capacity(64);
        body.put_u8(u8::from(leadership.as_ref().is_some_and(|leadership| leadership.has_majority())));
        let now = leadership.and_then(|leadership| leadership.leading()).map_or(0, |leading| leading.now().0);
        body.put_u64_le(now);
        let bytes =
            postcard::to_stdvec(request).expect("appends contain nothing that postcard cannot encode");
        body.put_slice(&bytes);
        body.freeze()
    }

    fn append(
        &self,
        request: &AppendEntriesRequest<Types<R>>,
        timeout: Duration,
    ) -> BoxFuture<'static, RpcResult<R, AppendEntriesResponse<Types<R>>>> {
        let body = self.append_body(request);
        let call = self.transport.call(&self.address(), PeerLane::Consensus, CallKind::Append, body, timeout);
        Box::pin(async move { read_answer::<R, _>(call.await) })
    }

    async fn send_chunks(
        &self,
        vote: &VoteOf<R>,
        snapshot: &alias::SnapshotOf<Types<R>, SnapshotFile>,
        patience: Duration,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let file = &snapshot.snapshot;
        let count = file.chunk_count();
        for number in 0..count {
            let is_last = number + 1 == count;
            let chunk = ChunkCall {
                vote: codec::encode_vote::<R>(vote).to_vec(),
                meta: codec::encode_meta::<R>(&snapshot.meta).to_vec(),
                number: number as u64,
                is_last,
                bytes: file.read_chunk(number).map_err(network_error::<R>)?.to_vec(),
            };
            let timeout = if is_last { patience } else { CHUNK_TIMEOUT };
            let body = wire::encode(&chunk);
            let kind = CallKind::SnapshotChunk;
            let answer = self.transport.call(&self.address(), PeerLane::Bulk, kind, body, timeout).await;
            let answer = answer.map_err(|error| unreachable_error::<R>(&error))?;
            match wire::decode(&answer) {
                Some(ChunkReply::Next) if !is_last => {}
                Some(ChunkReply::Done(vote)) => {
                    let vote = codec::decode_vote::<R>(&vote).map_err(network_error::<R>)?;
                    return Ok(SnapshotResponse::new(vote));
                }
                Some(ChunkReply::Failed(why)) => return Err(network_error::<R>(io::Error::other(why)).into()),
                _ => return Err(network_error::<R>(io::Error::other("the transfer got out of step")).into()),
            }
        }
        Err(network_error::<R>(io::Error::other("the snapshot is empty")).into())
    }
}

fn unreachable_error<R: Runtime>(error: &CallError) -> Unreachable<Types<R>> {
    Unreachable::new(error)
}

fn network_error<R: Runtime>(error: io::Error) -> NetworkError<Types<R>> {
    NetworkError::new(&error)
}

/// An answer is a result: an error means that the peer's openraft has stopped.
fn read_answer<R: Runtime, T: DeserializeOwned>(answer: Result<Bytes, CallError>) -> RpcResult<R, T> {
    let bytes = answer.map_err(|error| unreachable_error::<R>(&error))?;
    let answer: Result<T, String> = wire::decode(&bytes)
        .ok_or_else(|| network_error::<R>(io::Error::other("the peer's answer is malformed")))?;
    answer.map_err(|why| Unreachable::new(&io::Error::other(why)).into())
}

impl<R: Runtime> RaftNetworkV2<Types<R>> for Peer<R> {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> RpcResult<R, AppendEntriesResponse<Types<R>>> {
        self.append(&request, option.soft_ttl()).await
    }

    /// A few batches under way at once, answered in order; the first that does not wholly succeed ends it.
    ///
    /// The input is asked for a batch before anything is sent: otherwise a dead peer would keep the caller spinning.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, RpcResult<R, BoxStream<'s, RpcResult<R, StreamAppendResult<Types<R>>>>>>
    where
        S: futures_util::Stream<Item = AppendEntriesRequest<Types<R>>> + OptionalSend + Unpin + 'static,
    {
        let peer = &*self;
        let answers = input
            .map(move |request| {
                let previous = request.prev_log_id;
                let last = request.entries.last().map(|entry| entry.log_id).or(previous);
                let answer = peer.append(&request, option.soft_ttl());
                async move { answer.await.map(|answer| (answer, previous, last)) }
            })
            .buffered(APPENDS_IN_FLIGHT_MAX)
            .scan(false, |is_over, answer| {
                if *is_over {
                    return future::ready(None);
                }
                let result = answer.map(|(answer, previous, last)| {
                    let result = answer.into_stream_result(previous, last);
                    *is_over = !matches!(&result, Ok(matching) if *matching == last);
                    result
                });
                *is_over |= result.is_err();
                future::ready(Some(result))
            });
        let answers: BoxStream<'s, _> = Box::pin(answers);
        Box::pin(future::ready(Ok(answers)))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> RpcResult<R, VoteResponse<Types<R>>> {
        self.call(CallKind::Vote, wire::encode(&request), option.soft_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> RpcResult<R, VoteResponse<Types<R>>> {
        self.call(CallKind::PreVote, wire::encode(&request), option.soft_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<R>,
        snapshot: alias::SnapshotOf<Types<R>, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let sent = self.send_chunks(&vote, &snapshot, option.soft_ttl());
        match R::select2(cancel, sent).await {
            Select2::First(closed) => Err(closed.into()),
            Select2::Second(sent) => sent,
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types<R>>,
        option: RPCOption,
    ) -> RpcResult<R, TransferLeaderResponse<Types<R>>> {
        self.call(CallKind::TransferLeader, wire::encode(&request), option.soft_ttl()).await
    }
}
