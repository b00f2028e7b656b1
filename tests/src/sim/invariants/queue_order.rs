//! The queue is served in commit order among those who are still there, while their wait lasts, and each place once: no
//! reader is let in past a writer who waits, and no request for few permits past one for many.

use std::collections::BTreeMap;

use holdfast_core::{AttemptKey, Cause, Happening, Home, LockName, Op};

use super::Violation;
use super::agreed::Delays;
use super::asked::{Asked, Wanted, wanted};
use super::presence::{Presence, Unsettled, given_up};
use super::shares::{Shares, Users};
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

impl Waiter {
    /// An early one of many calls may be forgotten.
    fn counted_homes(&self) -> &[Home] {
        &self.homes[self.homes.len().saturating_sub(HOMES_COUNTED)..]
    }
}

#[derive(Default)]
struct Queue {
    /// By order of coming.
    waiting: BTreeMap<u64, Waiter>,
    /// The places of grants from the queue that may still be taken back.
    granted: Vec<(u64, Waiter)>,
}

#[derive(Default)]
struct Model<'a> {
    queues: BTreeMap<&'a LockName, Queue>,
    asked: Asked<'a>,
    shares: Shares<'a>,
    presence: Presence,
    delays: Delays,
    /// A lock that its holder has just handed over, past those who wait in front.
    handed_over: Option<&'a LockName>,
    places: u64,
    violations: Vec<Violation>,
}

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        let unsettled = model.presence.unsettled(entry, &model.asked);
        model.shares.begin(entry);
        for event in &entry.events {
            model.take(entry, event, &unsettled);
            model.delays.take(entry, event, &model.asked);
            model.shares.take(event);
        }
        drop(model.shares.end(entry)); // Limits are not looked at here.
        model.look_at_waits(entry, &unsettled);
        model.look_at_free_locks(entry, &unsettled);
        model.look_at_room(entry, &unsettled);
        model.learn(entry);
    }
    model.violations
}

impl<'a> Model<'a> {
    fn is_there(&self, waiter: &Waiter, now_ms: u64, unsettled: &Unsettled) -> bool {
        let speaks = |home: &Home| self.presence.speaks(home, now_ms, unsettled);
        waiter.counted_homes().iter().any(speaks) && !unsettled.has(&waiter.key)
    }

    fn take(&mut self, entry: &'a Entry, event: &'a holdfast_core::Event, unsettled: &Unsettled) {
        match event.what {
            Happening::Queued => {
                self.places += 1;
                let until_ms = wait_of(entry, &event.key).map_or(u64::MAX, |ms| entry.cluster_ms + ms);
                let waiter = Waiter { key: event.key, homes: event.home.into_iter().collect(), until_ms };
                self.queues.entry(&event.lock).or_default().waiting.insert(self.places, waiter);
            }
            Happening::Changed { .. } => {}
            Happening::Left(cause) => {
                if cause == Cause::Abandoned {
                    self.look_at_abandoned(entry, event);
                }
                let queue = self.queues.entry(&event.lock).or_default();
                queue.waiting.retain(|_, waiter| waiter.key != event.key);
            }
            Happening::Acquired { from_queue, .. } if from_queue || self.is_waiting_part(event) => {
                self.grant(entry, event, unsettled);
                self.handed_over = None;
            }
            Happening::Acquired { .. } => self.look_at_newcomer(entry, event, unsettled),
            Happening::Ended { cause, .. } => {
                if cause == Cause::HandedOver {
                    self.handed_over = Some(&event.lock);
                }
                let queue = self.queues.entry(&event.lock).or_default();
                let granted = queue.granted.iter().position(|(_, waiter)| waiter.key == event.key);
                let granted = granted.map(|at| queue.granted.remove(at));
                if let (Cause::Unclaimed, Some((place, waiter))) = (cause, granted) {
                    queue.waiting.insert(place, waiter);
                }
            }
        }
    }

    /// Of many grants from the queue only the first says so.
    fn is_waiting_part(&self, event: &holdfast_core::Event) -> bool {
        let queue = self.queues.get(&event.lock);
        let waits = |queue: &Queue| queue.waiting.values().any(|waiter| waiter.key == event.key);
        self.asked.whole_of(&event.key).is_some() && queue.is_some_and(waits)
    }

