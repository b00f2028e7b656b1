//! Whole replicas in one thread, under a seeded scheduler, with a simulated network, disk and clock.
//!
//! The code that runs is the product's own: everything that `holdfast_replica::world` asks of the world is handed in
//! from here. The same seed gives the same run, event by event.

mod checks;
mod clients;
mod cluster;
mod disk;
mod executor;
mod faults;
mod network;
mod runtime;

pub use self::checks::{Report, Violation};
pub use self::cluster::{Profile, simulate};
