//! Until when sessions live: read off the journal.

use std::collections::BTreeMap;

use holdfast_core::{Answer, Op, SessionId};

use super::expiry_bound::{Lease, begin};
use crate::sim::journal::Entry;

/// Of all sessions that live behind an entry.
#[derive(Debug, Default)]
pub(super) struct Terms(BTreeMap<SessionId, Lease>);

impl Terms {
    pub(super) fn of(&self, session: SessionId) -> Option<&Lease> {
        self.0.get(&session)
    }

    /// Those that are over once this entry's time has come, before any of its operations.
    pub(super) fn over_at(&self, entry: &Entry) -> impl Iterator<Item = (SessionId, &Lease)> {
        let over = self.0.iter().filter(|(_, lease)| lease.deadline_ms <= entry.cluster_ms);
        over.map(|(session, lease)| (*session, lease))
    }

    /// What an entry changes.
    pub(super) fn learn(&mut self, entry: &Entry) {
        self.0.retain(|_, lease| lease.deadline_ms > entry.cluster_ms);
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            match (op, outcome) {
                (Op::OpenSession { .. } | Op::RenewSession(_), Ok(Answer::Session(session))) => {
                    self.0.insert(session.id, begin(entry, session.ttl.ms()));
                }
                (Op::EndSession(session), Ok(_)) => drop(self.0.remove(&session.id)),
                _ => {}
            }
        }
    }
}
