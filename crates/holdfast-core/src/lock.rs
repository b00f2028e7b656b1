//! One lock: who holds it and who waits for it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::homes::Homes;
use crate::ids::{AttemptKey, Fence, Home};
use crate::kept::Kept;
use crate::lease::{Asked, Lease, Term};
use crate::name::{Metadata, Owner};
use crate::outcome::{Grant, HolderSummary, Rejection};
use crate::planted::{Bug, planted};
use crate::share::Share;
use crate::terms::{OnTerms, Terms};
use crate::time::{ClusterTime, Ttl};

/// Most attempts that can wait for one lock.
pub const QUEUE_LEN_MAX: usize = 100_000;

/// The number of an attempt: the order in which attempts came into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ticket(pub(crate) u64);

/// An attempt that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) ticket: Ticket,
    pub(crate) key: AttemptKey,
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
    pub(crate) lease: Lease,
    /// Of a lease of its own: as the attempt asked for it, whatever renewals said since.
    pub(crate) asked_ttl: Ttl,
    pub(crate) granted_at: ClusterTime,
    /// What goes on if nobody claims the grant. None if it did not wait, and once a call with its token was told of the
    /// grant.
    pub(crate) unclaimed: Option<Box<Unclaimed>>,
    pub(crate) share: Share,
    /// The only call that can have been told of the grant: if its client has gone before, the grant is given up. None
    /// while it is unclaimed, and once there may be several.
    pub(crate) told: Option<Home>,
    /// What the holder says about itself.
    pub(crate) metadata: Metadata,
    /// As the attempt asked for it, if the holder has proclaimed something else since.
    pub(crate) asked_metadata: Option<Box<Metadata>>,
    /// What it was asked for beside the TTL, if anything was.
    pub(crate) on_terms: Option<Box<OnTerms>>,
}

/// From when until when an attempt waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) since: ClusterTime,
    pub(crate) until: ClusterTime,
}

/// What an attempt goes back to if nobody claims its grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unclaimed {
    pub(crate) waiting: Waiting,
    pub(crate) homes: Homes,
}

impl Hold {
    /// Where the attempt's client is connected, if there can be only one.
    pub(crate) fn home(&self) -> Option<Home> {
        self.unclaimed.as_ref().map_or(self.told, |unclaimed| unclaimed.homes.sole())
    }

    /// The client of a call has gone. True if nobody can have been told of the grant, nor will be.
    pub(crate) fn is_given_up_by(&mut self, home: Home) -> bool {
        match &mut self.unclaimed {
            Some(unclaimed) => unclaimed.homes.remove(home),
            None => self.told == Some(home),
        }
    }

    /// How the attempt asked for its hold to be kept.
    pub(crate) fn asked(&self) -> Asked {
        match self.lease {
            Lease::Own { .. } => Asked::Ttl(self.asked_ttl),
            Lease::Session(session) => Asked::Session(session),
        }
    }

    /// Whether a repeated attempt asks for what it has. One that was renewed with another TTL may name either.
    pub(crate) fn is_kept_as(&self, asked: Asked) -> bool {
        let renewed_to = match self.lease {
            Lease::Own { ttl, .. } => Asked::Ttl(ttl),
            Lease::Session(session) => Asked::Session(session),
        };
        asked == self.asked() || asked == renewed_to
    }

    /// `term`: of the hold's lease.
    pub(crate) fn grant(&self, term: Term, now: ClusterTime) -> Grant {
        Grant {
            fence: self.fence,
            owner: self.owner.clone(),
            ttl: term.ttl,
            expires_in_ms: term.left_ms(now),
            metadata: self.metadata.clone(),
            max_left_ms: self.max_left_ms(now),
        }
    }

    /// What the attempt asked to say, and what it says now.
    pub(crate) fn said(&self) -> [&Metadata; 2] {
        [self.asked_metadata.as_deref().unwrap_or(&self.metadata), &self.metadata]
    }

    /// Says something else from now on.
    pub(crate) fn say(&mut self, metadata: Metadata) {
        let former = std::mem::replace(&mut self.metadata, metadata);
        let asked = self.asked_metadata.take().unwrap_or_else(|| Box::new(former));
        self.asked_metadata = (*asked != self.metadata).then_some(asked);
    }

    /// `term`: of the hold's lease.
    pub(crate) fn summary(&self, term: Term, now: ClusterTime) -> HolderSummary {
        HolderSummary { owner: self.owner.clone(), fence: self.fence, expires_in_ms: term.left_ms(now) }
    }
}

/// An attempt that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) key: AttemptKey,
    pub(crate) owner: Owner,
    pub(crate) asked: Asked,
    pub(crate) waiting: Waiting,
    pub(crate) share: Share,
    pub(crate) homes: Homes,
    pub(crate) metadata: Metadata,
    pub(crate) terms: Option<Box<Terms>>,
}

