//! openraft, and what it needs from us: types, log, state machine, network.
//!
//! Nothing outside this folder and [`crate::world`] names it.

pub(crate) mod codec;
pub(crate) mod config;
pub(crate) mod log_store;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod snapshots;
#[cfg(test)]
mod suite;
pub(crate) mod types;

pub(crate) use types::{Raft, Types};
