//! The network between the nodes: TCP, a greeting, and frames that many calls share.
//!
//! [`TcpTransport`] is the calling side, [`serve`] the answering side. Both belong to a [`Peering`], which holds
//! what the node says of itself, whom it trusts, and what it has counted. The bytes on the wire are described in
//! `docs/peer-protocol.md`.
//!
//! This is an adapter: it uses tokio's sockets, clock and tasks directly, and nothing else of the replica does.

pub mod frame;
pub mod handshake;
pub mod limits;

mod address_book;
mod backoff;
mod dial;
mod driver;
mod identity;
mod link;
mod listener;
mod peering;
mod reception;
mod refusal;
mod seats;
mod session;
mod stats;
mod stream;
mod throttle;
mod transport;
mod wire;

pub use address_book::AddressBook;
pub use identity::{Hello, OtherClusterFormed, PeerIdentity};
pub use listener::serve;
pub use peering::Peering;
pub use refusal::{PeerDirectory, Refusal, RefusalReason};
pub use stats::{Counter, LaneStats, PeerStats};
pub use transport::TcpTransport;