    /// Whether one who is part of an attempt at many may rightly wait although there is room for him: he may not be next, or
    /// there may be none, in another of its locks.
    fn is_held_up_elsewhere(&self, key: &AttemptKey, now_ms: u64) -> bool {
        let Some(whole) = self.asked.whole_of(key) else { return false };
        self.asked.places(&whole).iter().any(|place| {
            let next = self.queues.get(&place.lock).and_then(|queue| queue.waiting.values().next());
            let has_room = |users: &Users| users.has_room_for(self.shares.share_of(&place.key));
            next.is_none_or(|next| next.key != place.key)
                || !self.shares.of(&place.lock).is_some_and(has_room)
                || self.delays.is_running(&place.lock, now_ms)
        })
    }

    /// Whoever is let in without waiting goes before nobody who waits and is there.
    fn look_at_newcomer(&mut self, entry: &Entry, event: &holdfast_core::Event, unsettled: &Unsettled) {
        let waiting = self.queues.get(&event.lock).into_iter().flat_map(|queue| queue.waiting.values());
        let mut there = waiting.filter(|waiter| self.is_there(waiter, entry.cluster_ms, unsettled));
        if let Some(before) = there.next() {
            let (index, lock, key, before) = (entry.index, event.lock.as_str(), event.key, before.key);
            let what = format!(
                "entry {index}: {lock} is granted to {key:?} past {before:?}, who waits and is there"
            );
            self.violations.push(Violation::new(NAME, what));
        }
    }

    /// Nobody loses his place as long as one of his calls waits.
    fn look_at_abandoned(&mut self, entry: &Entry, event: &holdfast_core::Event) {
        let mut waiting = self.queues.get(&event.lock).into_iter().flat_map(|queue| queue.waiting.values());
        let Some(waiter) = waiting.find(|waiter| waiter.key == event.key) else { return };
        let spokesman = self.asked.spokesman_of(&event.key);
        let is_given_up = |call: &Home| {
            let is_it =
                |op: &Op| matches!(op, Op::Abandon { key, home, .. } if (key, home) == (&spokesman, call));
            entry.ops.iter().any(is_it)
        };
        if let Some(other) = waiter.counted_homes().iter().find(|home| !is_given_up(home)) {
            let (index, lock, key, node) = (entry.index, event.lock.as_str(), event.key, other.node);
            let what = format!(
                "entry {index}: {key:?} loses its place in the queue of {lock}, although it waits at node {node}, too"
            );
            self.violations.push(Violation::new(NAME, what));
        }
    }

    fn grant(&mut self, entry: &'a Entry, event: &'a holdfast_core::Event, unsettled: &Unsettled) {
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
        // Whom a leader may choose is looked at where elections are.
        let is_chosen = self.handed_over == Some(&event.lock);
        if let Some(before) = bypassed.filter(|_| !is_chosen) {
            found(format!("before {before:?}, who came earlier and is there"));
        }
        let queue = self.queues.get_mut(&event.lock).expect("it was there a moment ago");
        queue.waiting.remove(&place);
        queue.granted.push((place, waiter));
    }

