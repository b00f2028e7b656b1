//! A session ends as a whole: all that it holds and waits for goes in one entry, at its time or when it is ended, and
//! nothing comes to it any more.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{Answer, AttemptKey, Cause, Event, Happening, Op, Rejection, SessionId};

use super::Violation;
use super::asked::Asked;
use super::expiry_bound::lateness;
use super::terms::Terms;
use crate::sim::executor::MS;
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "a session ends as a whole";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        model.look_at_ends(journal, entry);
        for event in &entry.events {
            model.take(entry, event);
        }
        model.look_at_outcomes(entry);
        model.terms.learn(entry);
        model.look_at_rest(entry);
    }
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    terms: Terms,
    opened: BTreeSet<SessionId>,
    /// What each session holds (true) or waits for.
    kept: BTreeMap<SessionId, BTreeMap<AttemptKey, bool>>,
    /// Those of which something has ended with the session.
    ending: BTreeSet<SessionId>,
    violations: Vec<Violation>,
}

impl Model<'_> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    /// What ends with its session does so when its time is over, and not much later.
    fn look_at_ends(&mut self, journal: &Journal, entry: &Entry) {
        let is_end = |event: &&Event| cause_of(event) == Some(Cause::SessionExpired);
        let ended: BTreeSet<_> = entry
            .events
            .iter()
            .filter(is_end)
            .filter_map(|event| self.asked.session_of(&event.key))
            .collect();
        for session in ended {
            let Some(lease) = self.terms.of(session).copied() else { continue };
            if lease.deadline_ms > entry.cluster_ms {
                let early = lease.deadline_ms - entry.cluster_ms;
                self.found(entry, format!("session {session} is over {early} ms before its time"));
            }
            if let Some(late) = lateness(journal, entry, &lease) {
                self.found(entry, format!("session {session} is over {} ms later than promised", late / MS));
            }
        }
    }

    fn take(&mut self, entry: &Entry, event: &Event) {
        let (session, cause) = (self.asked.session_of(&event.key), cause_of(event));
        let ends_with_session = matches!(cause, Some(Cause::SessionExpired | Cause::SessionEnded));
        let Some(session) = session else {
            if ends_with_session {
                self.found(entry, format!("{:?} ends with a session that it has not", event.key));
            }
            return;
        };
        match event.what {
            Happening::Queued | Happening::Acquired { .. } => {
                let is_over =
                    self.terms.of(session).is_none_or(|lease| lease.deadline_ms <= entry.cluster_ms);
                // It may have been opened, or renewed, in this entry; but not once it was over.
                if is_over && !opens(entry, session) || self.ending.contains(&session) {
                    let what = format!("{:?} gets something of session {session}, which is over", event.key);
                    self.found(entry, what);
                }
                let holds = matches!(event.what, Happening::Acquired { .. });
                self.kept.entry(session).or_default().insert(event.key, holds);
            }
            Happening::Ended { cause: Cause::Unclaimed, .. } => {
                self.kept.entry(session).or_default().insert(event.key, false);
            }
            Happening::Ended { .. } | Happening::Left(_) => {
                if cause == Some(Cause::Expired) {
                    self.found(entry, format!("{:?} expires apart from session {session}", event.key));
                }
                self.kept.entry(session).or_default().remove(&event.key);
                self.ending.extend(ends_with_session.then_some(session));
            }
            Happening::Changed { .. } => {}
        }
    }

    fn look_at_outcomes(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            if let Ok(Answer::Session(session)) = outcome {
                self.opened.insert(session.id);
            }
            let named = match op {
                Op::RenewSession(session) | Op::EndSession(session) | Op::AcquireInSession(_, _, session) => {
                    session.id
                }
                _ => continue,
            };
            match (op, outcome) {
                (_, Err(Rejection::SessionNotFound)) if self.opened.contains(&named) => {
                    self.found(entry, format!("session {named} is not known any more"));
                }
                (Op::RenewSession(_) | Op::AcquireInSession(..), Ok(_)) if self.is_over(entry, named) => {
                    self.found(entry, format!("session {named} is used after its end"));
                }
                (Op::EndSession(_), Ok(Answer::SessionEnded { released })) => {
                    let with_it = |event: &&Event| {
                        let is_hold =
                            matches!(event.what, Happening::Ended { cause: Cause::SessionEnded, .. });
                        is_hold && self.asked.session_of(&event.key) == Some(named)
                    };
                    let ended = entry.events.iter().filter(with_it).count() as u64;
                    // Ending it again tells the same.
                    if ended > 0 && ended != *released {
                        self.found(
                            entry,
                            format!("session {named} released {ended} locks and says {released}"),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    fn is_over(&self, entry: &Entry, session: SessionId) -> bool {
        let lives = self.terms.of(session).is_some_and(|lease| lease.deadline_ms > entry.cluster_ms);
        !lives && !opens(entry, session)
    }

    /// Nothing is left of those that are over.
    fn look_at_rest(&mut self, entry: &Entry) {
        let over =
            self.kept.iter().filter(|(session, kept)| !kept.is_empty() && self.terms.of(**session).is_none());
        let say = |(session, kept): (&SessionId, &BTreeMap<AttemptKey, bool>)| {
            let holds = kept.values().filter(|holds| **holds).count();
            let waits = kept.len() - holds;
            format!("session {session} is over, and still holds {holds} locks and waits for {waits}")
        };
        let found: Vec<_> = over.map(say).collect();
        for what in found {
            self.found(entry, what);
        }
        self.kept.retain(|session, kept| !kept.is_empty() && self.terms.of(*session).is_some());
        self.ending.clear();
    }
}

fn cause_of(event: &Event) -> Option<Cause> {
    match event.what {
        Happening::Ended { cause, .. } | Happening::Left(cause) => Some(cause),
        Happening::Queued | Happening::Acquired { .. } | Happening::Changed { .. } => None,
    }
}

/// Whether an entry opens this session.
fn opens(entry: &Entry, session: SessionId) -> bool {
    entry.ops.iter().zip(&entry.outcomes).any(|(op, outcome)| match (op, outcome) {
        (Op::OpenSession { .. }, Ok(Answer::Session(opened))) => opened.id == session,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{
        Row, acquire_in_session, acquired, end_session, ended, journal, left, open_session, queued,
        renew_session,
    };
    use super::*;

    /// The first two hold, the third waits.
    fn opened() -> Vec<Row> {
        let ops =
            vec![open_session(1_000), acquire_in_session(1), acquire_in_session(2), acquire_in_session(3)];
        vec![(0, ops, vec![acquired(1, 1, false), acquired(2, 2, false), queued(3)])]
    }

    fn found(then: Vec<Row>) -> String {
        let rows = [opened(), then].concat();
        check(&journal(rows)).into_iter().map(|violation| violation.what + "\n").collect()
    }

    fn all_ended(cause: Cause) -> Vec<Event> {
        vec![left(3, cause), ended(1, 1, cause), ended(2, 2, cause)]
    }

    #[test]
    fn a_session_whose_end_takes_all_along_is_right() {
        assert_eq!(found(vec![(1_000, vec![], all_ended(Cause::SessionExpired))]), "");
        assert_eq!(found(vec![(500, vec![end_session(2)], all_ended(Cause::SessionEnded))]), "");
    }

    #[test]
    fn a_hold_or_a_wait_that_outlives_its_session_is_found() {
        let mut events = all_ended(Cause::SessionExpired);
        events.pop();
        assert!(found(vec![(1_000, vec![], events)]).contains("still holds 1 locks and waits for 0"));
        let events = all_ended(Cause::SessionEnded).split_off(1);
        assert!(
            found(vec![(500, vec![end_session(2)], events)]).contains("still holds 0 locks and waits for 1")
        );
    }

    #[test]
    fn a_grant_to_a_session_that_ends_is_found() {
        let cause = Cause::SessionEnded;
        let events = vec![ended(1, 1, cause), acquired(3, 3, true), ended(2, 2, cause), ended(3, 3, cause)];
        assert!(found(vec![(500, vec![end_session(3)], events)]).contains("which is over"));
    }

    #[test]
    fn a_session_that_goes_on_after_its_time_or_is_over_before_it_is_found() {
        assert!(found(vec![(1_000, vec![], vec![])]).contains("is over, and still holds 2"));
        assert!(
            found(vec![(999, vec![], all_ended(Cause::SessionExpired))]).contains("1 ms before its time")
        );
        let renewed = (500, vec![renew_session(1_000)], vec![]);
        assert_eq!(found(vec![renewed.clone(), (1_400, vec![], vec![])]), "");
        let early = (1_400, vec![], all_ended(Cause::SessionExpired));
        assert!(found(vec![renewed, early]).contains("100 ms before its time"));
    }

    #[test]
    fn a_session_that_is_renewed_after_its_end_is_found() {
        let over = (1_000, vec![], all_ended(Cause::SessionExpired));
        let renewed = (1_001, vec![renew_session(1_000)], vec![]);
        assert!(found(vec![over, renewed]).contains("is used after its end"));
    }

    #[test]
    fn a_wrong_count_and_a_hold_that_expires_apart_are_found() {
        let wrong = (500, vec![end_session(3)], all_ended(Cause::SessionEnded));
        assert!(found(vec![wrong]).contains("released 2 locks and says 3"));
        let apart = (500, vec![], vec![ended(1, 1, Cause::Expired)]);
        assert!(found(vec![apart]).contains("expires apart"));
    }
}
