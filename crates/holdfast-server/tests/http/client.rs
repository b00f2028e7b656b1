//! A node to talk to, and a client that sends exactly the bytes it is told to.

use holdfast_server::{DevCluster, DevOptions, dev_cluster};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A development cluster for one test.
pub(crate) struct Service {
    pub(crate) cluster: DevCluster,
}

impl Service {
    /// One node, ready.
    pub(crate) async fn start() -> Self {
        Self::start_nodes(1).await
    }

    pub(crate) async fn start_nodes(nodes: u16) -> Self {
        Self::start_with(DevOptions { nodes, ..DevOptions::default() }).await
    }

    /// One node that counts locks by these prefixes.
    pub(crate) async fn start_with_prefixes(prefixes: &str) -> Self {
        let metrics_prefixes = Some(prefixes.into());
        Self::start_with(DevOptions { nodes: 1, metrics_prefixes, ..DevOptions::default() }).await
    }

    async fn start_with(options: DevOptions) -> Self {
        let options = DevOptions { base_port: 0, ..options };
        let cluster = dev_cluster(options).await.unwrap();
        cluster.ready().await.unwrap();
        Self { cluster }
    }

    /// Ends the cluster and removes its folder.
    pub(crate) async fn stop(self) {
        self.cluster.shutdown().await.unwrap();
    }

    /// `HOST:PORT` of the first node.
    pub(crate) fn addr(&self) -> &str {
        addr_of(&self.cluster.urls()[0])
    }

    /// A call with JSON, or without a body.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        call(self.addr(), method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, Some(body)).await
    }

    /// Sends bytes as they are and reads until the service closes the connection.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Reply {
        raw(self.addr(), bytes).await
    }
}

pub(crate) fn addr_of(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

pub(crate) async fn call(addr: &str, method: &str, path: &str, body: Option<Value>) -> Reply {
    raw(addr, request(method, path, body)).await
}

/// A request that asks for the connection to be closed.
pub(crate) fn request(method: &str, path: &str, body: Option<Value>) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    match body.map(|body| body.to_string()) {
        Some(body) => {
            let len = body.len();
            request += &format!("Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}");
        }
        None => request += "\r\n",
    }
    request
}

pub(crate) async fn raw(addr: &str, bytes: impl AsRef<[u8]>) -> Reply {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes.as_ref()).await.unwrap();
    Reply::read(&mut stream).await
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Reads until the service closes the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        Self::parse(&bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    /// The body of a problem with this code, after a look at everything that each problem has.
    #[track_caller]
    pub(crate) fn problem(&self, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], self.status, "{problem}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["type"], format!("urn:holdfast:problem:{code}"));
        assert!(!problem["title"].as_str().unwrap().is_empty());
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"));
        problem
    }

    /// The detail of a problem with this code.
    #[track_caller]
    pub(crate) fn detail(&self, code: &str) -> String {
        self.problem(code)["detail"].as_str().unwrap().to_owned()
    }
}

/// A token that differs from test to test by its last letter.
pub(crate) fn token(letter: char) -> String {
    format!("secret-of-a-test-{letter}")
}

/// The path of a lock with every byte of its name percent-encoded.
pub(crate) fn path_of(name: &str, action: &str) -> String {
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/v1/locks/{encoded}{action}")
}
