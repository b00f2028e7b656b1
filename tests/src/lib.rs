//! The harness: real `holdfast serve` processes, plain HTTP to each of them, faults, and waiting for conditions.
//!
//! The suites in `tests/` see the service as its users do. What a client library would hide (a `503`, a lost
//! connection, an answer that is late) is what they look at, so calls are made with a bare HTTP client.

mod answer;
mod attempt;
mod binary;
mod client;
mod cluster;
mod eventually;
mod node;
mod ports;
mod roamer;
mod signal;
pub mod sim;

pub use crate::answer::{Answer, NoAnswer, Reply};
pub use crate::attempt::{Attempt, new_token};
pub use crate::binary::holdfast;
pub use crate::client::{Client, encode_segment};
pub use crate::cluster::{Cluster, ClusterView, Setup};
pub use crate::eventually::{PATIENCE, eventually, let_pass, median};
pub use crate::node::Node;
pub use crate::ports::{Addresses, LoopbackHost};
pub use crate::roamer::Roamer;
pub use crate::signal::Signal;
