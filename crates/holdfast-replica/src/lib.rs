//! One member of a cluster: consensus, storage, peers, proposals, waiting, reads.
//!
//! Its face is [`replica::Replica`], which speaks the language of the rules. [`node::open`] starts one in the real
//! world; whoever hands in another [`world`] runs the same code in a simulation.

#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an adapter to the real world")]
pub mod disk;
pub mod events;
pub mod groups;
pub mod handle;
pub mod histogram;
pub mod identity;
pub mod lock_counters;
pub mod log;
pub mod members;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an adapter to the real world")]
pub mod node;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an adapter to the real world")]
pub mod node_store;
pub mod open;
pub mod past;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an adapter to the real world")]
pub mod peers;
pub mod replica;
pub mod snapshot_files;
pub mod world;

mod attempts;
mod chores;
mod claims;
mod consensus;
mod effects;
mod handover;
mod leadership;
mod proposals;
mod reads;
mod service;
mod space;
mod status;
mod tasks;
mod waiters;
mod watch;
mod wire;
