//! What a journal shows that a run has come across.

mod belonging;
mod watching;

use std::collections::BTreeMap;

use holdfast_core::{Answer, AttemptKey, Cause, Event, Happening, LockName, Op, Share};

use super::invariants::asked::{Wanted, wanted};
use super::invariants::shares::{Shares, Users};
use super::journal::{Entry, Journal};
use super::sometimes::saw;
use super::watchers::Watching;

/// A renewal within so many milliseconds of its lease's end came at the same instant.
const INSTANT_MS: u64 = 20;

/// Counts what it shows.
pub(crate) fn note(journal: &Journal, watchers: &[Watching]) {
    note_shares(journal);
    belonging::note(journal);
    watching::note(journal, watchers);
    let mut queued_in: BTreeMap<AttemptKey, u64> = BTreeMap::new();
    let mut deadlines: BTreeMap<AttemptKey, u64> = BTreeMap::new();
    for entry in journal.entries.values() {
        note_renewals(entry, &deadlines);
        for event in &entry.events {
            match &event.what {
                Happening::Queued => drop(queued_in.insert(event.key, entry.term)),
                Happening::Acquired { from_queue, ttl, .. } => {
                    deadlines.insert(event.key, entry.cluster_ms + ttl.ms());
                    if *from_queue && queued_in.get(&event.key).is_some_and(|term| *term < entry.term) {
                        saw("a grant from the queue after a failover");
                    }
                }
                Happening::Ended { cause: Cause::Unclaimed, .. } => saw("a claim revoked"),
                Happening::Ended { .. } | Happening::Left(_) | Happening::Changed { .. } => {}
            }
        }
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let is_granted = matches!(outcome, Ok(Answer::Granted(_) | Answer::GrantedMany(_)));
            let is_old = |wanted: Wanted<'_>| !entry.events.iter().any(|event| event.key == wanted.key);
            if is_granted && wanted(op).any(is_old) {
                saw("a retry answered from memory");
            }
        }
    }
}

fn note_renewals(entry: &Entry, deadlines: &BTreeMap<AttemptKey, u64>) {
    for op in &entry.ops {
        let Op::Renew { key, .. } = op else { continue };
        if deadlines.get(key).is_some_and(|deadline| deadline.abs_diff(entry.cluster_ms) <= INSTANT_MS) {
            saw("an expiry at the instant of a renewal");
        }
    }
}

/// What only locks show that several may hold at once.
fn note_shares(journal: &Journal) {
    let mut shares = Shares::default();
    for entry in journal.entries.values() {
        note_limits(entry, &shares);
        let held_up: BTreeMap<_, _> =
            shares.locks().filter_map(|(lock, users)| Some((lock, holds_others_up(users)?))).collect();
        shares.begin(entry);
        for event in &entry.events {
            note_event(event, &shares, &held_up);
            shares.take(event);
        }
        drop(shares.end(entry));
        let readers =
            |users: &Users| users.holders.iter().filter(|(.., share)| *share == Share::Shared).count();
        if !entry.events.is_empty() && shares.locks().any(|(_, users)| readers(users) > 1) {
            saw("several readers at once");
        }
    }
}

fn note_limits(entry: &Entry, shares: &Shares<'_>) {
    for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
        if let (Op::SetLimit { lock, .. }, Ok(_)) = (op, outcome)
            && shares.of(lock).is_some_and(|users| !users.holders.is_empty() && !users.waiting.is_empty())
        {
            saw("a limit changed under load");
        }
    }
}

/// The first who waits, if there are not enough permits for it, and enough for one behind it.
fn holds_others_up(users: &Users) -> Option<AttemptKey> {
    let ((first, share), behind) = users.waiting.split_first()?;
    let is_large = share.permits() > 1 && !users.may_have_room_for(*share);
    let is_held_up = behind.iter().any(|(_, share)| share.permits() > 0 && users.has_room_for(*share));
    (is_large && is_held_up).then_some(*first)
}

fn note_event(event: &Event, shares: &Shares<'_>, held_up: &BTreeMap<&LockName, AttemptKey>) {
    match event.what {
        Happening::Acquired { from_queue: true, .. } if held_up.get(&event.lock) == Some(&event.key) => {
            saw("a large request was served while small ones waited behind it");
        }
        Happening::Queued if shares.share_of(&event.key) == Share::Shared => {
            let Some(users) = shares.of(&event.lock) else { return };
            let is_read = users.holders.first().is_some_and(|(.., share)| *share == Share::Shared);
            if is_read && users.waiting.iter().any(|(_, share)| *share == Share::Exclusive) {
                saw("a reader queued behind a writer that waited for readers");
            }
        }
        _ => {}
    }
}
