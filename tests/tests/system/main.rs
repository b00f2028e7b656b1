//! What the service promises, shown on real processes.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod failover;
mod leader_change;
mod observed;
mod queue_order;
mod restart;
mod waiters_gone;
mod waiting;
