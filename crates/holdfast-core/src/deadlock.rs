//! Whether a wait would close a cycle of waits.
//!
//! An attempt waits for those who hold what it wants. It also waits for those in front of it in a queue: what these wait
//! for is in its way, too, also in other locks if they wait for many. A party that holds something is taken to keep it
//! while any of its attempts waits. All that only as far as clients are there.
//!
//! What a party holds is not indexed, since that would cost every held lock memory: the search goes from waits to the
//! holders that are in their way, and on from those who wait themselves.

use std::collections::{BTreeSet, VecDeque};

use crate::ids::AttemptKey;
use crate::lock::{Lock, Ticket};
use crate::name::LockName;
use crate::outcome::Rejection;
use crate::planted::{Bug, planted};
use crate::several::Place;
use crate::share::Share;
use crate::table::LockTable;
use crate::waits::Party;

/// So many holders and places are looked at; a cycle that does not show up among them is not found.
const LOOKS_MAX: usize = 1_024;

/// An attempt that waits, and is waited for.
struct Step {
    /// Its places.
    places: Vec<Place>,
    /// The step before it; none for those whom the new wait itself waits for.
    from: Option<usize>,
    /// The lock that is waited for there.
    via: LockName,
}

/// Breadth first, so that the cycle that is told is a shortest one.
struct Search<'a> {
    table: &'a LockTable,
    me: Party,
    wanted: &'a [(&'a LockName, Share)],
    steps: Vec<Step>,
    todo: VecDeque<usize>,
    /// The first keys of the steps' attempts.
    seen: BTreeSet<AttemptKey>,
    seen_parties: BTreeSet<Party>,
    looks: usize,
}

/// One wait at one lock.
struct Wait<'a> {
    name: &'a LockName,
    lock: &'a Lock,
    /// A new one is behind everybody.
    ticket: Ticket,
    share: Share,
}

impl LockTable {
    /// Refuses a new wait that would close a cycle of waits.
    pub(crate) fn check_cycle(
        &self,
        me: Option<Party>,
        wanted: &[(&LockName, Share)],
    ) -> Result<(), Rejection> {
        let Some(me) = me else { return Ok(()) };
        let (steps, todo) = (Vec::new(), VecDeque::new());
        let (seen, seen_parties) = (BTreeSet::new(), BTreeSet::new());
        let mut search = Search { table: self, me, wanted, steps, todo, seen, seen_parties, looks: 0 };
        match search.run() {
            Some(cycle) => Err(Rejection::Deadlock { cycle }),
            None => Ok(()),
        }
    }
}

impl Search<'_> {
    /// The locks of the cycle, beginning with the one that is wanted.
    fn run(&mut self) -> Option<Vec<LockName>> {
        let table = self.table;
        for (name, share) in self.wanted {
            let Some(lock) = table.locks.get(*name) else { continue };
            // That one holds oneself what one wants is no cycle.
            self.follow(None, &Wait { name, lock, ticket: Ticket(u64::MAX), share: *share });
        }
        while let Some(at) = self.todo.pop_front() {
            for place in self.steps[at].places.clone() {
                let Some(lock) = table.locks.get(&place.lock) else { continue };
                let Some(waiter) = table.waiter(&place.lock, &place.key) else { continue };
                let (ticket, share) = (waiter.ticket, waiter.share);
                if self.follow(Some(at), &Wait { name: &place.lock, lock, ticket, share }) {
                    return Some(self.cycle(at, place.lock));
                }
                if self.looks > LOOKS_MAX {
                    return None;
                }
            }
        }
        None
    }

    /// Notes all attempts that keep this wait from its end. True if the one who asks does.
    fn follow(&mut self, from: Option<usize>, wait: &Wait<'_>) -> bool {
        let table = self.table;
        for party in self.holders_in_the_way(wait) {
            if party == self.me {
                let is_seen = !planted(Bug::CycleSeenInOneOrder) || *wait.name < *self.wanted[0].0;
                if is_seen && self.wanted.iter().all(|(name, _)| *name != wait.name) {
                    return true;
                }
            } else if self.seen_parties.insert(party.clone()) {
                for (ticket, name) in table.waits.places(&party) {
                    let waiter = table.locks.get(name).and_then(|lock| lock.waiter(ticket));
                    if let Some(waiter) = waiter {
                        self.note(from, wait, name, waiter.key);
                    }
                }
            }
        }
        for key in table.waits.for_many_before(wait.name, wait.ticket) {
            if planted(Bug::CyclesThroughManyUnseen) {
                break;
            }
            self.note(from, wait, wait.name, key);
        }
        false
    }

    /// An attempt that is waited for, by one of its places.
    fn note(&mut self, from: Option<usize>, wait: &Wait<'_>, name: &LockName, key: AttemptKey) {
        self.looks += 1;
        let is_there = self.table.waiter(name, &key).is_some_and(|waiter| self.table.is_there(waiter));
        if self.looks > LOOKS_MAX || !is_there {
            return;
        }
        let places = match self.table.many.of(&key) {
            Some(many) => many.places.clone(),
            None => vec![Place { lock: name.clone(), key }],
        };
        if self.seen.insert(places[0].key) {
            self.todo.push_back(self.steps.len());
            self.steps.push(Step { places, from, via: wait.name.clone() });
        }
    }

    /// Those who hold so much that this wait, or one in front of it, needs theirs. Only those count who wait themselves: the
    /// others may give back what they have at any time.
    fn holders_in_the_way(&mut self, wait: &Wait<'_>) -> Vec<Party> {
        let mut keepers = Vec::new();
        for hold in wait.lock.holders.iter().take(LOOKS_MAX.saturating_sub(self.looks)) {
            self.looks += 1;
            let Some(party) = Party::of_hold(hold).filter(|_| !hold.is_releasing()) else { continue };
            if party == self.me || self.table.waits.is_waiting(&party) {
                keepers.push((party, hold.share));
            }
        }
        if keepers.is_empty() {
            return Vec::new();
        }
        let kept: u64 = keepers.iter().map(|(_, share)| u64::from(share.permits())).sum();
        let limit = u64::from(wait.lock.limit.unwrap_or(0));
        let wanted = self.most_wanted(wait);
        let is_in_the_way = |share: Share| match wanted {
            Share::Exclusive => true,
            Share::Shared => share != Share::Shared,
            Share::Permits(permits) => kept + u64::from(permits.taken()) > limit,
        };
        keepers.into_iter().filter(|(_, share)| is_in_the_way(*share)).map(|(party, _)| party).collect()
    }

    /// The largest share that is wanted by this wait or one in front of it: all of them want the same kind.
    fn most_wanted(&mut self, wait: &Wait<'_>) -> Share {
        let mut most = wait.share;
        for waiter in wait.lock.waiters().take_while(|waiter| waiter.ticket < wait.ticket) {
            self.looks += 1;
            if most == Share::Exclusive || self.looks > LOOKS_MAX {
                break;
            }
            let is_more = waiter.share == Share::Exclusive || waiter.share.permits() > most.permits();
            if is_more && self.table.is_there(waiter) {
                most = waiter.share;
            }
        }
        most
    }

    /// From the wait that is asked for to the one that waits for the one who asks.
    fn cycle(&self, last: usize, via: LockName) -> Vec<LockName> {
        let mut names = vec![via];
        let mut at = Some(last);
        while let Some(step) = at.map(|at| &self.steps[at]) {
            names.push(step.via.clone());
            at = step.from;
        }
        names.reverse();
        names
    }
}
