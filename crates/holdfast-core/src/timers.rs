//! When something is due.

use std::collections::BTreeMap;

use crate::ids::SessionId;
use crate::lock::Ticket;
use crate::name::LockName;
use crate::time::ClusterTime;

/// Deadlines of leases, waits and sessions, in order of (deadline, ticket). Derived: not part of a snapshot.
///
/// Each has its lock's name; a session, whose id comes out of the same counter as the tickets, has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeMap<(ClusterTime, Ticket), Option<LockName>>);

/// What is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Attempt(Ticket, LockName),
    Session(SessionId),
}

impl Timers {
    pub(crate) fn set(&mut self, at: ClusterTime, ticket: Ticket, lock: &LockName) {
        self.0.insert((at, ticket), Some(lock.clone()));
    }

    pub(crate) fn clear(&mut self, at: ClusterTime, ticket: Ticket) {
        self.0.remove(&(at, ticket));
    }

    pub(crate) fn set_session(&mut self, at: ClusterTime, session: SessionId) {
        self.0.insert((at, Ticket(session.0)), None);
    }

    pub(crate) fn clear_session(&mut self, at: ClusterTime, session: SessionId) {
        self.clear(at, Ticket(session.0));
    }

    pub(crate) fn next_due(&self) -> Option<ClusterTime> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first deadline that `now` has reached.
    pub(crate) fn pop_due(&mut self, now: ClusterTime) -> Option<Due> {
        let entry = self.0.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let ((_, ticket), lock) = entry.remove_entry();
        Some(match lock {
            Some(lock) => Due::Attempt(ticket, lock),
            None => Due::Session(SessionId(ticket.0)),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
