//! Whether a wait would close a cycle of waits.
//!
//! A party waits for those who hold what it wants and for those who are in front of it in the queue, as far as their
//! clients are there. What a party holds is not indexed, since that would cost every held lock memory: the search goes
//! from waits to those who are in their way, and only on to those who wait themselves.

use std::collections::{BTreeSet, VecDeque};

use crate::lock::{Lock, Ticket};
use crate::name::LockName;
use crate::outcome::Rejection;
use crate::share::Share;
use crate::table::LockTable;
use crate::waits::Party;

/// So many holders and places are looked at; a cycle that does not show up among them is not found.
const LOOKS_MAX: usize = 1_024;

/// A party that is waited for.
struct Step {
    party: Party,
    /// The step before it; none for those whom the new wait itself waits for.
    from: Option<usize>,
    /// The lock that is waited for there.
    via: LockName,
}

/// Breadth first, so that the cycle that is told is a shortest one.
struct Search<'a> {
    table: &'a LockTable,
    me: Party,
    steps: Vec<Step>,
    todo: VecDeque<usize>,
    seen: BTreeSet<Party>,
    looks: usize,
}

/// One wait: at which lock, since when (a new one is behind everybody), and for how much.
struct Place<'a> {
    name: &'a LockName,
    lock: &'a Lock,
    ticket: Option<Ticket>,
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
        let (steps, todo, seen) = (Vec::new(), VecDeque::new(), BTreeSet::new());
        let mut search = Search { table: self, me, steps, todo, seen, looks: 0 };
        match search.run(wanted) {
            Some(cycle) => Err(Rejection::Deadlock { cycle }),
            None => Ok(()),
        }
    }
}

impl Search<'_> {
    /// The locks of the cycle, beginning with the one that is wanted.
    fn run(&mut self, wanted: &[(&LockName, Share)]) -> Option<Vec<LockName>> {
        let table = self.table;
        for (name, share) in wanted {
            let Some(lock) = table.locks.get(*name) else { continue };
            // What belongs to oneself is no step of a cycle.
            self.follow(None, &Place { name, lock, ticket: None, share: *share });
        }
        while let Some(at) = self.todo.pop_front() {
            let party = self.steps[at].party.clone();
            for (ticket, name) in table.waits.places(&party) {
                let Some(lock) = table.locks.get(name) else { continue };
                let Some(waiter) = lock.waiter(ticket).filter(|waiter| table.is_there(waiter)) else {
                    continue;
                };
                let place = Place { name, lock, ticket: Some(ticket), share: waiter.share };
                if self.follow(Some(at), &place) {
                    return Some(self.cycle(at, name));
                }
                if self.looks > LOOKS_MAX {
                    return None;
                }
            }
        }
        None
    }

    /// Notes everybody who is in the way at a place and waits himself. True if it is the one who asks.
    fn follow(&mut self, from: Option<usize>, place: &Place<'_>) -> bool {
        let in_the_way = self.holders_in_the_way(place).into_iter().chain(self.waiters_ahead(place));
        for party in in_the_way.collect::<Vec<_>>() {
            if party == self.me {
                if from.is_some() {
                    return true;
                }
            } else if self.table.waits.is_waiting(&party) && self.seen.insert(party.clone()) {
                self.todo.push_back(self.steps.len());
                self.steps.push(Step { party, from, via: place.name.clone() });
            }
        }
        false
    }

    /// Those who hold so much that this wait, or one in front of it, needs theirs. Only those count who wait themselves: the
    /// others may give back what they have at any time.
    fn holders_in_the_way(&mut self, place: &Place<'_>) -> Vec<Party> {
        let mut keepers = Vec::new();
        for hold in place.lock.holders.iter().take(LOOKS_MAX.saturating_sub(self.looks)) {
            self.looks += 1;
            let Some(party) = Party::of_hold(hold) else { continue };
            if party == self.me || self.table.waits.is_waiting(&party) {
                keepers.push((party, hold.share));
            }
        }
        if keepers.is_empty() {
            return Vec::new();
        }
        let kept: u64 = keepers.iter().map(|(_, share)| u64::from(share.permits())).sum();
        let limit = u64::from(place.lock.limit.unwrap_or(0));
        let wanted = self.most_wanted(place);
        let is_in_the_way = |share: Share| match wanted {
            Share::Exclusive => true,
            Share::Shared => share != Share::Shared,
            Share::Permits(permits) => kept + u64::from(permits.taken()) > limit,
        };
        keepers.into_iter().filter(|(_, share)| is_in_the_way(*share)).map(|(party, _)| party).collect()
    }

    /// The largest share that is wanted by this wait or one in front of it: all of them want the same kind.
    fn most_wanted(&mut self, place: &Place<'_>) -> Share {
        let mut most = place.share;
        for waiter in
            place.lock.waiters().take_while(|waiter| place.ticket.is_none_or(|mine| waiter.ticket < mine))
        {
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

    /// Those in front who wait elsewhere, too: the others wait for nothing but what is in the way here anyway.
    fn waiters_ahead(&mut self, place: &Place<'_>) -> Vec<Party> {
        let (table, me) = (self.table, self.me.clone());
        let mut parties = Vec::new();
        for party in table.waits.busy().chain([&me]) {
            let is_ahead = table.waits.places(party).any(|(ticket, name)| {
                self.looks += 1;
                let is_in_front = name == place.name && place.ticket.is_none_or(|mine| ticket < mine);
                is_in_front && place.lock.waiter(ticket).is_some_and(|waiter| table.is_there(waiter))
            });
            if self.looks > LOOKS_MAX {
                break;
            }
            if is_ahead {
                parties.push(party.clone());
            }
        }
        parties
    }

    /// From the wait that is asked for to the one that waits for the one who asks.
    fn cycle(&self, last: usize, via: &LockName) -> Vec<LockName> {
        let mut names = vec![via.clone()];
        let mut at = Some(last);
        while let Some(step) = at.map(|at| &self.steps[at]) {
            names.push(step.via.clone());
            at = step.from;
        }
        names.reverse();
        names
    }
}
