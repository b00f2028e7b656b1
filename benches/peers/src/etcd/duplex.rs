//! A call that streams both ways and stays open.

use futures_util::stream;
use holdfast_bench::TargetError;
use hyper::http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::rpc::refused;

/// Requests that may be on their way at once: one client has one question at a time, and something to cancel.
const OUTGOING_MAX: usize = 4;

/// Questions go out one by one, answers come in one by one.
#[derive(Debug)]
pub(crate) struct Duplex<Q, A> {
    outgoing: mpsc::Sender<Q>,
    incoming: Streaming<A>,
}

impl<Q, A> Duplex<Q, A>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    /// Opens the call with its first question: etcd says nothing before it has got one.
    pub(crate) async fn open(
        mut grpc: Grpc<Channel>,
        path: PathAndQuery,
        first: Q,
    ) -> Result<Self, TargetError> {
        let (outgoing, mut questions) = mpsc::channel(OUTGOING_MAX);
        outgoing.try_send(first).expect("the channel is empty");
        let questions = stream::poll_fn(move |context| questions.poll_recv(context));
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.streaming(Request::new(questions), path, codec).await.map_err(refused)?;
        Ok(Self { outgoing, incoming: answer.into_inner() })
    }

    pub(crate) async fn ask(&self, question: Q) -> Result<(), TargetError> {
        self.outgoing.send(question).await.map_err(|_| ended())
    }

    pub(crate) async fn answer(&mut self) -> Result<A, TargetError> {
        self.incoming.message().await.map_err(refused)?.ok_or_else(ended)
    }
}

fn ended() -> TargetError {
    TargetError::Broken("etcd ended the stream".into())
}
