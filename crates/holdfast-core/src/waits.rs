//! Who waits for what.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{AttemptKey, SessionId};
use crate::lock::{Hold, Ticket, Waiter};
use crate::name::{LockName, Owner};

/// Somebody whose attempts belong together: while one of them waits, the others are taken to be kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// All attempts with this label.
    Owner(Owner),
    /// All attempts that the session keeps, whatever their labels.
    Session(SessionId),
}

impl Party {
    /// None for whoever has no session and gives no label: nothing is known of what belongs together.
    pub(crate) fn of(owner: &Owner, session: Option<SessionId>) -> Option<Self> {
        let label = || (owner.as_str() != Owner::ANONYMOUS).then(|| Self::Owner(owner.clone()));
        session.map(Self::Session).or_else(label)
    }

    pub(crate) fn of_hold(hold: &Hold) -> Option<Self> {
        Self::of(&hold.owner, hold.lease.session())
    }

    fn of_waiter(waiter: &Waiter) -> Option<Self> {
        Self::of(&waiter.owner, waiter.asked.session())
    }
}

/// The places in all queues. Derived: not part of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    by_key: BTreeMap<AttemptKey, Ticket>,
    by_party: BTreeMap<(Party, Ticket), LockName>,
    /// Parties that wait at more than one place.
    busy: BTreeSet<Party>,
}

impl Waits {
    pub(crate) fn insert(&mut self, lock: &LockName, waiter: &Waiter) {
        self.by_key.insert(waiter.key, waiter.ticket);
        let Some(party) = Party::of_waiter(waiter) else { return };
        self.by_party.insert((party.clone(), waiter.ticket), lock.clone());
        if self.places(&party).nth(1).is_some() {
            self.busy.insert(party);
        }
    }

    pub(crate) fn remove(&mut self, waiter: &Waiter) {
        self.by_key.remove(&waiter.key);
        let Some(party) = Party::of_waiter(waiter) else { return };
        let place = (party, waiter.ticket);
        self.by_party.remove(&place);
        if !self.busy.is_empty() && self.places(&place.0).nth(1).is_none() {
            self.busy.remove(&place.0);
        }
    }

    /// The ticket that an attempt waits with.
    pub(crate) fn ticket(&self, key: &AttemptKey) -> Option<Ticket> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn is_waiting(&self, party: &Party) -> bool {
        self.places(party).next().is_some()
    }

    /// Where a party waits, in the order of the tickets.
    pub(crate) fn places(&self, party: &Party) -> impl Iterator<Item = (Ticket, &LockName)> {
        let (first, last) = ((party.clone(), Ticket(0)), (party.clone(), Ticket(u64::MAX)));
        self.by_party.range(first..=last).map(|((_, ticket), lock)| (*ticket, lock))
    }

    /// Those who wait at more than one place: of those in front of somebody in a queue, only they can wait for more than
    /// he does.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Party> {
        self.busy.iter()
    }
}
