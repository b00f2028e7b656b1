//! Opens a connection to a peer: TCP, then the greeting, then a look at who answered.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::handshake::{GreetingError, Opening, Reply, VERSIONS, read_greeting};
use super::identity::Hello;
use super::limits::{CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT};
use super::link::Link;
use super::refusal::{Refusal, RefusalReason};
use super::stream::set_options;
use super::wire::lane_number;

/// An accepted connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// What this node said of itself.
    pub(super) ours: Hello,
    /// What the peer said of itself.
    pub(super) theirs: Hello,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("no connection within {CONNECT_TIMEOUT:?}")]
    ConnectTimeout,
    #[error("{0}")]
    Io(io::Error),
    #[error("no greeting within {HANDSHAKE_TIMEOUT:?}")]
    GreetingTimeout,
    #[error("{0}")]
    Greeting(GreetingError),
    /// The peer would not have this node.
    #[error("the peer refused: {}: {text}", RefusalReason::from_number(*.code).map_or("unknown", RefusalReason::name))]
    Refused { code: u8, text: String },
    /// This node would not have the peer.
    #[error("{0}")]
    Rejected(Refusal),
}

impl DialError {
    /// Whether this is what a peer looks like whose process is gone.
    pub(super) fn is_sign_of_death(&self) -> bool {
        let Self::Io(error) = self else { return false };
        matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
    }
}

/// Opens a connection for the link.
pub(super) async fn dial(link: &Link) -> Result<Connection, DialError> {
    let connecting = TcpStream::connect(&link.to.addr);
    let stream = timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| DialError::ConnectTimeout)?;
    let stream = stream.map_err(DialError::Io)?;
    set_options(&stream, link.lane).map_err(DialError::Io)?;
    timeout(HANDSHAKE_TIMEOUT, greet(link, stream)).await.map_err(|_| DialError::GreetingTimeout)?
}

async fn greet(link: &Link, mut stream: TcpStream) -> Result<Connection, DialError> {
    let identity = &link.peering.identity;
    let opening = Opening {
        versions: VERSIONS,
        lane: lane_number(link.lane),
        to: link.to.node,
        connection: identity.next_connection(),
        hello: identity.hello(),
    };
    stream.write_all(&opening.encode()).await.map_err(DialError::Io)?;
    let body = read_greeting(&mut stream).await.map_err(DialError::Greeting)?;
    match Reply::decode(&body).map_err(DialError::Greeting)? {
        Reply::Refused { code, text } => Err(DialError::Refused { code, text }),
        Reply::Accepted { version, hello: theirs } => {
            let ours = opening.hello;
            examine(link, version, &ours, &theirs).map_err(DialError::Rejected)?;
            Ok(Connection { stream, ours, theirs })
        }
    }
}

/// The listener has checked this node; a wiped or wrong peer that accepts anybody is found here.
fn examine(link: &Link, version: u16, ours: &Hello, theirs: &Hello) -> Result<(), Refusal> {
    if !VERSIONS.contains(&version) {
        let text = format!("the peer chose version {version}, this node speaks {VERSIONS:?}");
        return Err(Refusal::new(RefusalReason::Version, text));
    }
    if theirs.node != link.to.node {
        let text = format!("node {} answers where node {} was expected", theirs.node, link.to.node);
        return Err(Refusal::new(RefusalReason::OtherNode, text));
    }
    link.peering.admit(ours, theirs)
}
