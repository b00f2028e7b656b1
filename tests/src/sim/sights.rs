//! What a journal shows that a run has come across.

use std::collections::BTreeMap;

use holdfast_core::{Acquire, Answer, AttemptKey, Cause, Happening, Op};

use super::journal::{Entry, Journal};
use super::sometimes::saw;

/// A renewal within so many milliseconds of its lease's end came at the same instant.
const INSTANT_MS: u64 = 20;

/// Counts what it shows.
pub(crate) fn note(journal: &Journal) {
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
            if let (Op::Acquire(Acquire { key, .. }), Ok(Answer::Granted(_))) = (op, outcome)
                && !entry.events.iter().any(|event| event.key == *key)
            {
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
