//! Client connections: accepted for as long as the node runs, and brought to an end when it stops.

mod acceptor;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::acceptor::Acceptor;
use crate::http::{Answer, Service};
use crate::socket::{Remains, Socket};

/// Longest time for the head of a request to arrive, and for a connection to stay without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams of one HTTP/2 connection: a client must be able to release while many of its attempts wait.
const HTTP2_STREAMS_MAX: u32 = 10_000;
/// Longest time that requests in flight get when the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// A client whose machine has gone without a word is found out after 10 + 3 * 5 seconds.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Serves clients until `stop` turns true; then requests in flight are brought to an end.
pub(crate) async fn run(listener: TcpListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let server = Arc::new(server());
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::new(listener);
    loop {
        tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => break,
            Some(ended) = connections.join_next() => note_end(ended),
            stream = acceptor.next() => {
                prepare(&stream);
                connections.spawn(connection(server.clone(), stream, service.clone(), stop.clone()));
            }
        }
    }
    drop(acceptor);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            note_end(ended);
        }
    };
    if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        tracing::warn!(connections = connections.len(), "cutting connections that did not come to an end");
    }
}

/// Resolves when the node is told to stop, or when nobody is left who could tell.
pub(crate) async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn server() -> Builder<TokioExecutor> {
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_TIME)
        .max_concurrent_streams(HTTP2_STREAMS_MAX);
    server
}

fn note_end(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ran into a bug");
    }
}

async fn connection(
    server: Arc<Builder<TokioExecutor>>,
    stream: TcpStream,
    service: Arc<Service>,
    mut stop: watch::Receiver<bool>,
) {
    let _counted = service.connected();
    if !speaks_up(&stream, &mut stop).await {
        return;
    }
    let remains = Arc::new(Remains::default());
    let answer = service_fn(|request| {
        let (service, remains) = (service.clone(), remains.clone());
        async move { Ok::<_, Infallible>(service.answer(request, &remains).await) }
    });
    serve(&server, Socket::new(stream, remains.clone()), answer, &mut stop).await;
    remains.linger().await;
}

/// Whether the client sends something before its time is up and before the node stops. Hyper's own limit begins with the
/// first byte.
async fn speaks_up(stream: &TcpStream, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        first = tokio::time::timeout(HEAD_TIMEOUT, stream.readable()) => matches!(first, Ok(Ok(()))),
        () = told_to_stop(stop) => false,
    }
}

/// Lets hyper work until the connection ends or the node stops.
async fn serve<S>(
    server: &Builder<TokioExecutor>,
    socket: Socket,
    answer: S,
    stop: &mut watch::Receiver<bool>,
) where
    S: hyper::service::Service<Request<Incoming>, Response = Answer, Error = Infallible>,
    S::Future: Send + 'static,
{
    let mut connection = pin!(server.serve_connection(TokioIo::new(socket), answer));
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = told_to_stop(stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    let prepared =
        stream.set_nodelay(true).and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection goes without its socket options");
    }
}
