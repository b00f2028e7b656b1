//! The queue is served in commit order among those who are still there, while their wait lasts, and each place once.

use std::collections::BTreeMap;

use holdfast_core::{Acquire, AttemptKey, Cause, Happening, Home, LockName, Op, VOUCH_MS};

use super::Violation;
use crate::sim::journal::{Entry, Journal};
use crate::sim::sometimes::saw;

const NAME: &str = "the queue is served in its order";
/// So many of an attempt's calls are remembered at least.
const HOMES_COUNTED: usize = 4;

/// One who waits, as this file understands it.
#[derive(Clone, Debug)]
struct Waiter {
    key: AttemptKey,
    /// Where it has asked from.
    homes: Vec<Home>,
    until_ms: u64,
}

#[derive(Default)]
struct Queue {
    /// By order of coming.
    waiting: BTreeMap<u64, Waiter>,
    /// The place of a grant from the queue that may still be taken back.
    granted: Option<(u64, Waiter)>,
    is_held: bool,
}

#[derive(Default)]
struct Model<'a> {
    queues: BTreeMap<&'a LockName, Queue>,
    /// By node: which start of it, and until when its word holds.
    present: BTreeMap<u64, (u32, u64)>,
    places: u64,
    violations: Vec<Violation>,
}

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model::default();
    for entry in journal.entries.values() {
        let unsettled = model.unsettled(entry);
        for event in &entry.events {
            model.take(entry, event, &unsettled);
        }
        model.look_at_waits(entry, &unsettled);
        model.look_at_free_locks(entry, &unsettled);
        model.learn(entry);
    }
    model.violations
}

impl<'a> Model<'a> {
    /// Nodes and attempts of which this entry itself may change whether they are there.
    fn unsettled(&self, entry: &Entry) -> (Vec<u64>, Vec<AttemptKey>) {
        let unclaims = entry.ops.iter().any(|op| matches!(op, Op::Unclaim { .. }));
        let nodes = if unclaims { self.present.keys().copied().collect() } else { Vec::new() };
        let mut nodes: Vec<u64> = nodes;
        let mut keys = Vec::new();
        for op in &entry.ops {
            match op {
                Op::Acquire(Acquire { key, home, .. }) => {
                    keys.push(*key);
                    nodes.extend(self.is_other_boot(home.node.0, home.boot).then_some(home.node.0));
                }
                Op::Abandon { key, .. } => keys.push(*key),
                Op::Vouch { node, boot } => {
                    nodes.extend(self.is_other_boot(node.0, *boot).then_some(node.0));
                }
                _ => {}
            }
        }
        (nodes, keys)
    }

    fn is_other_boot(&self, node: u64, boot: u32) -> bool {
        self.present.get(&node).is_some_and(|(known, _)| *known != boot)
    }

    fn is_there(&self, waiter: &Waiter, now_ms: u64, unsettled: &(Vec<u64>, Vec<AttemptKey>)) -> bool {
        let speaks = |home: &Home| {
            let word = self.present.get(&home.node.0);
            word.is_some_and(|(boot, until)| *boot == home.boot && *until > now_ms)
                && !unsettled.0.contains(&home.node.0)
        };
        // An early one of many calls may be forgotten.
        let homes = &waiter.homes[waiter.homes.len().saturating_sub(HOMES_COUNTED)..];
        homes.iter().any(speaks) && !unsettled.1.contains(&waiter.key)
    }

    fn take(
        &mut self,
        entry: &'a Entry,
        event: &'a holdfast_core::Event,
        unsettled: &(Vec<u64>, Vec<AttemptKey>),
    ) {
        match event.what {
            Happening::Queued => {
                self.places += 1;
                let until_ms = wait_of(entry, &event.key).map_or(u64::MAX, |ms| entry.cluster_ms + ms);
                let waiter = Waiter { key: event.key, homes: event.home.into_iter().collect(), until_ms };
                self.queues.entry(&event.lock).or_default().waiting.insert(self.places, waiter);
            }
            Happening::Changed { .. } => {}
            Happening::Left(_) => {
                let queue = self.queues.entry(&event.lock).or_default();
                queue.waiting.retain(|_, waiter| waiter.key != event.key);
            }
            Happening::Acquired { from_queue: false, .. } => {
                let queue = self.queues.entry(&event.lock).or_default();
                (queue.is_held, queue.granted) = (true, None);
            }
            Happening::Acquired { from_queue: true, .. } => self.grant(entry, event, unsettled),
            Happening::Ended { cause, .. } => {
                let queue = self.queues.entry(&event.lock).or_default();
                queue.is_held = false;
                if let (Cause::Unclaimed, Some((place, waiter))) = (cause, queue.granted.take()) {
                    queue.waiting.insert(place, waiter);
                }
            }
        }
    }

