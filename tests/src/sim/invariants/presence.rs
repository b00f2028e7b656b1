//! Which nodes' word holds that their waiters are there: read off the journal, as far as it is certain.

use std::collections::BTreeMap;

use holdfast_core::{AttemptKey, Home, Op, VOUCH_MS};

use super::asked::{Asked, wanted};
use super::terms::Terms;
use crate::sim::journal::Entry;

/// Whose word holds.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// By node: which start of it, and until when its word holds.
    words: BTreeMap<u64, (u32, u64)>,
    /// Of a session that is over nobody is there.
    terms: Terms,
}

/// Nodes and attempts of which an entry itself may change whether they are there.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    nodes: Vec<u64>,
    keys: Vec<AttemptKey>,
}

impl Unsettled {
    pub(super) fn has(&self, key: &AttemptKey) -> bool {
        self.keys.contains(key)
    }
}

impl Presence {
    pub(super) fn unsettled(&self, entry: &Entry, asked: &Asked<'_>) -> Unsettled {
        let unclaims = entry.ops.iter().any(|op| matches!(op, Op::Unclaim { .. }));
        let mut nodes: Vec<u64> = if unclaims { self.words.keys().copied().collect() } else { Vec::new() };
        let over = self.terms.over_at(entry).map(|(session, _)| session);
        let ended = entry.ops.iter().filter_map(|op| match op {
            Op::EndSession(session) => Some(session.id),
            _ => None,
        });
        let mut keys: Vec<_> = over.chain(ended).flat_map(|session| asked.kept_by(session)).collect();
        for op in &entry.ops {
            for wanted in wanted(op) {
                keys.push(wanted.key);
                nodes.extend(
                    self.is_other_boot(wanted.home.node.0, wanted.home.boot).then_some(wanted.home.node.0),
                );
            }
            match op {
                Op::Abandon { key, .. } => keys.extend(given_up(key, asked)),
                Op::Vouch { node, boot } => {
                    nodes.extend(self.is_other_boot(node.0, *boot).then_some(node.0));
                }
                _ => {}
            }
        }
        Unsettled { nodes, keys }
    }

    fn is_other_boot(&self, node: u64, boot: u32) -> bool {
        self.words.get(&node).is_some_and(|(known, _)| *known != boot)
    }

    /// Whether this node's word holds that its waiters are there.
    pub(super) fn speaks(&self, home: &Home, now_ms: u64, unsettled: &Unsettled) -> bool {
        let word = self.words.get(&home.node.0);
        word.is_some_and(|(boot, until)| *boot == home.boot && *until > now_ms)
            && !unsettled.nodes.contains(&home.node.0)
    }

    /// Whose word holds once the entry is applied. `waits`: who waits then.
    pub(super) fn learn(&mut self, entry: &Entry, waits: impl Fn(&AttemptKey) -> bool) {
        self.terms.learn(entry);
        let until = entry.cluster_ms + VOUCH_MS;
        for op in &entry.ops {
            for wanted in wanted(op) {
                let Home { node, boot, .. } = wanted.home;
                if self.is_other_boot(node.0, boot) {
                    self.vouch(node.0, boot, 0); // It speaks for the former start no more.
                }
                // One that holds the lock by now vouches for nobody who waits.
                if waits(&wanted.key) {
                    self.vouch(node.0, boot, until);
                }
            }
            match op {
                Op::Vouch { node, boot } => self.vouch(node.0, *boot, until),
                Op::Unclaim { .. } => self.words.clear(), // Whoever it was: they have to speak again.
                _ => {}
            }
        }
    }

    fn vouch(&mut self, node: u64, boot: u32, until: u64) {
        let known = self.words.entry(node).or_default();
        if boot >= known.0 {
            *known = (boot, until);
        }
    }
}

/// The attempts at single locks that are given up with one.
pub(super) fn given_up(key: &AttemptKey, asked: &Asked<'_>) -> Vec<AttemptKey> {
    match asked.whole_of(key) {
        Some(whole) => asked.parts(&whole, None),
        None => vec![*key],
    }
}
