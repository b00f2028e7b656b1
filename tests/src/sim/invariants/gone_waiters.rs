//! Waiters whose client has gone cost those behind them two seconds at most, all of them together.
//!
//! Looked at once the faults are over and a leader has settled: before, it may be the leader or the waiter's node itself
//! that is not there.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{AttemptKey, Cause, Event, Happening, Home, NodeId, Op};

use super::Violation;
use super::asked::{Asked, wanted};
use crate::sim::executor::{MS, Nanos};
use crate::sim::journal::{Entry, Journal};
use crate::sim::lines::name;
use crate::sim::run::Probe;

const NAME: &str = "gone waiters cost two seconds at most";
/// From the end of the faults until a leader is elected and has caught up.
const SETTLING: Nanos = 2_000 * MS;
/// What is promised, and what a commit and two clocks may take.
const COST_MAX: Nanos = 2_400 * MS;
/// A leader that serves speaks at least this often while a lease is running.
const SILENCE_MAX: Nanos = 650 * MS;

pub(crate) fn check(journal: &Journal, probes: &[Probe]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let asked = &Asked::of(journal);
    let mut locks: Vec<_> = probes.iter().map(|probe| (probe.lock, probe.asked, probe.granted)).collect();
    locks.sort_unstable_by_key(|(lock, _, granted)| (*lock, granted.unwrap_or(Nanos::MAX)));
    locks.dedup_by_key(|(lock, ..)| *lock);
    for (lock, since, granted) in locks {
        let served = granted.unwrap_or(since + crate::sim::run::HEALING);
        let cost = longest_cost(journal, asked, lock, since, served);
        if cost > COST_MAX {
            let what = format!("lock-{lock} was given to those who have gone for {} ms", cost / MS);
            violations.push(Violation::new(NAME, what));
        }
    }
    violations.extend(journal.events().filter_map(|(entry, event)| {
        let cost = cost_of_unclaimed(journal, asked, entry, event).filter(|cost| *cost > COST_MAX)?;
        let what = format!(
            "{} was left to {:?}, who had gone, for {} ms",
            event.lock.as_str(),
            event.key,
            cost / MS
        );
        Some(Violation::new(NAME, what))
    }));
    violations
}

/// How long a grant from the queue lasted whose waiter's node was down when it was made, under one leader that served. None
/// if it is no such grant.
fn cost_of_unclaimed(journal: &Journal, asked: &Asked<'_>, granted: &Entry, event: &Event) -> Option<Nanos> {
    let Happening::Acquired { from_queue: true, .. } = event.what else { return None };
    let home = event.home?;
    let is_down = |(node, from, until): &(u64, Nanos, Nanos)| {
        *node == home.node.0 && (*from..*until).contains(&granted.first_at)
    };
    journal.downs.iter().find(|down| is_down(down))?;
    // Its client may have come back elsewhere in the same entry.
    if granted.ops.iter().any(|op| is_about(op, &event.key, asked)) {
        return None;
    }
    let (mut last, mut excused) = (granted.first_at, 0);
    for entry in journal.entries.range(granted.index + 1..).map(|(_, entry)| entry) {
        // Or later.
        if entry.term != granted.term || entry.ops.iter().any(|op| is_about(op, &event.key, asked)) {
            return None;
        }
        excused += entry.first_at.saturating_sub(last).saturating_sub(SILENCE_MAX);
        last = entry.first_at;
        let is_end = |other: &Event| other.key == event.key && matches!(other.what, Happening::Ended { .. });
        if entry.events.iter().any(is_end) {
            return Some((entry.first_at - granted.first_at).saturating_sub(excused));
        }
    }
    None
}

fn is_about(op: &Op, attempt: &AttemptKey, asked: &Asked<'_>) -> bool {
    match op {
        Op::Renew { key, .. }
        | Op::Release { key, .. }
        | Op::ReleaseDone { key, .. }
        | Op::Proclaim { key, .. }
        | Op::HandOver { key, .. } => key == attempt,
        Op::RenewMany { key, named, .. } | Op::ReleaseMany { key, named } => {
            asked.parts(key, named.as_ref()).contains(attempt)
        }
        op => wanted(op).any(|wanted| wanted.key == *attempt),
    }
}

