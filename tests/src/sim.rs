//! Whole replicas in one thread, under a seeded scheduler, with a simulated network, disk and clock.
//!
//! The code that runs is the product's own: everything that `holdfast_replica::world` asks of the world is handed in
//! from here. The same plan gives the same run, byte for byte of its trace.

mod clients;
mod cluster;
#[cfg(test)]
mod directed;
mod disk;
mod executor;
mod faults;
mod habit;
mod holding;
mod invariants;
mod journal;
mod lines;
mod moments;
mod network;
mod plan;
mod run;
mod runtime;
mod shrink;
mod sights;
pub mod sometimes;
#[cfg(test)]
mod stage;
mod watchers;

pub use self::executor::Trace;
pub use self::invariants::Violation;
pub use self::plan::{Plan, Profile, Reduction, Step};
pub use self::run::{Extent, Report, simulate};
pub use self::shrink::{Shrunk, shrink};

/// Plants the bug of this name in the runs of this thread. False if there is none.
#[cfg(feature = "planted-bugs")]
pub fn plant(name: &str) -> bool {
    use holdfast_core::planted::Bug;

    let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    holdfast_core::planted::plant(bug);
    bug.is_some()
}

/// No bug can be planted in this build.
#[cfg(not(feature = "planted-bugs"))]
pub fn plant(_: &str) -> bool {
    false
}
