//! No wait is taken that closes a cycle of waits, and none is refused for a cycle that is not there.
//!
//! Whatever is not certain of this is left out where a wait is taken, and taken for true where one is refused.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{
    AttemptKey, Event, Happening, Home, LockName, Op, Outcome, Owner, Rejection, SessionId, Share,
};

use super::Violation;
use super::asked::{Asked, wanted};
use super::presence::{Presence, Unsettled, given_up};
use super::shares::{Shares, Users};
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "no cycle of waits is let in, and none is made up";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        let unsettled = model.presence.unsettled(entry, &model.asked);
        model.shares.begin(entry);
        model.note_owners(entry);
        let is_refused = |outcome: &Outcome| matches!(outcome, Err(Rejection::Deadlock { .. }));
        let mut ever = entry.outcomes.iter().any(is_refused).then(|| Ever::of(&model));
        for event in &entry.events {
            if event.what == Happening::Queued {
                model.look_at_wait(entry, event, &unsettled);
                model.came.insert(event.key, model.came.len());
            }
            model.shares.take(event);
            if let Some(ever) = &mut ever {
                ever.take(&model, event);
            }
        }
        drop(model.shares.end(entry)); // Limits are not looked at here.
        if let Some(ever) = ever {
            model.look_at_refusals(entry, &ever);
        }
        model.learn(entry);
    }
    model.violations
}

/// Whose attempts belong together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Session(SessionId),
    Label(Owner),
}

/// Somebody who wants something at a lock, behind those who came before.
struct Wish<'a> {
    lock: &'a LockName,
    share: Share,
    came: usize,
}

/// An attempt that waits.
struct Waiter<'a> {
    key: AttemptKey,
    lock: &'a LockName,
    share: Share,
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    shares: Shares<'a>,
    presence: Presence,
    owners: BTreeMap<AttemptKey, &'a Owner>,
    /// Where each attempt was last heard of, unless that call was given up.
    homes: BTreeMap<AttemptKey, Home>,
    /// The order of coming: it outlives a grant that is taken back.
    came: BTreeMap<AttemptKey, usize>,
    violations: Vec<Violation>,
}

impl<'a> Model<'a> {
    fn note_owners(&mut self, entry: &'a Entry) {
        for wanted in entry.ops.iter().flat_map(wanted) {
            self.owners.entry(wanted.key).or_insert(wanted.owner);
        }
    }

    /// None for whoever gives no label: nothing is known of what belongs together.
    fn party(&self, key: &AttemptKey) -> Option<Party> {
        if let Some(session) = self.asked.session_of(key) {
            return Some(Party::Session(session));
        }
        let owner = self.owners.get(key).filter(|owner| owner.as_str() != Owner::ANONYMOUS);
        owner.map(|owner| Party::Label((*owner).clone()))
    }

