//! What the service promises, shown on real processes.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod damage;
mod disk_full;
mod durability;
mod elections;
mod failover;
mod fences;
mod holders;
mod input;
mod leader_change;
mod leases;
mod many;
mod members;
mod metrics;
mod observed;
mod peer_port;
mod program;
mod prometheus;
mod queue_order;
mod quorum;
mod raw_http;
mod restart;
mod secrets;
mod sessions;
mod sharing;
mod snapshots;
mod steering;
mod strace;
mod terms;
mod waiters_gone;
mod waiting;
mod watching;
