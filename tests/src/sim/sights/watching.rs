//! What only those who watch show.

use std::collections::BTreeSet;

use crate::sim::journal::Journal;
use crate::sim::sometimes::saw;
use crate::sim::watchers::{Connected, Told, Watching};

pub(crate) fn note(journal: &Journal, watchers: &[Watching]) {
    // The last events of the entries: whoever goes on behind one of them misses no part of an entry.
    let ends: BTreeSet<u64> =
        journal.entries.values().filter_map(|entry| Some(entry.events.last()?.seq)).collect();
    for watching in watchers {
        let mut told = watching.connections.iter().filter(|connected| !connected.told.is_empty());
        let Some(mut former) = told.next() else { continue };
        for connected in told {
            note_connected(journal, &ends, former, connected);
            former = connected;
        }
    }
}

fn note_connected(journal: &Journal, ends: &BTreeSet<u64>, former: &Connected, connected: &Connected) {
    if connected.node != former.node {
        saw("a watcher went on at another node");
    }
    if connected.since > 0 && !ends.contains(&connected.since) {
        saw("a watcher went on amid an entry");
    }
    let Some(Told::Events { events, .. }) = connected.told.first() else { return };
    let first = events.first().map(|event| event.seq);
    let entry = journal.events().find(|(_, event)| Some(event.seq) == first).map(|(entry, _)| entry);
    if entry.is_some_and(|entry| entry.first_at < connected.begun) {
        saw("a watcher was told what happened while it was away");
    }
}