    fn waiters(&self) -> impl Iterator<Item = Waiter<'a>> {
        let waiting = |(lock, users): (&'a LockName, &Users)| {
            let waiting: Vec<_> = users.waiting.clone();
            waiting.into_iter().map(move |(key, share)| Waiter { key, lock, share })
        };
        self.shares.locks().flat_map(waiting).collect::<Vec<_>>().into_iter()
    }

    fn is_there(&self, key: &AttemptKey, now_ms: u64, unsettled: &Unsettled) -> bool {
        let home = self.homes.get(key).filter(|_| !unsettled.has(key));
        home.is_some_and(|home| self.presence.speaks(home, now_ms, unsettled))
    }

    /// A new wait is about to be taken.
    fn look_at_wait(&mut self, entry: &'a Entry, event: &'a Event, unsettled: &Unsettled) {
        if self.asked.spokesman_of(&event.key) != event.key {
            return; // It was looked at with the first of its places.
        }
        let Some(me) = self.party(&event.key) else { return };
        let wanted: Vec<(&LockName, Share)> = match self.asked.whole_of(&event.key) {
            None => vec![(&event.lock, self.shares.share_of(&event.key))],
            Some(whole) => {
                let places = self.asked.places(&whole).iter();
                places.map(|place| (&place.lock, self.shares.share_of(&place.key))).collect()
            }
        };
        let there: Vec<_> =
            self.waiters().filter(|waiter| self.is_there(&waiter.key, entry.cluster_ms, unsettled)).collect();
        if self.closes_a_cycle(&me, &wanted, &there) {
            let (index, lock, key) = (entry.index, event.lock.as_str(), event.key);
            let what = format!("entry {index}: {key:?} waits for {lock}, which closes a cycle of waits");
            self.violations.push(Violation::new(NAME, what));
        }
    }

    /// Whether somebody for whom this wait has to wait has to wait for what the one who asks holds elsewhere.
    fn closes_a_cycle(&self, me: &Party, wanted: &[(&LockName, Share)], there: &[Waiter<'_>]) -> bool {
        let mut reached: BTreeSet<AttemptKey> = BTreeSet::new();
        let new = wanted.iter().map(|(lock, share)| Wish { lock, share: *share, came: usize::MAX });
        let mut wishes: Vec<_> = new.collect();
        while let Some(wish) = wishes.pop() {
            let came = |waiter: &Waiter<'_>| self.came.get(&waiter.key).copied().unwrap_or(usize::MAX);
            let ahead: Vec<_> =
                there.iter().filter(|waiter| waiter.lock == wish.lock && came(waiter) < wish.came).collect();
            let holders = self.in_the_way(me, &wish, &ahead);
            if holders.contains(me) && wanted.iter().all(|(lock, _)| *lock != wish.lock) {
                return true;
            }
            let of_holders = there.iter().filter(|waiter| {
                self.party(&waiter.key).is_some_and(|party| party != *me && holders.contains(&party))
            });
            for one in of_holders.chain(ahead) {
                let whole = self.asked.whole_of(&one.key);
                let is_part = |waiter: &&Waiter<'_>| {
                    waiter.key == one.key || whole.is_some() && self.asked.whole_of(&waiter.key) == whole
                };
                for part in there.iter().filter(is_part) {
                    if reached.insert(part.key) {
                        wishes.push(Wish { lock: part.lock, share: part.share, came: came(part) });
                    }
                }
            }
        }
        false
    }

    /// The holders that stay as long as they wait, in the way of the wish itself or of somebody in front of it.
    fn in_the_way(&self, me: &Party, wish: &Wish<'_>, ahead: &[&Waiter<'_>]) -> BTreeSet<Party> {
        let Some(users) = self.shares.of(wish.lock) else { return BTreeSet::new() };
        let stays = |party: &Party| {
            party == me || self.waiters().any(|waiter| self.party(&waiter.key).as_ref() == Some(party))
        };
        let staying: Vec<(Party, Share)> = users
            .holders
            .iter()
            .filter_map(|(key, _, share)| Some((self.party(key)?, *share)))
            .filter(|(party, _)| stays(party))
            .collect();
        let kept: u64 = staying.iter().map(|(_, share)| u64::from(share.permits())).sum();
        let needs = |wanted: Share, held: Share| match wanted {
            Share::Exclusive => true,
            Share::Shared => held != Share::Shared,
            Share::Permits(permits) => kept + u64::from(permits.taken()) > users.permits_max(),
        };
        let wanted: Vec<_> = ahead.iter().map(|waiter| waiter.share).chain([wish.share]).collect();
        let is_needed = |held: Share| wanted.iter().any(|wanted| needs(*wanted, held));
        staying.into_iter().filter(|(_, held)| is_needed(*held)).map(|(party, _)| party).collect()
    }

    /// The cycle that is told goes from lock to lock: whoever is in the way at one of them waits for the next.
    fn look_at_refusals(&mut self, entry: &Entry, ever: &Ever<'_>) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let Err(Rejection::Deadlock { cycle }) = outcome else { continue };
            let mut asks = wanted(op);
            let Some(me) = asks.next().and_then(|wanted| self.party(&wanted.key)) else { continue };
            let is_asked = cycle.first().is_some_and(|first| wanted(op).any(|wanted| wanted.lock == first));
            if !is_asked || !ever.is_cycle(&me, cycle) {
                let names: Vec<_> = cycle.iter().map(LockName::as_str).collect();
                let index = entry.index;
                let what = format!("entry {index}: {me:?} is refused for a cycle that is none: {names:?}");
                self.violations.push(Violation::new(NAME, what));
            }
        }
    }

    fn learn(&mut self, entry: &'a Entry) {
        for op in &entry.ops {
            self.homes.extend(wanted(op).map(|wanted| (wanted.key, wanted.home)));
            if let Op::Abandon { key, home, .. } = op {
                for key in given_up(key, &self.asked) {
                    if self.homes.get(&key) == Some(home) {
                        self.homes.remove(&key);
                    }
                }
            }
        }
        let waits = |key: &AttemptKey| {
            self.shares.locks().any(|(_, users)| users.waiting.iter().any(|(waiter, _)| waiter == key))
        };
        self.presence.learn(entry, waits);
    }
}

