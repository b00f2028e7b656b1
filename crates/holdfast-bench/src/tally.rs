//! What all clients of one measurement have done so far.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::latency::{Latencies, Latency};
use crate::target::TargetError;

/// Where a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    WarmUp,
    Measured,
    /// Clients finish what they are at.
    Over,
}

/// Shared by all clients of one measurement.
#[derive(Debug)]
pub(crate) struct Tally {
    phase: AtomicU8,
    operations: AtomicU64,
    failures: AtomicU64,
    first_failure: Mutex<Option<TargetError>>,
    acquired: Mutex<Latencies>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::WarmUp as u8),
            operations: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            acquired: Mutex::new(Latencies::new()),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is(Phase::Over)
    }

    /// One operation is done. It counts if it was done while it was measured.
    pub(crate) fn done(&self) {
        if self.is(Phase::Measured) {
            self.operations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One lock was acquired.
    pub(crate) fn acquired(&self, after: Duration) {
        if self.is(Phase::Measured) {
            self.acquired.lock().expect("nothing panics while it holds this").record(after);
        }
    }

    /// A request came to nothing. That counts at all times: a warm-up must not fail either.
    pub(crate) fn failed(&self, error: TargetError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.first_failure.lock().expect("nothing panics while it holds this").get_or_insert(error);
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn first_failure(&self) -> Option<TargetError> {
        self.first_failure.lock().expect("nothing panics while it holds this").clone()
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        self.acquired.lock().expect("nothing panics while it holds this").summary()
    }
}
