//! What the replicas applied: the history behind the one that clients see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use holdfast_core::{Event, Group, Happening, LockTable, Op, Outcome, Share};
use holdfast_replica::handle::{OnApplied, StateChange};
use holdfast_replica::world::NodeId;

use super::executor::{self, Nanos, now};
use super::sometimes::saw;

/// One entry of the log, as the first replica that came to it applied it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// True time at which the first replica applied it.
    pub(crate) first_at: Nanos,
    /// Cluster time of the table behind it, in milliseconds.
    pub(crate) cluster_ms: u64,
    pub(crate) ops: Vec<Op>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) events: Vec<Event>,
}

/// How a replica differed from what was applied before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discord {
    /// Another entry, or another outcome of it, at the same index.
    Entry { node: NodeId, index: u64, was: String, is: String },
    /// It left something out, or went back.
    Order { node: NodeId, reached: u64, index: u64 },
    /// The state itself is another one.
    State { node: NodeId, index: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) discords: Vec<Discord>,
    /// Hashes of the whole state, at some indexes.
    digests: BTreeMap<u64, u64>,
    reached: BTreeMap<NodeId, u64>,
    /// From when until when nodes were down.
    pub(crate) downs: Vec<(NodeId, Nanos, Nanos)>,
    /// Terms of leaders that were struck while entries up to this index were in their logs and not committed.
    pub(crate) in_flight: Vec<(u64, u64)>,
}

/// A hash of the state is taken at every so many entries: it costs more than the entry.
const DIGEST_EVERY: u64 = 64;
/// After so many there is nothing to learn from more.
const DISCORDS_MAX: usize = 8;

/// The journal of a run. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().expect("one thread")
    }

    /// What a start of `node` tells its changes to.
    pub(crate) fn listener(&self, node: NodeId) -> OnApplied {
        let journal = self.clone();
        journal.lock().reached.remove(&node);
        Arc::new(move |index, change, table: &LockTable| journal.lock().hear(node, index, change, table))
    }
}

impl Journal {
    fn hear(&mut self, node: NodeId, index: u64, change: StateChange<'_>, table: &LockTable) {
        if index == 0 && matches!(change, StateChange::Snapshot) {
            return; // It begins with nothing.
        }
        let reached = self.reached.insert(node, index);
        match change {
            StateChange::Snapshot => {
                match reached {
                    Some(reached) if reached >= index => {
                        self.note(Discord::Order { node, reached, index });
                    }
                    Some(_) => saw("a snapshot installed under load"),
                    None => saw("a node started from a snapshot"),
                }
                self.compare_state(node, index, table, true);
            }
            StateChange::Entry { term, group, outcomes, events } => {
                if let Some(reached) = reached.filter(|reached| reached + 1 != index) {
                    self.note(Discord::Order { node, reached, index });
                }
                self.compare_entry(node, (index, term), group, outcomes, events, table);
                self.compare_state(node, index, table, index.is_multiple_of(DIGEST_EVERY));
            }
        }
    }

    fn compare_entry(
        &mut self,
        node: NodeId,
        (index, term): (u64, u64),
        group: Option<&Group>,
        outcomes: &[Outcome],
        events: &[Event],
        table: &LockTable,
    ) {
        let ops = group.map_or(&[][..], |group| &group.ops);
        if let Some(known) = self.entries.get(&index) {
            let cluster_ms = table.now().0;
            let is_same = known.term == term
                && known.cluster_ms == cluster_ms
                && known.ops == ops
                && known.outcomes == outcomes
                && known.events == events;
            if !is_same {
                let was = format!("{known:?}");
                let is = format!("term {term}, {cluster_ms} ms, {ops:?}, {outcomes:?}, {events:?}");
                self.note(Discord::Entry { node, index, was, is });
            }
            return;
        }
        let entry = Entry {
            index,
            term,
            first_at: now(),
            cluster_ms: table.now().0,
            ops: ops.to_vec(),
            outcomes: outcomes.to_vec(),
            events: events.to_vec(),
        };
        tell(node, &entry);
        if self.in_flight.iter().any(|(term, last)| *term < entry.term && entry.index <= *last) {
            saw("a leader deposed with proposals in flight");
            self.in_flight.clear();
        }
        self.entries.insert(index, entry);
    }

