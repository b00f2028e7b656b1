//! Sessions: one lease for everything that a client holds, and for its places in queues.
//!
//! A hold of a session has no deadline of its own. When the session is over or is ended, everything that it waits for
//! and holds goes in the same entry, before anybody else gets any of it.

mod registry;
mod view;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) use self::registry::Sessions;
pub use self::view::{SessionDetail, SessionPage, SessionView};
use crate::command::{Acquire, SessionRef};
use crate::ending::{Cause, Dated};
use crate::ids::{SessionId, SessionKey};
use crate::lease::{Asked, Lease, Term};
use crate::lock::Hold;
use crate::name::Owner;
use crate::outcome::{Answer, Grant, Outcome, Rejection, SessionGrant};
use crate::planted::{Bug, planted};
use crate::share::Share;
use crate::table::LockTable;
use crate::time::{ClusterTime, Ttl};

/// Most locks that one session can hold and wait for, so that one entry can end them all.
pub const SESSION_LEN_MAX: usize = 10_000;

/// A session that lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) key: SessionKey,
    pub(crate) owner: Owner,
    pub(crate) term: Term,
}

/// What is remembered of a session that lives no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedSession {
    pub(crate) key: SessionKey,
    pub(crate) cause: Cause,
    /// How many locks it held.
    pub(crate) released: u64,
    pub(crate) at: ClusterTime,
}

impl Dated for EndedSession {
    fn at(&self) -> ClusterTime {
        self.at
    }
}

impl LockTable {
    /// The same session again for the same key, its span set to the TTL again.
    pub(crate) fn open_session(&mut self, key: SessionKey, owner: &Owner, ttl: Ttl) -> Outcome {
        let Some(id) = self.sessions.id_of(&key, self.now) else {
            let id = SessionId(self.next_ticket().0);
            let session = Session { key, owner: owner.clone(), term: Term::begin(self.now, ttl) };
            self.timers.set_session(session.term.deadline, id);
            self.sessions.open(id, session);
            return Ok(self.session_answer(id));
        };
        let session = self.sessions.get(id).ok_or(Rejection::SessionExpired)?;
        if session.owner != *owner || session.term.ttl != ttl {
            return Err(Rejection::TokenConflict);
        }
        self.renew_session(&SessionRef { id, key })
    }

    pub(crate) fn renew_session(&mut self, session: &SessionRef) -> Outcome {
        self.check_session(session)?;
        let now = self.now;
        let term = &mut self.sessions.get_mut(session.id).expect("it was checked").term;
        let former = std::mem::replace(term, term.renewed(now, None));
        let deadline = term.deadline;
        self.timers.clear_session(former.deadline, session.id);
        self.timers.set_session(deadline, session.id);
        Ok(self.session_answer(session.id))
    }

    /// Ending a session again that was ended is a success, and tells the same.
    pub(crate) fn end_session(&mut self, session: &SessionRef) -> Outcome {
        match (self.check_session(session), self.sessions.ended(session.id, self.now)) {
            (Err(Rejection::SessionExpired), Some(ended)) if ended.cause == Cause::SessionEnded => {
                Ok(Answer::SessionEnded { released: ended.released })
            }
            (checked, _) => {
                checked?;
                Ok(Answer::SessionEnded { released: self.close_session(session.id, Cause::SessionEnded) })
            }
        }
    }

    /// Ends everything that a session waits for and holds, and only then lets others in. How many locks it held.
    pub(crate) fn close_session(&mut self, id: SessionId, cause: Cause) -> u64 {
        let ended_before =
            if planted(Bug::SessionEndLetsItselfIn) { self.end_holds_first(id, cause) } else { 0 };
        if planted(Bug::SessionEndFreesHalf) {
            let ttl = self.sessions.get(id).expect("only a session that lives is closed").term.ttl;
            self.let_all_but_one_go_on(id, ttl);
        }
        let (session, contents) = self.sessions.take(id).expect("only a session that lives is closed");
        self.timers.clear_session(session.term.deadline, id);
        let released = ended_before + contents.holds.len() as u64;
        let mut changed = BTreeSet::new();
        for (ticket, lock) in contents.waits {
            let waiter = self.lock_mut(&lock).and_then(|lock| lock.remove_waiter(ticket));
            self.note_left(&lock, waiter.expect("the session waits for it"), cause);
            changed.insert(lock);
        }
        for (ticket, lock) in contents.holds {
            let is_it = |hold: &Hold| hold.ticket == ticket && hold.lease.session() == Some(id);
            let hold = self.lock_mut(&lock).and_then(|lock| lock.remove_hold(is_it));
            self.note_end(&lock, hold.expect("the session holds it"), cause);
            changed.insert(lock);
        }
        self.sessions.remember(id, EndedSession { key: session.key, cause, released, at: self.now });
        changed.iter().for_each(|lock| self.settle(lock));
        released
    }

    pub(crate) fn acquire_in(&mut self, session: &SessionRef, attempt: &Acquire, share: Share) -> Outcome {
        self.check_session(session)?;
        self.acquire(attempt, share, Asked::Session(session.id), None)
    }

    pub(crate) fn check_session(&self, session: &SessionRef) -> Result<(), Rejection> {
        let live = self.sessions.get(session.id).map(|live| live.key);
        let ended = self.sessions.ended(session.id, self.now).map(|ended| ended.key);
        match live.or(ended) {
            None => Err(Rejection::SessionNotFound),
            Some(key) if key != session.key => Err(Rejection::SessionNotYours),
            Some(_) if live.is_none() => Err(Rejection::SessionExpired),
            Some(_) => Ok(()),
        }
    }

    /// Whether one more attempt may be kept so.
    pub(crate) fn check_room_in(&self, asked: Asked) -> Result<(), Rejection> {
        match asked.session() {
            Some(session) if self.sessions.len_of(session) >= SESSION_LEN_MAX => Err(Rejection::SessionFull),
            _ => Ok(()),
        }
    }

    /// Whether the attempt's session is over, though it has not been ended yet.
    pub(crate) fn is_overdue(&self, asked: Asked) -> bool {
        let session = asked.session().and_then(|session| self.sessions.get(session));
        session.is_some_and(|session| session.term.deadline <= self.now)
    }

    /// The span of a lease, whosever it is.
    pub(crate) fn term(&self, lease: Lease) -> Term {
        match lease {
            Lease::Own { ttl, deadline } => Term { ttl, deadline },
            Lease::Session(session) => {
                self.sessions.get(session).expect("a session outlives what it keeps").term
            }
        }
    }

    pub(crate) fn grant_of(&self, hold: &Hold) -> Grant {
        hold.grant(self.term_of(hold), self.now)
    }

    fn session_answer(&self, id: SessionId) -> Answer {
        let session = self.sessions.get(id).expect("the caller has seen it");
        Answer::Session(SessionGrant {
            id,
            owner: session.owner.clone(),
            ttl: session.term.ttl,
            expires_in_ms: session.term.left_ms(self.now),
        })
    }
}
