//! What only shows where attempts belong together: sessions, many locks at once, cycles of waits, elections.

use std::collections::BTreeMap;

use holdfast_core::{Cause, Event, Happening, LockName, Op, Rejection, SessionId};

use crate::sim::invariants::asked::Asked;
use crate::sim::invariants::shares::{Shares, Users};
use crate::sim::journal::{Entry, Journal};
use crate::sim::sometimes::saw;

pub(super) fn note(journal: &Journal) {
    let asked = Asked::of(journal);
    let mut shares = Shares::default();
    for entry in journal.entries.values() {
        shares.begin(entry);
        note_refusals(entry);
        note_ends_of_sessions(entry, &asked);
        let mut former: Option<&Event> = None;
        for event in &entry.events {
            note_event(event, &shares, &asked);
            if former.is_some_and(is_handed_over) && is_in_front_of(event, &shares) {
                saw("a hand-over past those in front");
            }
            shares.take(event);
            former = Some(event);
        }
        drop(shares.end(entry));
        note_kept_free(&shares, &asked);
    }
}

fn note_refusals(entry: &Entry) {
    for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
        match (op, outcome) {
            (Op::AcquireMany(_) | Op::AcquireInSession(..), Err(Rejection::Deadlock { .. })) => {
                saw("a deadlock refused to one who asks for many or in a session");
            }
            (_, Err(Rejection::Deadlock { .. })) => saw("a deadlock refused"),
            (_, Err(Rejection::NoSuchCandidate)) => saw("a hand-over refused for want of the candidate"),
            _ => {}
        }
    }
}

/// How many holds and waits end with each session.
fn note_ends_of_sessions(entry: &Entry, asked: &Asked<'_>) {
    let mut ends: BTreeMap<SessionId, (Cause, usize, usize)> = BTreeMap::new();
    for event in &entry.events {
        let (cause, is_hold) = match event.what {
            Happening::Ended { cause, .. } => (cause, true),
            Happening::Left(cause) => (cause, false),
            Happening::Queued | Happening::Acquired { .. } | Happening::Changed { .. } => continue,
        };
        let session = asked.session_of(&event.key);
        let session = session.filter(|_| matches!(cause, Cause::SessionEnded | Cause::SessionExpired));
        if let Some(session) = session {
            let end = ends.entry(session).or_insert((cause, 0, 0));
            if is_hold { end.1 += 1 } else { end.2 += 1 }
        }
    }
    for (cause, holds, waits) in ends.into_values() {
        match cause {
            Cause::SessionEnded if holds > 0 && waits > 0 => saw("a session ended with holds and waits"),
            Cause::SessionExpired => {
                if holds > 0 {
                    saw("a session expired with holds");
                }
                if waits > 0 {
                    saw("a session expired with waits");
                }
            }
            _ => {}
        }
    }
}

fn note_event(event: &Event, shares: &Shares<'_>, asked: &Asked<'_>) {
    let session = asked.session_of(&event.key);
    let is_many = asked.whole_of(&event.key).is_some();
    let users = shares.of(&event.lock);
    match event.what {
        Happening::Acquired { from_queue: true, .. } if is_many => {
            saw("many locks granted at once from their queues");
        }
        Happening::Acquired { from_queue: true, .. } if session.is_some() => {
            saw("a grant to a session from the queue");
        }
        Happening::Ended { cause: Cause::Unclaimed, .. } if is_many => saw("many grants taken back at once"),
        Happening::Queued if session.is_some() => {
            let mut holders = users.into_iter().flat_map(|users| &users.holders);
            if holders.any(|(key, ..)| asked.session_of(key) == session) {
                saw("a session waited for what it held itself");
            }
        }
        Happening::Changed { .. } if users.is_some_and(|users| !users.waiting.is_empty()) => {
            saw("a value proclaimed while others campaign");
        }
        _ => {}
    }
}

fn is_handed_over(event: &Event) -> bool {
    matches!(event.what, Happening::Ended { cause: Cause::HandedOver, .. })
}

/// Whether somebody else comes before the one who is granted the lock.
fn is_in_front_of(event: &Event, shares: &Shares<'_>) -> bool {
    let first = shares.of(&event.lock).and_then(|users| users.waiting.first());
    first.is_some_and(|(key, _)| *key != event.key)
}

fn note_kept_free(shares: &Shares<'_>, asked: &Asked<'_>) {
    let is_kept = |(_, users): (&LockName, &Users)| {
        let next = users.waiting.first();
        users.holders.is_empty() && next.is_some_and(|(key, _)| asked.whole_of(key).is_some())
    };
    if shares.locks().any(is_kept) {
        saw("a free lock kept for one who waits for many");
    }
}
