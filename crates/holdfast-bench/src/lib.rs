//! The load generator: closed loops against Holdfast, or against anything else that locks.
//!
//! A [`Target`] is a system under test, and a [`LockClient`] one client of it with a connection of its own.
//! [`measure`] runs one [`Plan`] once: every client sends its next request when the last one was answered, so that
//! the load is what the system can bear, and its latencies are those under that load. A [`Report`] holds the
//! repetitions of a plan and speaks of their medians. [`memory`] fills a system with locks and weighs them.

pub mod holdfast;
mod latency;
mod measure;
pub mod memory;
mod plan;
mod report;
mod session;
mod tally;
mod target;

pub use latency::Latency;
pub use measure::{MeasureError, Progress, measure};
pub use plan::{Plan, Workload};
pub use report::{Measurement, Report, table};
pub use target::{LockClient, Placement, Settings, Target, TargetError};