    fn compare_state(&mut self, node: NodeId, index: u64, table: &LockTable, is_due: bool) {
        if !is_due && !self.digests.contains_key(&index) {
            return;
        }
        let digest = table.digest();
        if *self.digests.entry(index).or_insert(digest) != digest {
            self.note(Discord::State { node, index });
        }
    }

    /// A hash of the whole state of a replica, taken from outside.
    pub(crate) fn note_digest(&mut self, node: NodeId, index: u64, digest: u64) {
        if *self.digests.entry(index).or_insert(digest) != digest {
            self.note(Discord::State { node, index });
        }
    }

    pub(crate) fn note(&mut self, discord: Discord) {
        if self.discords.len() < DISCORDS_MAX {
            executor::tell(|| format!("DISCORD {discord:?}"));
            self.discords.push(discord);
        }
    }

    /// All events with the entry that they belong to, in their order.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&Entry, &Event)> {
        self.entries.values().flat_map(|entry| entry.events.iter().map(move |event| (entry, event)))
    }
}

fn tell(node: NodeId, entry: &Entry) {
    for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
        if !matches!(op, Op::Vouch { .. }) {
            executor::tell(|| {
                format!(
                    "log {} (term {}, {} ms, first at node {node}): {} => {}",
                    entry.index,
                    entry.term,
                    entry.cluster_ms,
                    show_op(op),
                    show_outcome(outcome)
                )
            });
        }
    }
    for event in &entry.events {
        executor::tell(|| {
            let (lock, key, what) = (event.lock.as_str(), event.key, show_happening(&event.what));
            format!("log {}:   {lock} {key:?} {what}", entry.index)
        });
    }
}

fn show_op(op: &Op) -> String {
    match op {
        Op::Acquire(acquire) | Op::AcquireShare(acquire, _) | Op::AcquireInSession(acquire, ..) => format!(
            "acquire {} {:?}{} for {} ms, waits {} ms, at node {}",
            acquire.lock.as_str(),
            acquire.key,
            show_share(op),
            acquire.ttl.ms(),
            acquire.wait.ms(),
            acquire.home.node
        ),
        Op::Renew { lock, key, .. } => format!("renew {} {key:?}", lock.as_str()),
        Op::Release { lock, key } => format!("release {} {key:?}", lock.as_str()),
        Op::Abandon { lock, key, .. } => format!("abandon {} {key:?}", lock.as_str()),
        Op::Unclaim { lock, fence } => format!("unclaim {} fence {fence}", lock.as_str()),
        Op::Proclaim { lock, key, .. } => format!("proclaim {} {key:?}", lock.as_str()),
        Op::HandOver { lock, key, to } => format!("hand over {} {key:?} to {to}", lock.as_str()),
        Op::Vouch { .. }
        | Op::Register { .. }
        | Op::Found { .. }
        | Op::SetLimit { .. }
        | Op::AcquireMany(_)
        | Op::RenewMany { .. }
        | Op::ReleaseMany { .. }
        | Op::OpenSession { .. }
        | Op::RenewSession(_)
        | Op::EndSession(_)
        | Op::ForceRelease { .. }
        | Op::ForceLeave { .. }
        | Op::TellWallClock { .. }
        | Op::AcquireOnTerms(_)
        | Op::ReleaseDone { .. } => format!("{op:?}"),
    }
}

fn show_share(op: &Op) -> String {
    match op {
        Op::AcquireShare(_, Share::Shared) => " shared".to_owned(),
        Op::AcquireShare(_, Share::Permits(permits)) => {
            format!(" with {} of {} permits", permits.taken(), permits.limit())
        }
        _ => String::new(),
    }
}

fn show_outcome(outcome: &Outcome) -> String {
    match outcome {
        Ok(holdfast_core::Answer::Granted(grant)) => format!("granted fence {}", grant.fence),
        Ok(answer) => format!("{answer:?}"),
        Err(rejection) => format!("{rejection}"),
    }
}

fn show_happening(what: &Happening) -> String {
    match what {
        Happening::Acquired { fence, from_queue, .. } => {
            format!("acquired fence {fence}{}", if *from_queue { " from the queue" } else { "" })
        }
        Happening::Ended { fence, cause, .. } => format!("ended fence {fence}: {cause:?}"),
        Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => format!("{what:?}"),
    }
}
