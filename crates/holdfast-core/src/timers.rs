//! When something is due.

use std::collections::BTreeMap;

use crate::lock::Ticket;
use crate::name::LockName;
use crate::time::ClusterTime;

/// Deadlines of leases and waits, in order of (deadline, ticket). Derived: not part of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeMap<(ClusterTime, Ticket), LockName>);

impl Timers {
    pub(crate) fn set(&mut self, at: ClusterTime, ticket: Ticket, lock: &LockName) {
        self.0.insert((at, ticket), lock.clone());
    }

    pub(crate) fn clear(&mut self, at: ClusterTime, ticket: Ticket) {
        self.0.remove(&(at, ticket));
    }

    pub(crate) fn next_due(&self) -> Option<ClusterTime> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first deadline that `now` has reached.
    pub(crate) fn pop_due(&mut self, now: ClusterTime) -> Option<(Ticket, LockName)> {
        let entry = self.0.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let ((_, ticket), lock) = entry.remove_entry();
        Some((ticket, lock))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
