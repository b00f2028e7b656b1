//! One connection of one client to one node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// As it stands in the history.
    pub(super) url: Arc<str>,
    /// `HOST:PORT`.
    address: Arc<str>,
}

impl Endpoint {
    /// `http://HOST:PORT`, and no more.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let url = text.trim().trim_end_matches('/');
        let address = url.strip_prefix("http://").filter(|address| !address.contains('/'));
        let address =
            address.filter(|address| address.rsplit_once(':').is_some_and(|(host, _)| !host.is_empty()));
        let error = || format!("--endpoints: `{text}` is not of the form http://HOST:PORT");
        Ok(Self { url: url.into(), address: address.ok_or_else(error)?.into() })
    }
}

/// Dropping it closes the connection, also with a request on its way.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: Arc<str>,
    /// The one task that moves bytes; it ends with the connection.
    _driver: JoinSet<()>,
}

/// Status and body.
pub(super) type Answered = (u16, Bytes);

impl Connection {
    /// None if the node cannot be reached.
    pub(super) async fn open(to: &Endpoint) -> Option<Self> {
        let connect = TcpStream::connect(&*to.address);
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connect).await.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Whoever has a request on its way is told by the sender.
            let _ = connection.await;
        });
        Some(Self { sender, host: to.address.clone(), _driver: driver })
    }

    /// Whether a request can be sent.
    pub(super) async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request and reads all of the answer. After an error nobody knows what came of it.
    pub(super) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answered, String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &*self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))
            .map_err(|error| error.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok((status, body.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        assert_eq!(&*Endpoint::parse("http://10.0.0.1:7101/").unwrap().address, "10.0.0.1:7101");
        for text in ["10.0.0.1:7101", "https://a:1", "http://a", "http://a:1/locks", ""] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}