/// The longest time, once a leader has settled, for which grants to those who had gone kept the lock from somebody who is
/// there: from the first of them until one who is there is let in, or until only others hold the lock.
fn longest_cost(journal: &Journal, asked: &Asked<'_>, lock: u64, healed: Nanos, until: Nanos) -> Nanos {
    let (lock, boots) = (name(lock), last_boots(journal));
    let is_gone = |home: Home| boots.get(&home.node).is_some_and(|last| home.boot < *last);
    let within = |since: Nanos, at: Nanos| at.min(until).saturating_sub(since.max(healed + SETTLING));
    // What an earlier leader granted it may have confirmed as well: only its lease can end that.
    let last_term = journal.entries.values().next_back().map(|entry| entry.term);
    let (mut longest, mut cost_since) = (0, None);
    // Of many locks that were granted at once, an operator has ended one: the rest counts as known to its client.
    let forced: BTreeSet<_> = journal
        .events()
        .filter(|(_, event)| matches!(event.what, Happening::Ended { cause: Cause::Forced, .. }))
        .filter_map(|(_, event)| asked.whole_of(&event.key))
        .collect();
    let is_forced_in_part =
        |event: &Event| asked.whole_of(&event.key).is_some_and(|whole| forced.contains(&whole));
    // Fences, by whether those who have them had gone.
    let (mut gone, mut others) = (BTreeSet::new(), BTreeSet::new());
    // Those who wait for other locks as well: a lock may be kept free for one of them.
    let mut waiting_for_many = BTreeSet::new();
    for (entry, event) in journal.events().filter(|(_, event)| event.lock == lock) {
        if asked.whole_of(&event.key).is_some() {
            match event.what {
                Happening::Queued | Happening::Ended { cause: Cause::Unclaimed, .. } => {
                    waiting_for_many.insert(event.key)
                }
                _ => waiting_for_many.remove(&event.key),
            };
        }
        match event.what {
            // Before the faults were over, the node may have gone later than its waiter's grant came.
            Happening::Acquired { from_queue: true, fence, .. }
                if entry.first_at > healed
                    && Some(entry.term) == last_term
                    && event.home.is_some_and(is_gone)
                    && !is_forced_in_part(event)
                    && !asks_again(journal, asked, entry, event) =>
            {
                gone.insert(fence);
                cost_since.get_or_insert(entry.first_at);
            }
            Happening::Acquired { fence, .. } => {
                others.insert(fence);
                let since = cost_since.take().unwrap_or(entry.first_at);
                longest = longest.max(within(since, entry.first_at));
            }
            Happening::Ended { fence, .. } => {
                gone.remove(&fence);
                others.remove(&fence);
            }
            Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => {}
        }
        if let Some(since) = cost_since {
            longest = longest.max(within(since, entry.first_at));
        }
        if gone.is_empty() && !(others.is_empty() && waiting_for_many.is_empty()) {
            cost_since = None;
        }
    }
    longest
}

/// Whether the client of a grant was heard of in the entry that granted it, or later.
fn asks_again(journal: &Journal, asked: &Asked<'_>, granted: &Entry, event: &Event) -> bool {
    let since = journal.entries.range(granted.index..).map(|(_, entry)| entry);
    since.flat_map(|entry| &entry.ops).any(|op| is_about(op, &event.key, asked))
}

/// The last start of each node that has spoken.
fn last_boots(journal: &Journal) -> BTreeMap<NodeId, u32> {
    let mut boots: BTreeMap<NodeId, u32> = BTreeMap::new();
    for op in journal.entries.values().flat_map(|entry| &entry.ops) {
        let spoke = match op {
            Op::Vouch { node, boot } => Some((*node, *boot)),
            op => wanted(op).next().map(|wanted| (wanted.home.node, wanted.home.boot)),
        };
        if let Some((node, boot)) = spoke {
            let last = boots.entry(node).or_default();
            *last = boot.max(*last);
        }
    }
    boots
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Answer, Cause};

    use super::super::sample::{acquired, ended, journal};
    use super::*;

    /// Two who have gone, one after the other, and then one who is there.
    fn rows(served_ms: u64) -> Journal {
        let at = |ms| 2_000 + ms;
        let vouch = Op::Vouch { node: NodeId(1), boot: 2 };
        let mut journal = journal(vec![
            (at(0), vec![(vouch, Ok(Answer::Done))], vec![]),
            (at(100), vec![], vec![acquired(2, 2, true)]),
            (at(700), vec![], vec![ended(2, 2, Cause::Unclaimed), acquired(3, 3, true)]),
            (at(1_300), vec![], vec![ended(3, 3, Cause::Unclaimed)]),
            (at(served_ms), vec![], vec![acquired(4, 4, true)]),
        ]);
        for entry in journal.entries.values_mut() {
            entry.events.iter_mut().for_each(|event| event.lock = name(0));
        }
        journal.entries.get_mut(&5).unwrap().events[0].home = Some(super::super::sample::home_of_start(2));
        journal
    }

    #[test]
    fn a_grant_that_is_left_to_one_who_had_gone_is_found() {
        let ticks = (1..8).map(|n| (n * 400, vec![], vec![]));
        let rows = |ended_ms| {
            let mut rows = vec![(10, vec![], vec![acquired(1, 1, true)])];
            rows.extend(ticks.clone());
            rows.push((ended_ms, vec![], vec![ended(1, 1, Cause::Expired)]));
            let mut journal = journal(rows);
            journal.downs.push((1, 5 * MS, 900_000 * MS));
            journal
        };
        assert!(check(&rows(2_900), &[])[0].what.contains("for 2890 ms"));
        let mut up = rows(2_900);
        up.downs.clear();
        assert_eq!(check(&up, &[]), []);
    }

    #[test]
    fn gone_waiters_that_cost_too_much_together_are_found() {
        let probe = |ms: u64| Probe { lock: 0, asked: 0, granted: Some((2_000 + ms) * MS) };
        assert_eq!(check(&rows(2_100), &[probe(2_100)]), []);
        assert!(check(&rows(2_600), &[probe(2_600)])[0].what.contains("for 2500 ms"));
        // The first of them has come back: what it cost is its own affair.
        let mut back = rows(2_600);
        let renewal = Op::Renew { lock: name(0), key: super::super::sample::key(2), ttl: None };
        back.entries.get_mut(&2).unwrap().ops.push(renewal);
        assert_eq!(check(&back, &[probe(2_600)]), []);
    }

    #[test]
    fn a_reader_who_has_gone_costs_nothing_once_only_others_hold_the_lock() {
        let probe = Probe { lock: 0, asked: 0, granted: Some(7_000 * MS) };
        let mut journal = rows(5_000);
        // Somebody who is there reads all along; a writer waits for him.
        let mut reader = acquired(9, 1, true);
        (reader.lock, reader.home) = (name(0), Some(super::super::sample::home_of_start(2)));
        journal.entries.get_mut(&1).unwrap().events.push(reader);
        assert_eq!(check(&journal, &[probe]), []);
    }
}
