//! What must hold of every run: one file for each, with a bad history of its own that it must find.

mod agreed;
pub(super) mod asked;
mod deadlocks;
mod elections;
pub(super) mod events;
mod expiry_bound;
mod forced;
mod gone_waiters;
mod grants;
mod healing;
mod many;
mod outcomes;
mod presence;
mod queue_order;
mod replicas_equal;
#[cfg(test)]
mod sample;
mod sessions;
pub(super) mod shares;
mod terms;
mod told;

use std::fmt;

use super::executor::Nanos;
use super::journal::Journal;
use super::lines::Line;
use super::run::Probe;
use super::watchers::Watching;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What should have held.
    pub invariant: &'static str,
    /// What contradicts it.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Everything that is wrong with a run, what clients can see first.
pub(crate) fn check(
    journal: &Journal,
    lines: &[Line],
    probes: &[Probe],
    doubled: &[Nanos],
    (watchers, last): (&[Watching], u64),
) -> Vec<Violation> {
    let mut violations = told::check(lines, doubled);
    violations.extend(events::check(journal, watchers, last));
    violations.extend(outcomes::check(journal, lines, doubled));
    violations.extend(grants::check(journal));
    violations.extend(expiry_bound::check(journal));
    violations.extend(queue_order::check(journal));
    violations.extend(sessions::check(journal));
    violations.extend(many::check(journal));
    violations.extend(elections::check(journal));
    violations.extend(deadlocks::check(journal));
    violations.extend(agreed::check(journal));
    violations.extend(forced::check(journal, lines));
    violations.extend(gone_waiters::check(journal, probes));
    violations.extend(healing::check(probes));
    violations.extend(replicas_equal::check(journal));
    violations
}
