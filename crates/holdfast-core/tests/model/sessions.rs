//! The rules of sessions in the naive model. Whatever a session keeps has the session's deadline written beside it.

use holdfast_core::{
    Answer, Cause, Outcome, Owner, Rejection, SessionGrant, SessionId, SessionKey, SessionRef, Ttl,
};

use crate::naive::{Naive, State};
use crate::terms::Asked;

const KEPT_MS: u64 = 75_000;

#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    key: SessionKey,
    pub(crate) owner: Owner,
    pub(crate) ttl: Ttl,
    pub(crate) deadline: u64,
    /// How it ended, how much it held then, and when.
    ended: Option<(Cause, u64, u64)>,
}

impl Session {
    fn is_known(&self, now: u64) -> bool {
        self.ended.is_none_or(|(_, _, at)| at + KEPT_MS > now)
    }

    pub(crate) fn lives(&self) -> bool {
        self.ended.is_none()
    }
}

impl Naive {
    pub(crate) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    /// The newest one, whatever became of it.
    pub(crate) fn session_of(&self, key: SessionKey) -> Option<SessionId> {
        self.sessions.iter().rev().find(|session| session.key == key).map(|session| session.id)
    }

    pub(crate) fn check_session(&self, shown: &SessionRef) -> Result<(), Rejection> {
        match self.session(shown.id).filter(|session| session.is_known(self.now)) {
            None => Err(Rejection::SessionNotFound),
            Some(session) if session.key != shown.key => Err(Rejection::SessionNotYours),
            Some(session) if !session.lives() => Err(Rejection::SessionExpired),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn open_session(&mut self, key: SessionKey, owner: &Owner, ttl: Ttl) -> Outcome {
        let known = self.sessions.iter().find(|session| session.key == key && session.is_known(self.now));
        let id = match known {
            Some(session) if !session.lives() => return Err(Rejection::SessionExpired),
            Some(session) if (&session.owner, session.ttl) != (owner, ttl) => {
                return Err(Rejection::TokenConflict);
            }
            Some(session) => session.id,
            None => {
                self.numbers += 1;
                let id = SessionId(self.numbers);
                let (owner, deadline) = (owner.clone(), self.now + ttl.ms());
                self.sessions.push(Session { id, key, owner, ttl, deadline, ended: None });
                id
            }
        };
        self.renew_session(&SessionRef { id, key })
    }

    pub(crate) fn renew_session(&mut self, shown: &SessionRef) -> Outcome {
        self.check_session(shown)?;
        let session = self.sessions.iter_mut().find(|session| session.id == shown.id).unwrap();
        session.deadline = self.now + session.ttl.ms();
        let Session { id, owner, ttl, deadline, .. } = session.clone();
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.session == Some(id)) {
            if let State::Holds(hold) = &mut attempt.state {
                hold.deadline = attempt.terms.cut(hold.granted_at, deadline);
            }
        }
        Ok(Answer::Session(SessionGrant { id, owner, ttl, expires_in_ms: ttl.ms() }))
    }

    pub(crate) fn end_session(&mut self, shown: &SessionRef) -> Outcome {
        let checked = self.check_session(shown);
        let ended = self.session(shown.id).and_then(|session| session.ended);
        if let (Err(Rejection::SessionExpired), Some((Cause::SessionEnded, released, _))) = (&checked, ended)
        {
            return Ok(Answer::SessionEnded { released });
        }
        checked?;
        Ok(Answer::SessionEnded { released: self.close_session(shown.id, Cause::SessionEnded) })
    }

    /// All its waits, then all its holds, in their order; then everybody else.
    pub(crate) fn close_session(&mut self, id: SessionId, cause: Cause) -> u64 {
        let live = self.attempts.iter().filter(|a| a.session == Some(id) && a.deadline().is_some());
        let mut its: Vec<_> =
            live.map(|a| (a.holds(), a.number, a.asked.key, a.asked.lock.clone())).collect();
        its.sort_unstable();
        let released = its.iter().filter(|(holds, ..)| *holds).count() as u64;
        for (_, number, ..) in &its {
            let at = self.attempts.iter().position(|attempt| attempt.number == *number).unwrap();
            self.conclude(at, cause);
        }
        let at = self.now;
        let session = self.sessions.iter_mut().find(|session| session.id == id).unwrap();
        session.ended = Some((cause, released, at));
        let mut locks: Vec<_> = its.into_iter().map(|(.., lock)| lock).collect();
        locks.sort_unstable();
        locks.iter().for_each(|lock| self.hand_over(lock));
        released
    }

    /// Its deadline and its number.
    pub(crate) fn first_due_session(&self) -> Option<(u64, u64)> {
        let live = self.sessions.iter().filter(|session| session.lives());
        live.map(|session| (session.deadline, session.id.0)).min()
    }

    /// The locks that a session holds, or waits for, in the order in which its attempts came.
    pub(crate) fn kept_by(&self, id: SessionId, holds: bool) -> Vec<holdfast_core::LockName> {
        let live = self.attempts.iter().filter(|a| a.session == Some(id) && a.deadline().is_some());
        let mut its: Vec<_> = live.filter(|a| a.holds() == holds).collect();
        its.sort_by_key(|attempt| attempt.number);
        its.iter().map(|attempt| attempt.asked.lock.clone()).collect()
    }
}