    /// Nobody waits on once its wait is over. (One whose turn came before that may well be let in by the same entry.)
    fn look_at_waits(&mut self, entry: &Entry, unsettled: &Unsettled) {
        for (lock, queue) in &mut self.queues {
            let over = |waiter: &Waiter| waiter.until_ms <= entry.cluster_ms && !unsettled.has(&waiter.key);
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
    fn look_at_free_locks(&mut self, entry: &Entry, unsettled: &Unsettled) {
        let is_held = |lock: &LockName| self.shares.of(lock).is_some_and(|users| !users.holders.is_empty());
        let is_delayed = |lock: &LockName| self.delays.is_running(lock, entry.cluster_ms);
        let free = self.queues.iter().filter(|(lock, _)| !is_held(lock) && !is_delayed(lock));
        // A free lock is kept for one who waits for others, too.
        let is_next = |waiter: &&Waiter| !self.is_held_up_elsewhere(&waiter.key, entry.cluster_ms);
        let left = free.flat_map(|(lock, queue)| {
            queue.waiting.values().take_while(is_next).map(move |waiter| (lock, waiter))
        });
        let left: Vec<_> =
            left.filter(|(_, waiter)| self.is_there(waiter, entry.cluster_ms, unsettled)).collect();
        let say = |(lock, waiter): (&&LockName, &Waiter)| {
            let (index, lock, key) = (entry.index, lock.as_str(), waiter.key);
            Violation::new(NAME, format!("entry {index}: {lock} is free and {key:?} waits for it"))
        };
        let found: Vec<_> = left.iter().map(|(lock, waiter)| say((lock, waiter))).collect();
        self.violations.extend(found);
    }

    /// Whoever is the very first, and there, is let in as soon as there is room; and nobody waits for more than there is.
    fn look_at_room(&mut self, entry: &Entry, unsettled: &Unsettled) {
        let mut found = Vec::new();
        for (lock, users) in self.shares.locks() {
            let Some(queue) = self.queues.get(lock) else { continue };
            let first = queue.waiting.values().next();
            let first = first.filter(|waiter| self.is_there(waiter, entry.cluster_ms, unsettled));
            let first = first.filter(|waiter| !self.is_held_up_elsewhere(&waiter.key, entry.cluster_ms));
            let is_held = !users.holders.is_empty() && !self.delays.is_running(lock, entry.cluster_ms);
            if let Some(first) =
                first.filter(|first| is_held && users.has_room_for(self.shares.share_of(&first.key)))
            {
                found.push(format!("{} has room for {:?}, who is next", lock.as_str(), first.key));
            }
            let is_too_large =
                |key: &AttemptKey| u64::from(self.shares.share_of(key).permits()) > users.permits_max();
            if let Some((key, _)) = users.waiting.iter().find(|(key, _)| is_too_large(key)) {
                found.push(format!("{key:?} waits for more permits than {} has", lock.as_str()));
            }
        }
        let say = |what| Violation::new(NAME, format!("entry {}: {what}", entry.index));
        self.violations.extend(found.into_iter().map(say));
    }

    /// Whose word holds, and who has come back where, once the entry is applied.
    fn learn(&mut self, entry: &'a Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            // One that was refused waits nowhere: it may have queued up anew, elsewhere, in the same entry.
            for Wanted { lock, key, home, wait_ms, .. } in wanted(op).filter(|_| outcome.is_ok()) {
                let Some(queue) = self.queues.get_mut(lock) else { continue };
                let granted = queue.granted.iter_mut().map(|(_, waiter)| waiter);
                let mut waiters = queue.waiting.values_mut().chain(granted);
                if let Some(waiter) = waiters.find(|waiter| waiter.key == key) {
                    if waiter.homes.last().is_some_and(|last| last.node != home.node) {
                        saw("a waiter came back through another node");
                    }
                    if !waiter.homes.contains(&home) {
                        waiter.homes.push(home);
                    }
                    waiter.until_ms = entry.cluster_ms + wait_ms;
                }
            }
            if let Op::Abandon { key, home, .. } = op {
                let keys = given_up(key, &self.asked);
                for queue in self.queues.values_mut() {
                    let granted = queue.granted.iter_mut().map(|(_, waiter)| waiter);
                    let waiters = queue.waiting.values_mut().chain(granted);
                    for waiter in waiters.filter(|waiter| keys.contains(&waiter.key)) {
                        waiter.homes.retain(|known| known != home);
                    }
                }
            }
        }
        let waits = |key: &AttemptKey| {
            self.queues.values().any(|queue| queue.waiting.values().any(|waiter| waiter.key == *key))
        };
        self.presence.learn(entry, waits);
    }
}

fn wait_of(entry: &Entry, key: &AttemptKey) -> Option<u64> {
    let asked = entry.ops.iter().rev().flat_map(wanted);
    asked.into_iter().find(|wanted| wanted.key == *key).map(|wanted| wanted.wait_ms)
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Answer, Permits, Rejection, Share};

    use super::super::sample::{
        Row, acquire, acquire_share, acquired, ended, home, journal, key, left, queued, release, set_limit,
    };
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

    #[test]
    fn one_who_loses_his_place_with_one_of_two_calls_is_found() {
        let abandon =
            |node| Op::Abandon { lock: LockName::new("db").unwrap(), key: key(2), home: home(node) };
        let given_up = |abandons: &[u64]| {
            let ops = abandons.iter().map(|node| (abandon(*node), Ok(Answer::Done))).collect();
            let again = (15, vec![(acquire(2, 2, 1_000, 1_500), Ok(Answer::Done))], vec![]);
            let rows = [two_wait(1_500), vec![again, (30, ops, vec![left(2, Cause::Abandoned)])]].concat();
            found(rows)
        };
        assert_eq!(given_up(&[1, 2]), [""; 0]);
        assert!(given_up(&[1])[0].contains("although it waits at node 2, too"));
    }

