//! Who waits for what.

use std::collections::BTreeMap;

use crate::ids::{AttemptKey, SessionId};
use crate::lock::{Hold, Ticket, Waiter};
use crate::many::ManyBook;
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
    /// Of those who wait for many locks.
    for_many: BTreeMap<(LockName, Ticket), AttemptKey>,
}

impl Waits {
    pub(crate) fn insert(&mut self, lock: &LockName, waiter: &Waiter, many: &ManyBook) {
        self.by_key.insert(waiter.key, waiter.ticket);
        if let Some(party) = Party::of_waiter(waiter) {
            self.by_party.insert((party, waiter.ticket), lock.clone());
        }
        if many.of(&waiter.key).is_some() {
            self.for_many.insert((lock.clone(), waiter.ticket), waiter.key);
        }
    }

    pub(crate) fn remove(&mut self, lock: &LockName, waiter: &Waiter) {
        self.by_key.remove(&waiter.key);
        if let Some(party) = Party::of_waiter(waiter) {
            self.by_party.remove(&(party, waiter.ticket));
        }
        if !self.for_many.is_empty() {
            self.for_many.remove(&(lock.clone(), waiter.ticket));
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

    /// Those in the queue of a lock, in front of a ticket, who wait for other locks as well.
    pub(crate) fn for_many_before(
        &self,
        lock: &LockName,
        ticket: Ticket,
    ) -> impl Iterator<Item = AttemptKey> {
        let (first, end) = ((lock.clone(), Ticket(0)), (lock.clone(), ticket));
        self.for_many.range(first..end).map(|(_, key)| *key)
    }
}
