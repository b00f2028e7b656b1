//! What readers see of sessions.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::Session;
use crate::ids::SessionId;
use crate::name::{LockName, Owner};
use crate::table::LockTable;
use crate::time::{ClusterTime, Ttl};

/// A session, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its number.
    pub id: SessionId,
    /// Public label.
    pub owner: Owner,
    /// In force.
    pub ttl: Ttl,
    /// What is left of it, in milliseconds.
    pub expires_in_ms: u64,
    /// How many locks it holds.
    pub held: u64,
    /// How many locks it waits for.
    pub waiting: u64,
}

/// A session with what it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDetail {
    /// The session.
    pub session: SessionView,
    /// The locks that it holds, in the order in which its attempts came.
    pub holds: Vec<LockName>,
    /// The locks that it waits for, likewise.
    pub waits: Vec<LockName>,
    /// The event counter that this is true at.
    pub seq: u64,
}

/// One page of sessions, in the order in which they were opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// At most as many as were asked for.
    pub sessions: Vec<SessionView>,
    /// Where the next page begins: after this one. None on the last page.
    pub next: Option<SessionId>,
    /// The event counter that this is true at.
    pub seq: u64,
}

impl LockTable {
    /// A session that lives, and what it keeps.
    ///
    /// `now` is the leader's present cluster time; where it is behind the table's, the table's counts.
    pub fn session(&self, id: SessionId, now: ClusterTime) -> Option<SessionDetail> {
        let session = self.session_view(id, self.sessions.get(id)?, now);
        let contents = self.sessions.contents(id);
        let holds = contents.holds.values().cloned().collect();
        let waits = contents.waits.values().cloned().collect();
        Some(SessionDetail { session, holds, waits, seq: self.seq })
    }

    /// Sessions that live and come after `after`.
    pub fn list_sessions(&self, after: Option<SessionId>, limit: usize, now: ClusterTime) -> SessionPage {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut live = self.sessions.live().range((from, Bound::Unbounded));
        let sessions: Vec<_> =
            live.by_ref().take(limit).map(|(id, session)| self.session_view(*id, session, now)).collect();
        let next = live.next().and_then(|_| sessions.last()).map(|last| last.id);
        SessionPage { sessions, next, seq: self.seq }
    }

    /// How many sessions live.
    pub fn sessions_len(&self) -> u64 {
        self.sessions.live().len() as u64
    }

    fn session_view(&self, id: SessionId, session: &Session, now: ClusterTime) -> SessionView {
        let contents = self.sessions.contents(id);
        SessionView {
            id,
            owner: session.owner.clone(),
            ttl: session.term.ttl,
            expires_in_ms: session.term.left_ms(now.max(self.now)),
            held: contents.holds.len() as u64,
            waiting: contents.waits.len() as u64,
        }
    }
}