    #[test]
    fn a_call_that_gives_the_place_up_is_no_client_of_the_place_that_is_taken_anew() {
        let refused = (acquire(2, 2, 1_000, 0), Err(Rejection::QueueFull));
        let again = (acquire(2, 1, 1_000, 9_000), Ok(Answer::Done));
        let anew = (15, vec![refused, again], vec![left(2, Cause::WaitTimeout), queued(2)]);
        let behind = (20, vec![(acquire(3, 2, 1_000, 9_000), Ok(Answer::Done))], vec![queued(3)]);
        // The second node's word holds, the first one's does not any more.
        let vouch = Op::Vouch { node: holdfast_core::NodeId(2), boot: 1 };
        let vouch = (1_900, vec![(vouch, Ok(Answer::Done))], vec![]);
        let rows = [two_wait(9_000)[..2].to_vec(), vec![anew, behind, vouch, granted(2_500, 3)]].concat();
        assert_eq!(found(rows), [""; 0]);
    }

    fn takes(taken: u64, limit: u64) -> Share {
        Share::Permits(Permits::new(limit, taken).unwrap())
    }

    /// The first holds, the second waits.
    fn one_waits(holds: Share, waits: Share) -> Vec<Row> {
        let done = || Ok(Answer::Done);
        vec![
            (0, vec![(acquire_share(1, holds), done())], vec![acquired(1, 1, false)]),
            (10, vec![(acquire_share(2, waits), done())], vec![queued(2)]),
        ]
    }

    /// Once it is applied, it is certain that those are there who asked before.
    fn tick() -> Row {
        (15, vec![], vec![])
    }

    fn found(rows: Vec<Row>) -> Vec<String> {
        check(&journal(rows)).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_reader_that_is_let_in_past_a_writer_who_waits_is_found() {
        let newcomer =
            (20, vec![(acquire_share(3, Share::Shared), Ok(Answer::Done))], vec![acquired(3, 2, false)]);
        let rows = [one_waits(Share::Shared, Share::Exclusive), vec![newcomer]].concat();
        assert!(found(rows)[0].contains("who waits and is there"));
        let queued = (20, vec![(acquire_share(3, Share::Shared), Ok(Answer::Done))], vec![queued(3)]);
        assert_eq!(found([one_waits(Share::Shared, Share::Exclusive), vec![queued]].concat()), [""; 0]);
    }

    #[test]
    fn a_small_request_that_is_let_in_before_a_large_one_is_found() {
        let behind = (20, vec![(acquire_share(3, takes(1, 5)), Ok(Answer::Done))], vec![queued(3)]);
        let passed = (30, vec![], vec![acquired(3, 2, true)]);
        let rows = [one_waits(takes(3, 5), takes(4, 5)), vec![behind, passed]].concat();
        assert!(found(rows)[0].contains("who came earlier and is there"));
    }

    #[test]
    fn a_reader_that_is_next_and_not_let_in_to_others_is_found() {
        let rows = [one_waits(Share::Shared, Share::Shared), vec![tick()]].concat();
        assert!(found(rows)[0].contains("has room for"));
    }

    #[test]
    fn permits_that_are_free_and_not_given_to_the_next_are_found() {
        let then = |wanted| [one_waits(takes(3, 5), takes(wanted, 5)), vec![tick()]].concat();
        assert_eq!(found(then(3)), [""; 0]);
        assert!(found(then(2))[0].contains("has room for"));
        let raised = (20, vec![(set_limit(6), Ok(Answer::Done))], vec![]);
        let rows = [one_waits(takes(3, 5), takes(3, 5)), vec![raised]].concat();
        assert!(found(rows)[0].contains("has room for"));
    }

    #[test]
    fn one_who_goes_on_waiting_for_more_than_there_is_is_found() {
        let lowered = (20, vec![(set_limit(2), Ok(Answer::Done))], vec![]);
        let rows = [one_waits(takes(3, 5), takes(3, 5)), vec![lowered]].concat();
        assert!(found(rows)[0].contains("waits for more permits"));
    }

    #[test]
    fn two_grants_from_the_queue_that_are_taken_back_go_to_their_places() {
        let done = || Ok(Answer::Done);
        let both = vec![ended(1, 1, Cause::Released), acquired(2, 2, true), acquired(3, 3, true)];
        let back = vec![ended(2, 2, Cause::Unclaimed), ended(3, 3, Cause::Unclaimed)];
        let unclaim =
            holdfast_core::Op::Unclaim { lock: LockName::new("db").unwrap(), fence: holdfast_core::Fence(2) };
        let mut rows = one_waits(Share::Exclusive, Share::Shared);
        rows.push((20, vec![(acquire_share(3, Share::Shared), done())], vec![queued(3)]));
        rows.push((30, vec![(release(1), done())], both));
        rows.push((40, vec![(unclaim, done())], back));
        rows.push((50, vec![(acquire_share(3, Share::Shared), done())], vec![acquired(3, 4, true)]));
        assert_eq!(found(rows), [""; 0]);
    }
}
