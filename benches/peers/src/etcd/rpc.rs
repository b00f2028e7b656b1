//! Calls of etcd's API, each by its name.

use holdfast_bench::TargetError;
use hyper::http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::duplex::Duplex;
use super::proto::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LockRequest,
    LockResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
    UnlockRequest, UnlockResponse, WatchRequest, WatchResponse,
};

/// One connection to one member.
#[derive(Clone, Debug)]
pub(crate) struct Rpc(Channel);

impl Rpc {
    pub(crate) async fn connect(url: &str) -> Result<Self, TargetError> {
        let unreachable = |why: String| TargetError::Unreachable { address: url.into(), why };
        let endpoint =
            Endpoint::from_shared(url.to_owned()).map_err(|error| unreachable(error.to_string()))?;
        // Without Nagle's delay, as etcd's own client has it.
        let channel = endpoint.tcp_nodelay(true).connect().await;
        channel.map(Self).map_err(|error| unreachable(error.to_string()))
    }

    /// Whether this member leads.
    pub(crate) async fn leads(&self) -> Result<bool, TargetError> {
        let status: StatusResponse = self.unary("/etcdserverpb.Maintenance/Status", StatusRequest {}).await?;
        let member = status.header.map(|header| header.member_id);
        Ok(member == Some(status.leader))
    }

    pub(crate) async fn grant_lease(
        &self,
        request: LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, TargetError> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    pub(crate) async fn keep_alive(
        &self,
        first: LeaseKeepAliveRequest,
    ) -> Result<Duplex<LeaseKeepAliveRequest, LeaseKeepAliveResponse>, TargetError> {
        self.duplex("/etcdserverpb.Lease/LeaseKeepAlive", first).await
    }

    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, TargetError> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub(crate) async fn transact(&self, request: TxnRequest) -> Result<TxnResponse, TargetError> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(crate) async fn watch(
        &self,
        first: WatchRequest,
    ) -> Result<Duplex<WatchRequest, WatchResponse>, TargetError> {
        self.duplex("/etcdserverpb.Watch/Watch", first).await
    }

    pub(crate) async fn lock(&self, request: LockRequest) -> Result<LockResponse, TargetError> {
        self.unary("/v3lockpb.Lock/Lock", request).await
    }

    pub(crate) async fn unlock(&self, request: UnlockRequest) -> Result<UnlockResponse, TargetError> {
        self.unary("/v3lockpb.Lock/Unlock", request).await
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, TargetError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner).map_err(refused)
    }

    async fn duplex<Q, A>(&self, path: &'static str, first: Q) -> Result<Duplex<Q, A>, TargetError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        Duplex::open(self.ready().await?, PathAndQuery::from_static(path), first).await
    }

    async fn ready(&self) -> Result<Grpc<Channel>, TargetError> {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.map_err(|error| TargetError::Broken(error.to_string()))?;
        Ok(grpc)
    }
}

/// gRPC has one kind of error for everything; only some of them came from the service.
pub(crate) fn refused(status: Status) -> TargetError {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => {
            TargetError::Broken(status.to_string())
        }
        _ => TargetError::Refused(status.to_string()),
    }
}