    fn grant(
        &mut self,
        entry: &'a Entry,
        event: &'a holdfast_core::Event,
        unsettled: &(Vec<u64>, Vec<AttemptKey>),
    ) {
        let lock = event.lock.as_str();
        let Some(queue) = self.queues.get(&event.lock) else { return };
        let Some((place, waiter)) =
            queue.waiting.iter().find(|(_, waiter)| waiter.key == event.key).map(|(p, w)| (*p, w.clone()))
        else {
            let what =
                format!("entry {}: {lock} is granted to {:?}, who does not wait", entry.index, event.key);
            return self.violations.push(Violation::new(NAME, what));
        };
        let (mut skipped, mut bypassed) = (false, None);
        for (_, before) in queue.waiting.range(..place) {
            if self.is_there(before, entry.cluster_ms, unsettled) {
                bypassed = Some(before.key);
            } else {
                skipped = true;
            }
        }
        if skipped {
            saw("a gone waiter was skipped");
        }
        let mut found = |what: String| {
            let what = format!("entry {}: {lock} is granted to {:?} {what}", entry.index, event.key);
            self.violations.push(Violation::new(NAME, what));
        };
        if let Some(before) = bypassed {
            found(format!("before {before:?}, who came earlier and is there"));
        }
        let queue = self.queues.get_mut(&event.lock).expect("it was there a moment ago");
        queue.waiting.remove(&place);
        (queue.is_held, queue.granted) = (true, Some((place, waiter)));
    }

    /// Nobody waits on once its wait is over. (One whose turn came before that may well be let in by the same entry.)
    fn look_at_waits(&mut self, entry: &Entry, unsettled: &(Vec<u64>, Vec<AttemptKey>)) {
        for (lock, queue) in &mut self.queues {
            let over =
                |waiter: &Waiter| waiter.until_ms <= entry.cluster_ms && !unsettled.1.contains(&waiter.key);
            for waiter in queue.waiting.values().filter(|waiter| over(waiter)) {
                let (index, lock, key) = (entry.index, lock.as_str(), waiter.key);
                let late = entry.cluster_ms - waiter.until_ms;
                let what =
                    format!("entry {index}: {key:?} waits for {lock} {late} ms after its wait was over");
                self.violations.push(Violation::new(NAME, what));
            }
            queue.waiting.retain(|_, waiter| !over(waiter));
        }
    }

    /// A free lock with a waiter who is there does not exist.
    fn look_at_free_locks(&mut self, entry: &Entry, unsettled: &(Vec<u64>, Vec<AttemptKey>)) {
        let free = self.queues.iter().filter(|(_, queue)| !queue.is_held);
        let left = free.flat_map(|(lock, queue)| queue.waiting.values().map(move |waiter| (lock, waiter)));
        let left: Vec<_> =
            left.filter(|(_, waiter)| self.is_there(waiter, entry.cluster_ms, unsettled)).collect();
        let say = |(lock, waiter): (&&LockName, &Waiter)| {
            let (index, lock, key) = (entry.index, lock.as_str(), waiter.key);
            Violation::new(NAME, format!("entry {index}: {lock} is free and {key:?} waits for it"))
        };
        let found: Vec<_> = left.iter().map(|(lock, waiter)| say((lock, waiter))).collect();
        self.violations.extend(found);
    }

