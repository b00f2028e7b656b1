//! Nodes to call, and a hand to write raw bytes with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_replica::peers::frame::{self, Frame, FrameRole};
use holdfast_replica::peers::handshake::{Opening, Reply, VERSIONS, read_greeting};
use holdfast_replica::peers::{Hello, PeerIdentity, Peering, RefusalReason, TcpTransport, serve};
use holdfast_replica::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, PeerService, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here takes, unless it hangs.
pub const LONG: Duration = Duration::from_secs(60);

/// What is to happen at once: far below [`LONG`], far above the noise of a busy machine.
pub const SOON: Duration = Duration::from_secs(10);

pub const CONSENSUS: u8 = 1;

/// A service that is a function.
pub struct Serving<F>(pub F);

impl<F> PeerService for Serving<F>
where
    F: Fn(NodeId, CallKind, Bytes) -> BoxFuture<'static, Bytes> + Send + Sync + 'static,
{
    fn serve(&self, from: NodeId, kind: CallKind, body: Bytes) -> BoxFuture<'static, Bytes> {
        self.0(from, kind, body)
    }
}

pub fn serving<F>(serve: F) -> Arc<dyn PeerService>
where
    F: Fn(NodeId, CallKind, Bytes) -> BoxFuture<'static, Bytes> + Send + Sync + 'static,
{
    Arc::new(Serving(serve))
}

pub fn echo() -> Arc<dyn PeerService> {
    serving(|_, _, body| async move { body }.boxed())
}

/// Takes requests and never answers; each one is reported.
pub fn silent() -> (Arc<dyn PeerService>, tokio::sync::mpsc::UnboundedReceiver<Bytes>) {
    let (seen, requests) = tokio::sync::mpsc::unbounded_channel();
    let service = serving(move |_, _, body| {
        seen.send(body).expect("the test listens");
        std::future::pending().boxed()
    });
    (service, requests)
}

/// An identity with storage id 1000 + node, in its first boot.
pub fn identity(node: NodeId, cluster: Option<u128>) -> Arc<PeerIdentity> {
    Arc::new(PeerIdentity::new(node, 1000 + u128::from(node), 1, "0.0.0-test", cluster))
}

/// Node `node` of cluster 7, which trusts everybody.
pub fn peering(node: NodeId) -> Peering {
    Peering::new(identity(node, Some(7)), Arc::new(|_: &Hello| Ok(())))
}

/// A listener with its own port.
pub struct Listening {
    pub address: PeerAddress,
    pub peering: Peering,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Listening {
    pub async fn start(node: NodeId, service: Arc<dyn PeerService>) -> Self {
        Self::start_as(node, peering(node), service).await
    }

    pub async fn start_as(node: NodeId, peering: Peering, service: Arc<dyn PeerService>) -> Self {
        Self::start_at("127.0.0.1:0", node, peering, service).await
    }

    pub async fn start_at(addr: &str, node: NodeId, peering: Peering, service: Arc<dyn PeerService>) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let address = PeerAddress { node, addr: listener.local_addr().unwrap().to_string() };
        let (stop, stopped) = oneshot::channel();
        let shutdown = stopped.map(|_| ());
        let task = tokio::spawn(serve(peering.clone(), listener, service, shutdown));
        Self { address, peering, stop, task }
    }

    pub fn socket_addr(&self) -> SocketAddr {
        self.address.addr.parse().unwrap()
    }

    /// Stops it in good order.
    pub async fn stop(self) {
        drop(self.stop);
        tokio::time::timeout(SOON, self.task).await.unwrap().unwrap();
    }

    /// Drops it where it stands, with all its connections.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    pub fn refusals(&self, reason: RefusalReason) -> u64 {
        self.peering.stats().refusals(reason)
    }
}

/// A call on the consensus lane.
pub fn call(
    transport: &TcpTransport,
    to: &PeerAddress,
    body: impl Into<Bytes>,
) -> BoxFuture<'static, Result<Bytes, CallError>> {
    transport.call(to, PeerLane::Consensus, CallKind::Append, body.into(), LONG)
}

/// What node 2 of cluster 7 sends to node 1 when all is well.
pub fn opening() -> Opening {
    Opening { versions: VERSIONS, lane: CONSENSUS, to: 1, connection: 0, hello: identity(2, Some(7)).hello() }
}

/// Sends the bytes of a greeting and reads the reply.
pub async fn greet_raw(to: SocketAddr, bytes: &[u8]) -> (TcpStream, Reply) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let body = read_greeting(&mut stream).await.unwrap();
    (stream, Reply::decode(&body).unwrap())
}

/// An accepted connection to write raw frames to.
pub async fn accepted(to: SocketAddr, opening: &Opening) -> TcpStream {
    let (stream, reply) = greet_raw(to, &opening.encode()).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    stream
}

pub fn request(id: u64, kind: u8, body: impl Into<Bytes>) -> BytesMut {
    let mut out = BytesMut::new();
    frame::encode(&Frame { id, kind, role: FrameRole::Request, body: body.into() }, &mut out);
    out
}

/// Reads one frame.
pub async fn read_frame(stream: &mut TcpStream) -> Frame {
    let mut buf = BytesMut::new();
    loop {
        if let Some(frame) = frame::decode(&mut buf, usize::MAX).unwrap() {
            assert!(buf.is_empty(), "one frame is expected");
            return frame;
        }
        assert_ne!(stream.read_buf(&mut buf).await.unwrap(), 0, "the connection was closed");
    }
}

/// Waits until the other side has closed the connection, whatever it sent before.
pub async fn closed(mut stream: TcpStream) {
    let reading = async { while let Ok(1..) = stream.read(&mut [0; 1024]).await {} };
    tokio::time::timeout(SOON, reading).await.expect("the connection is closed");
}
