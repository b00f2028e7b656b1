//! Client connections: accepted for as long as the node runs, and brought to an end when it stops.

mod acceptor;
mod descriptors;

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
use crate::socket::{ConnectionState, Socket};

/// A connection on which no request is in flight for this long, and at most for twice as long, is cut: whether it is
/// idle or the head of a request comes too slowly.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
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
    let connections_max = descriptors::for_clients();
    loop {
        tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => break,
            Some(ended) = connections.join_next() => note_end(ended),
            stream = acceptor.next(), if connections.len() < connections_max => {
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
    // Its own limit for heads would cost a timer for each request.
    server.http1().header_read_timeout(None);
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
    let state = Arc::new(ConnectionState::default());
    let answer = service_fn(|request| {
        let (service, state) = (service.clone(), state.clone());
        async move { Ok::<_, Infallible>(service.answer(request, &state).await) }
    });
    serve(&server, stream, &state, answer, &mut stop).await;
    state.linger().await;
}

/// Lets hyper work until the connection ends, has been idle for too long, or the node stops.
async fn serve<S>(
    server: &Builder<TokioExecutor>,
    stream: TcpStream,
    state: &Arc<ConnectionState>,
    answer: S,
    stop: &mut watch::Receiver<bool>,
) where
    S: hyper::service::Service<Request<Incoming>, Response = Answer, Error = Infallible>,
    S::Future: Send + 'static,
{
    let socket = TokioIo::new(Socket::new(stream, state.clone()));
    let mut connection = pin!(server.serve_connection(socket, answer));
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = told_to_stop(stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = idle(state) => Ok(()), // It is cut by being dropped.
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Resolves when from one look to the next no request was in flight.
async fn idle(state: &ConnectionState) {
    let mut seen = state.activity();
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        if state.activity() == seen && !state.is_busy() {
            return;
        }
        seen = state.activity();
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn idle_after(state: &ConnectionState, patience: Duration) -> bool {
        tokio::time::timeout(patience, idle(state)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_idle_after_its_time() {
        let state = ConnectionState::default();
        assert!(!idle_after(&state, IDLE_TIMEOUT - Duration::from_secs(1)).await);
        assert!(idle_after(&state, IDLE_TIMEOUT + Duration::from_secs(1)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_waits_for_a_lock_is_never_idle() {
        let state = Arc::new(ConnectionState::default());
        let request = state.begin();
        assert!(!idle_after(&state, IDLE_TIMEOUT * 10).await);
        // It is answered right before the next look: that is no idle time yet.
        let (idle, patience) = (idle_after(&state, IDLE_TIMEOUT + Duration::from_secs(1)), IDLE_TIMEOUT / 2);
        let (is_idle, ()) = tokio::join!(idle, async {
            tokio::time::sleep(patience).await;
            drop(request);
        });
        assert!(!is_idle);
        assert!(idle_after(&state, IDLE_TIMEOUT + Duration::from_secs(1)).await);
    }
}