/// A lock that somebody holds or waits for, or that keeps something. A lock that nobody wants has no record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lock {
    /// A list, so that a lock can have several.
    pub(crate) holders: Vec<Hold>,
    /// First come, first served: in the order of the tickets.
    #[allow(
        clippy::box_collection,
        reason = "most locks have no queue, and this takes them 8 bytes, not 32"
    )]
    pub(crate) queue: Option<Box<VecDeque<Waiter>>>,
    /// How many permits there are, as long as somebody uses the lock so.
    pub(crate) limit: Option<u32>,
    pub(crate) kept: Option<Box<Kept>>,
}

impl Lock {
    pub(crate) fn hold(&self, key: &AttemptKey) -> Option<&Hold> {
        self.holders.iter().find(|hold| hold.key == *key)
    }

    pub(crate) fn hold_mut(&mut self, key: &AttemptKey) -> Option<&mut Hold> {
        self.holders.iter_mut().find(|hold| hold.key == *key)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.queue.iter().flat_map(|queue| queue.iter())
    }

    pub(crate) fn waiter(&self, ticket: Ticket) -> Option<&Waiter> {
        self.queue.as_ref()?.get(self.place_of(ticket)?)
    }

    pub(crate) fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        let at = self.place_of(ticket)?;
        self.queue.as_mut()?.get_mut(at)
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len())
    }

    /// Adds a hold to the list. Nearly every lock has one holder at most: no room is kept for more.
    pub(crate) fn add_hold(&mut self, hold: Hold) {
        self.holders.reserve_exact(1);
        self.holders.push(hold);
    }

    /// Takes a hold out of the list.
    pub(crate) fn remove_hold(&mut self, is_it: impl Fn(&Hold) -> bool) -> Option<Hold> {
        let at = self.holders.iter().position(is_it)?;
        Some(self.holders.remove(at))
    }

    /// Where a waiter stands in the queue, from 0.
    pub(crate) fn place_of(&self, ticket: Ticket) -> Option<usize> {
        self.queue.as_ref()?.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    /// Takes a waiter out of the queue; an empty queue takes no memory.
    pub(crate) fn remove_waiter(&mut self, ticket: Ticket) -> Option<Waiter> {
        let at = self.place_of(ticket)?;
        let queue = self.queue.as_mut()?;
        let waiter = queue.remove(at);
        if queue.is_empty() {
            self.queue = None;
        }
        waiter
    }

    /// Puts a waiter at the place that its ticket gives it.
    pub(crate) fn enqueue(&mut self, waiter: Waiter) {
        let queue = self.queue.get_or_insert_default();
        let at = queue.partition_point(|other| other.ticket < waiter.ticket);
        queue.insert(at, waiter);
    }

    /// Whether the queue is what it has to be for looking tickets up in it.
    pub(crate) fn is_in_order(&self) -> bool {
        self.waiters().map(|waiter| waiter.ticket).is_sorted_by(|one, next| one < next)
    }

    /// Whether one more attempt can hold so much of the lock beside those that hold it.
    pub(crate) fn has_room_for(&self, share: Share) -> bool {
        self.is_let_in_wrongly(share) || !self.is_delayed() && self.fits(share)
    }

    fn fits(&self, share: Share) -> bool {
        match share {
            Share::Exclusive => self.holders.is_empty(),
            Share::Shared => self.holders.iter().all(|hold| hold.share == Share::Shared),
            Share::Permits(permits) => {
                // A lock that is not used has as many as the next one names.
                let limit = self.limit.unwrap_or(permits.limit());
                self.permits_out() + u64::from(permits.taken()) <= u64::from(limit)
            }
        }
    }

    /// Whether nobody at all can hold the lock beside those that hold it.
    pub(crate) fn is_full(&self) -> bool {
        if planted(Bug::WritersShare) || planted(Bug::PermitsCountedByHolders) {
            return false;
        }
        if self.is_delayed() {
            return true;
        }
        match self.limit {
            Some(limit) => self.permits_out() >= u64::from(limit),
            None => self.holders.iter().any(|hold| hold.share == Share::Exclusive),
        }
    }

    /// How many permits are held.
    pub(crate) fn permits_out(&self) -> u64 {
        self.holders.iter().map(|hold| u64::from(hold.share.permits())).sum()
    }

    /// Whether an attempt that takes so much cannot be made beside those that use the lock.
    pub(crate) fn check_limit(&self, share: Share) -> Result<(), Rejection> {
        match self.limit != share.limit() && !self.is_unused() {
            true => Err(Rejection::LimitConflict { limit: self.limit }),
            false => Ok(()),
        }
    }

    /// Whether nobody holds it and nobody waits for it.
    pub(crate) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_none()
    }
}
