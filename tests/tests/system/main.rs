//! What the service promises, shown on real processes.

mod failover;
mod leader_change;
mod restart;
