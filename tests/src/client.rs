//! Plain HTTP to one node.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::answer::{Answer, NoAnswer, Reply};
use crate::attempt::Attempt;

/// The service answers within the wait and this, whatever happens.
const OWED_WITHIN: Duration = Duration::from_secs(5);
/// What a busy machine and the way back may add before the service is said to be silent.
const SLACK: Duration = Duration::from_secs(1);

/// Talks to one node. Dropping a call closes its connection.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

impl Client {
    /// A client for `http://HOST:PORT`, with connections of its own.
    pub fn new(url: impl Into<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { url: url.into(), pool: Pool::builder(TokioExecutor::new()).build(connector) }
    }

    /// The node's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `GET` a path.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None, Bytes::new(), Duration::ZERO).await
    }

    /// `POST` JSON to a path, with a request that may wait for `wait`.
    pub async fn post(&self, path: &str, body: &Value, wait: Duration) -> Reply {
        let bytes = Bytes::from(body.to_string());
        self.send(Method::POST, path, Some("application/json"), bytes, wait).await
    }

    /// `DELETE` a path, with JSON.
    pub async fn delete(&self, path: &str, body: &Value) -> Reply {
        let bytes = Bytes::from(body.to_string());
        self.send(Method::DELETE, path, Some("application/json"), bytes, Duration::ZERO).await
    }

    /// Tries to get a lock.
    pub async fn acquire(&self, attempt: &Attempt) -> Reply {
        self.post(&path_of(&attempt.lock, "/acquire"), &attempt.body(), attempt.wait()).await
    }

    /// Renews what an attempt holds, with the TTL in force.
    pub async fn renew(&self, attempt: &Attempt) -> Reply {
        self.on_hold(attempt, "/renew").await
    }

    /// Releases what an attempt holds, or takes it out of the queue.
    pub async fn release(&self, attempt: &Attempt) -> Reply {
        self.on_hold(attempt, "/release").await
    }

    /// Looks at a lock.
    pub async fn lock(&self, name: &str) -> Reply {
        self.get(&path_of(name, "")).await
    }

    async fn on_hold(&self, attempt: &Attempt, action: &str) -> Reply {
        let body = json!({ "token": attempt.token });
        self.post(&path_of(&attempt.lock, action), &body, Duration::ZERO).await
    }

    /// Sends any request, whose body is declared as `content_type`, and which may wait for `wait`.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
        wait: Duration,
    ) -> Reply {
        let begun = Instant::now();
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::new(body)).map_err(|error| NoAnswer::Broken(error.to_string()))?;
        match tokio::time::timeout(wait + OWED_WITHIN + SLACK, self.exchange(request)).await {
            Ok(Ok((status, headers, body))) => Ok(Answer { status, headers, body, took: begun.elapsed() }),
            Ok(Err(why)) => Err(NoAnswer::Broken(why)),
            Err(_) => Err(NoAnswer::Silent(begun.elapsed())),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(u16, HeaderMap, Value), String> {
        let answer = self.pool.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Ok((head.status.as_u16(), head.headers, value))
    }
}

fn path_of(lock: &str, action: &str) -> String {
    format!("/v1/locks/{}{action}", encode_segment(lock))
}

/// Percent-encodes everything that is not plainly a letter or a digit.
pub fn encode_segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut path, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(char::from(byte)),
            _ => write!(path, "%{byte:02X}").expect("a string takes everything"),
        }
        path
    })
}
