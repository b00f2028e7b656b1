//! One kept-alive HTTP/1.1 connection.

use std::fmt::Display;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::target::TargetError;

/// Dropping it closes the connection, also with a request on its way.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    /// The one task that moves bytes; it ends with the connection.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Connects to `HOST:PORT`.
    pub(crate) async fn open(address: &str) -> Result<Self, TargetError> {
        let unreachable = |why: String| TargetError::Unreachable { address: address.into(), why };
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(error.to_string()))?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Whoever has a request on its way is told by the sender.
            let _ = connection.await;
        });
        let host = HeaderValue::from_str(address).map_err(|error| unreachable(error.to_string()))?;
        Ok(Self { sender, host, _driver: driver })
    }

    /// Sends a GET and reads the answer, which must be a success.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes, TargetError> {
        self.exchange(Method::GET, path, Bytes::new()).await
    }

    /// Sends a POST of JSON and reads the answer, which must be a success.
    pub(crate) async fn post(&mut self, path: &str, body: Vec<u8>) -> Result<Bytes, TargetError> {
        self.exchange(Method::POST, path, body.into()).await
    }

    async fn exchange(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes, TargetError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))
            .expect("paths of the API are valid");
        self.sender.ready().await.map_err(broken)?;
        let answer = self.sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(broken)?.to_bytes();
        if status == StatusCode::OK {
            Ok(body)
        } else {
            Err(TargetError::Refused(format!("{status}: {}", String::from_utf8_lossy(&body).trim_end())))
        }
    }
}

fn broken(error: impl Display) -> TargetError {
    TargetError::Broken(error.to_string())
}
