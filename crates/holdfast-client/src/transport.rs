//! One HTTP request and its answer, in bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming as Body;
use hyper::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Longest answer that is read, in bytes: a full page of locks with full queues fits in.
const ANSWER_LEN_MAX: usize = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const IDLE_MAX: Duration = Duration::from_secs(20);
const IDLE_CONNECTIONS_MAX: usize = 8;
/// A peer that is gone without a word is noticed after about this long, also in the middle of a long wait.
const DEAD_PEER_AFTER: Duration = Duration::from_secs(5);

/// What to send, wherever it is sent to.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    /// Path and query, encoded.
    pub(crate) path: String,
    /// JSON.
    pub(crate) body: Bytes,
}

impl Outgoing {
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: Bytes::new() }
    }

    pub(crate) fn post(path: String, body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("requests of the API have string keys only").into();
        Self { method: Method::POST, path, body }
    }

    pub(crate) fn delete(path: String, body: &impl serde::Serialize) -> Self {
        Self { method: Method::DELETE, ..Self::post(path, body) }
    }
}

/// What came back, whatever it is.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// Nothing came back, or not all of it.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    /// False if the request cannot have reached the service.
    pub(crate) may_have_happened: bool,
    pub(crate) why: String,
}

impl NoAnswer {
    fn on_the_way(why: impl Into<String>) -> Self {
        Self { may_have_happened: true, why: why.into() }
    }
}

/// A pool of kept-alive connections. Dropping a request in flight closes its connection, which tells the service.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    http: Client<HttpConnector, Full<Bytes>>,
}

impl Transport {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(DEAD_PEER_AFTER / 2));
        connector.set_keepalive_interval(Some(DEAD_PEER_AFTER / 4));
        connector.set_keepalive_retries(Some(2));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(DEAD_PEER_AFTER));
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Self { http }
    }

    /// Sends a request and reads the whole answer within a span of time.
    pub(crate) async fn exchange(
        &self,
        url: Uri,
        outgoing: &Outgoing,
        within: Duration,
    ) -> Result<Incoming, NoAnswer> {
        match tokio::time::timeout(within, self.send(url, outgoing)).await {
            Ok(result) => result,
            Err(_) => Err(NoAnswer::on_the_way(format!("no answer within {} ms", within.as_millis()))),
        }
    }

    /// Sends a request whose answer is a stream: gives that, or the whole answer where the status is not 200.
    pub(crate) async fn open(
        &self,
        url: Uri,
        outgoing: &Outgoing,
        within: Duration,
    ) -> Result<Result<Streaming, Incoming>, NoAnswer> {
        let opened = async {
            let answer = self.head(url, outgoing).await?;
            match answer.status().as_u16() {
                200 => Ok(Ok(Streaming(answer.into_body()))),
                _ => read(answer).await.map(Err),
            }
        };
        tokio::time::timeout(within, opened).await.unwrap_or_else(|_| {
            Err(NoAnswer::on_the_way(format!("no answer within {} ms", within.as_millis())))
        })
    }

    async fn send(&self, url: Uri, outgoing: &Outgoing) -> Result<Incoming, NoAnswer> {
        read(self.head(url, outgoing).await?).await
    }

    async fn head(&self, url: Uri, outgoing: &Outgoing) -> Result<Response<Body>, NoAnswer> {
        let answer = self.http.request(request(url, outgoing)).await;
        answer.map_err(|error| NoAnswer { may_have_happened: !error.is_connect(), why: with_causes(&error) })
    }
}

async fn read(answer: Response<Body>) -> Result<Incoming, NoAnswer> {
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| NoAnswer::on_the_way(with_causes(&*error)))?.to_bytes();
    Ok(Incoming { status, body })
}

/// An answer that goes on.
#[derive(Debug)]
pub(crate) struct Streaming(Body);

impl Streaming {
    /// The next piece; none once the stream has ended, broken, or been silent for so long.
    pub(crate) async fn piece(&mut self, silence_max: Duration) -> Option<Bytes> {
        loop {
            let frame = tokio::time::timeout(silence_max, self.0.frame()).await.ok()??.ok()?;
            if let Ok(piece) = frame.into_data() {
                return Some(piece);
            }
        }
    }
}

fn request(url: Uri, outgoing: &Outgoing) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(outgoing.method.clone())
        .uri(url)
        .header(USER_AGENT, concat!("holdfast-client/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "application/json");
    if outgoing.method != Method::GET {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    request.body(Full::new(outgoing.body.clone())).expect("method, URL and headers are valid")
}

/// An error and what caused it, on one line: the outermost text alone seldom says what happened.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