    /// Whose word holds, and who has come back where, once the entry is applied.
    fn learn(&mut self, entry: &'a Entry) {
        let until = entry.cluster_ms + VOUCH_MS;
        for op in &entry.ops {
            if let Op::Acquire(Acquire { home, .. }) = op
                && self.is_other_boot(home.node.0, home.boot)
            {
                self.vouch(home.node.0, home.boot, 0); // It speaks for the former start no more.
            }
            match op {
                Op::Vouch { node, boot } => self.vouch(node.0, *boot, until),
                Op::Acquire(Acquire { lock, key, home, wait, .. }) => {
                    let Some(queue) = self.queues.get_mut(lock) else { continue };
                    // One that holds the lock by now vouches for nobody who waits.
                    let waits = queue.waiting.values().any(|waiter| waiter.key == *key);
                    let granted = queue.granted.as_mut().map(|(_, waiter)| waiter);
                    let waiting = queue.waiting.values_mut();
                    if let Some(waiter) = waiting.chain(granted).find(|waiter| waiter.key == *key) {
                        if waiter.homes.last().is_some_and(|last| last.node != home.node) {
                            saw("a waiter came back through another node");
                        }
                        if !waiter.homes.contains(home) {
                            waiter.homes.push(*home);
                        }
                        waiter.until_ms = entry.cluster_ms + wait.ms();
                        if waits {
                            self.vouch(home.node.0, home.boot, until);
                        }
                    }
                }
                Op::Abandon { lock, key, home } => {
                    let Some(queue) = self.queues.get_mut(lock) else { continue };
                    let granted = queue.granted.as_mut().map(|(_, waiter)| waiter);
                    let waiters = queue.waiting.values_mut().chain(granted);
                    for waiter in waiters.filter(|waiter| waiter.key == *key) {
                        waiter.homes.retain(|known| known != home);
                    }
                }
                Op::Unclaim { .. } => self.present.clear(), // Whoever it was: they have to speak again.
                _ => {}
            }
        }
    }

    fn vouch(&mut self, node: u64, boot: u32, until: u64) {
        let known = self.present.entry(node).or_default();
        if boot >= known.0 {
            *known = (boot, until);
        }
    }
}

fn wait_of(entry: &Entry, key: &AttemptKey) -> Option<u64> {
    entry.ops.iter().rev().find_map(|op| match op {
        Op::Acquire(acquire) if acquire.key == *key => Some(acquire.wait.ms()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use holdfast_core::Answer;

    use super::super::sample::{Row, acquire, acquired, ended, journal, queued};
    use super::*;

    fn two_wait(first_wait_ms: u64) -> Vec<Row> {
        let done = || Ok(Answer::Done);
        vec![
            (0, vec![(acquire(1, 1, 1_000, 0), done())], vec![acquired(1, 1, false)]),
            (10, vec![(acquire(2, 1, 1_000, first_wait_ms), done())], vec![queued(2)]),
            (20, vec![(acquire(3, 1, 1_000, 9_000), done())], vec![queued(3)]),
        ]
    }

    fn granted(at_ms: u64, number: u8) -> Row {
        (at_ms, vec![], vec![ended(1, 1, Cause::Expired), acquired(number, 2, true)])
    }

    #[test]
    fn the_first_in_turn_may_have_it() {
        let rows = [two_wait(1_500), vec![granted(1_000, 2)]].concat();
        assert_eq!(check(&journal(rows)), []);
    }

    #[test]
    fn one_who_is_let_in_before_another_who_is_there_is_found() {
        let rows = [two_wait(1_500), vec![granted(1_000, 3)]].concat();
        assert!(check(&journal(rows))[0].what.contains("who came earlier and is there"));
    }

    #[test]
    fn one_who_is_let_in_before_another_whose_node_is_silent_is_not() {
        let rows = [two_wait(9_000), vec![granted(2_500, 3)]].concat();
        assert_eq!(check(&journal(rows)), []);
    }

    #[test]
    fn a_free_lock_that_is_given_to_nobody_is_found() {
        let rows = [two_wait(1_500), vec![(1_000, vec![], vec![ended(1, 1, Cause::Released)])]].concat();
        assert!(check(&journal(rows))[0].what.contains("is free and"));
    }

    #[test]
    fn one_who_waits_too_long_and_one_who_does_not_wait_are_found() {
        let rows = [two_wait(1_500), vec![(1_600, vec![], vec![])]].concat();
        assert!(check(&journal(rows))[0].what.contains("90 ms after its wait was over"));
        let rows = [two_wait(1_500), vec![granted(1_000, 9)]].concat();
        assert!(check(&journal(rows))[0].what.contains("who does not wait"));
    }
}