/// Who held and who waited for each lock at any time of an entry.
#[derive(Default)]
struct Ever<'a> {
    held: BTreeMap<&'a LockName, BTreeSet<Party>>,
    waited: BTreeMap<&'a LockName, BTreeSet<Party>>,
}

impl<'a> Ever<'a> {
    fn of(model: &Model<'a>) -> Self {
        let mut ever = Self::default();
        for (lock, users) in model.shares.locks() {
            let held = users.holders.iter().filter_map(|(key, ..)| model.party(key));
            ever.held.entry(lock).or_default().extend(held);
            let waited = users.waiting.iter().filter_map(|(key, _)| model.party(key));
            ever.waited.entry(lock).or_default().extend(waited);
        }
        ever
    }

    fn take(&mut self, model: &Model<'a>, event: &'a Event) {
        let list = match event.what {
            Happening::Acquired { .. } => &mut self.held,
            Happening::Queued | Happening::Ended { .. } => &mut self.waited,
            Happening::Left(_) | Happening::Changed { .. } => return,
        };
        list.entry(&event.lock).or_default().extend(model.party(&event.key));
    }

    fn is_cycle(&self, me: &Party, cycle: &[LockName]) -> bool {
        let has = |list: &BTreeMap<&LockName, BTreeSet<Party>>, lock: &LockName, party: &Party| {
            list.get(lock).is_some_and(|parties| parties.contains(party))
        };
        let steps = cycle.windows(2).all(|step| {
            let held = self.held.get(&step[0]).into_iter().flatten();
            let mut in_the_way = held.chain(self.waited.get(&step[0]).into_iter().flatten());
            in_the_way.any(|party| party != me && has(&self.waited, &step[1], party))
        });
        steps && cycle.len() > 1 && cycle.last().is_some_and(|last| has(&self.held, last, me))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{
        Row, acquire_at, acquire_many, acquired, at_lock, deadlock_at, journal, queued, queued_of,
    };
    use super::*;

    /// Alice has the first lock and Bob the second.
    fn each_holds() -> Vec<Row> {
        vec![
            (0, vec![acquire_at(1, 11, "alice")], vec![at_lock(1, acquired(11, 1, false))]),
            (10, vec![acquire_at(2, 12, "bob")], vec![at_lock(2, acquired(12, 2, false))]),
        ]
    }

    fn waits(at_ms: u64, lock: u8, number: u8, label: &str) -> Row {
        (at_ms, vec![acquire_at(lock, number, label)], vec![at_lock(lock, queued(number))])
    }

    fn found(then: Vec<Row>) -> String {
        let rows = [each_holds(), then].concat();
        check(&journal(rows)).into_iter().map(|violation| violation.what + "\n").collect()
    }

    #[test]
    fn two_who_wait_for_each_other_are_found() {
        let (alice, bob) = (waits(20, 2, 21, "alice"), waits(30, 1, 22, "bob"));
        assert_eq!(found(vec![alice.clone(), waits(30, 2, 23, "carol")]), "");
        assert!(found(vec![alice, bob]).contains("closes a cycle"));
    }

    #[test]
    fn a_cycle_whose_clients_are_not_all_there_is_none() {
        let (alice, bob) = (waits(20, 2, 21, "alice"), waits(5_000, 1, 22, "bob"));
        assert_eq!(found(vec![alice, bob]), "");
    }

    #[test]
    fn a_cycle_through_one_who_waits_for_many_is_found() {
        // The third lock is free, and kept for him who waits for the first, too.
        let many = (20, vec![acquire_many(9, &[1, 3])], vec![queued_of(1), queued_of(3)]);
        assert!(found(vec![many, waits(30, 3, 21, "alice")]).contains("closes a cycle"));
    }

    #[test]
    fn a_refusal_for_a_cycle_that_is_none_is_found() {
        let refused = |cycle: &[u8]| (30, vec![deadlock_at(1, 22, "bob", cycle)], vec![]);
        let alice = || waits(20, 2, 21, "alice");
        assert_eq!(found(vec![alice(), refused(&[1, 2])]), "");
        assert!(found(vec![alice(), refused(&[1, 3])]).contains("a cycle that is none"));
        assert!(found(vec![alice(), refused(&[1])]).contains("a cycle that is none"));
        assert!(found(vec![refused(&[1, 2])]).contains("a cycle that is none"));
    }
}
