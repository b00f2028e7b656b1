//! Which sessions there are, and what each of them keeps.

use std::collections::BTreeMap;

use imbl::OrdMap;

use super::{EndedSession, Session};
use crate::ending::Remembered;
use crate::ids::{SessionId, SessionKey};
use crate::lock::{Lock, Ticket};
use crate::name::LockName;
use crate::time::ClusterTime;

/// What one session keeps: each attempt with its lock. Derived: not part of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) holds: BTreeMap<Ticket, LockName>,
    pub(crate) waits: BTreeMap<Ticket, LockName>,
}

/// All sessions that live or are remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    live: OrdMap<SessionId, Session>,
    ended: Remembered<SessionId, EndedSession>,
    /// The last session that each token has opened. Derived.
    by_key: BTreeMap<SessionKey, SessionId>,
    /// Derived.
    contents: BTreeMap<SessionId, Contents>,
}

impl Sessions {
    pub(crate) fn open(&mut self, id: SessionId, session: Session) {
        self.by_key.insert(session.key, id);
        self.contents.insert(id, Contents::default());
        self.live.insert(id, session);
    }

    /// The session that this token has opened, whether it lives or is remembered.
    pub(crate) fn id_of(&self, key: &SessionKey, now: ClusterTime) -> Option<SessionId> {
        let is_known = |id: &SessionId| self.live.contains_key(id) || self.ended.get(id, now).is_some();
        self.by_key.get(key).copied().filter(is_known)
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.live.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.live.get_mut(&id)
    }

    pub(crate) fn ended(&self, id: SessionId, now: ClusterTime) -> Option<&EndedSession> {
        self.ended.get(&id, now)
    }

    pub(crate) fn take(&mut self, id: SessionId) -> Option<(Session, Contents)> {
        let session = self.live.remove(&id)?;
        Some((session, self.contents.remove(&id).unwrap_or_default()))
    }

    pub(crate) fn remember(&mut self, id: SessionId, ended: EndedSession) {
        self.ended.remember(id, ended);
    }

    pub(crate) fn forget_old(&mut self, now: ClusterTime) {
        let by_key = &mut self.by_key;
        self.ended.forget_old(now, |id, ended| {
            // Its token may have opened another one meanwhile.
            if by_key.get(&ended.key) == Some(&id) {
                by_key.remove(&ended.key);
            }
        });
    }

    pub(crate) fn add_hold(&mut self, session: Option<SessionId>, ticket: Ticket, lock: &LockName) {
        if let Some(contents) = self.contents_of(session) {
            contents.holds.insert(ticket, lock.clone());
        }
    }

    pub(crate) fn add_wait(&mut self, session: Option<SessionId>, ticket: Ticket, lock: &LockName) {
        if let Some(contents) = self.contents_of(session) {
            contents.waits.insert(ticket, lock.clone());
        }
    }

    /// The attempt holds or waits no more.
    pub(crate) fn remove(&mut self, session: Option<SessionId>, ticket: Ticket) {
        if let Some(contents) = self.contents_of(session) {
            contents.holds.remove(&ticket);
            contents.waits.remove(&ticket);
        }
    }

    fn contents_of(&mut self, session: Option<SessionId>) -> Option<&mut Contents> {
        self.contents.get_mut(&session?)
    }

    /// What a session that lives keeps.
    pub(crate) fn contents(&self, id: SessionId) -> &Contents {
        self.contents.get(&id).expect("every session that lives has some, if only nothing")
    }

    /// How many attempts it keeps.
    pub(crate) fn len_of(&self, id: SessionId) -> usize {
        self.contents.get(&id).map_or(0, |contents| contents.holds.len() + contents.waits.len())
    }

    pub(crate) fn live(&self) -> &OrdMap<SessionId, Session> {
        &self.live
    }

    pub(crate) fn ended_map(&self) -> &OrdMap<SessionId, EndedSession> {
        self.ended.map()
    }

    /// Without what they keep, which [`Self::restore_contents`] brings.
    pub(crate) fn restore(live: OrdMap<SessionId, Session>, ended: OrdMap<SessionId, EndedSession>) -> Self {
        let ended_keys = ended.iter().map(|(id, ended)| (ended.key, *id));
        let live_keys = live.iter().map(|(id, session)| (session.key, *id));
        let by_key = ended_keys.chain(live_keys).collect();
        let contents = live.keys().map(|id| (*id, Contents::default())).collect();
        Self { live, ended: Remembered::restore(ended), by_key, contents }
    }

    /// Takes what a lock tells of the sessions. False if it tells of one that does not live, or of the same attempt twice.
    pub(crate) fn restore_contents(&mut self, name: &LockName, lock: &Lock) -> bool {
        let holds = lock.holders.iter().map(|hold| (hold.lease.session(), hold.ticket, true));
        let waits = lock.waiters().map(|waiter| (waiter.asked.session(), waiter.ticket, false));
        holds.chain(waits).all(|(session, ticket, is_hold)| {
            let Some(session) = session else { return true };
            let Some(contents) = self.contents.get_mut(&session) else { return false };
            let is_known = contents.holds.contains_key(&ticket) || contents.waits.contains_key(&ticket);
            let list = if is_hold { &mut contents.holds } else { &mut contents.waits };
            list.insert(ticket, name.clone());
            !is_known
        })
    }
}
