//! The model's wait graph: everybody asks everybody.

use holdfast_core::{LockName, Owner, Share};

use crate::naive::{Attempt, Naive, State};

impl Naive {
    /// Whether somebody for whom this wait would have to wait has to wait for the one who asks.
    pub(super) fn closes_a_cycle(&self, owner: &Owner, wanted: &[(&LockName, Share)]) -> bool {
        if owner.as_str() == Owner::ANONYMOUS {
            return false;
        }
        let mut reached: Vec<Owner> = Vec::new();
        for (lock, share) in wanted {
            reached.extend(self.in_the_way(owner, lock, *share, u64::MAX));
        }
        reached.retain(|other| other != owner);
        let mut at = 0;
        while at < reached.len() {
            let of_party = self.attempts.iter().filter(|attempt| attempt.asked.owner == reached[at]);
            let waits = of_party.filter(|attempt| attempt.waits() && self.is_present(attempt));
            let next: Vec<_> = waits
                .flat_map(|wait| self.in_the_way(owner, &wait.asked.lock, wait.share, wait.number))
                .collect();
            if next.contains(owner) {
                return true;
            }
            for other in next {
                if !reached.contains(&other) {
                    reached.push(other);
                }
            }
            at += 1;
        }
        false
    }

    /// Whom a wait of this number waits for: those in front of it, and the holders in their way and its own.
    fn in_the_way(&self, asks: &Owner, lock: &LockName, share: Share, number: u64) -> Vec<Owner> {
        let ahead: Vec<_> = self
            .waiters(lock)
            .map(|(_, waiter)| waiter)
            .filter(|waiter| waiter.number < number && self.is_present(waiter))
            .collect();
        let stays = |owner: &Owner| {
            let is_known = owner.as_str() != Owner::ANONYMOUS;
            is_known && (owner == asks || self.attempts.iter().any(|a| a.waits() && a.asked.owner == *owner))
        };
        let holders = self.holders(lock);
        let staying: Vec<_> =
            holders.iter().map(|(holder, _)| *holder).filter(|h| stays(&h.asked.owner)).collect();
        let kept: u32 = staying.iter().map(|holder| holder.share.permits()).sum();
        let needs = |share: Share, holder: &Attempt| match share {
            Share::Exclusive => true,
            Share::Shared => holder.share != Share::Shared,
            Share::Permits(_) => kept + share.permits() > self.limit(lock).unwrap(),
        };
        let shares: Vec<_> = ahead.iter().map(|waiter| waiter.share).chain([share]).collect();
        let held = staying.iter().filter(|holder| shares.iter().any(|share| needs(*share, holder)));
        // Who waits for nothing else is in the way of nobody but through those whom he waits for here.
        let waits_of =
            |owner: &Owner| self.attempts.iter().filter(|a| a.waits() && a.asked.owner == *owner).count();
        let is_busy = |owner: &Owner| owner == asks || waits_of(owner) > 1;
        let busy = ahead.iter().filter(|waiter| is_busy(&waiter.asked.owner));
        let all = held.chain(busy).map(|attempt| attempt.asked.owner.clone());
        all.filter(|other| other.as_str() != Owner::ANONYMOUS).collect()
    }
}

impl Attempt {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits { .. })
    }
}
