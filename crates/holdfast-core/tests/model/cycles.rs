//! The model's wait graph: everybody asks everybody.

use holdfast_core::{LockName, Owner, Share};

use crate::naive::{Attempt, Naive, State};

/// Somebody who wants something at a lock, behind those with smaller numbers.
struct Wish<'a> {
    lock: &'a LockName,
    share: Share,
    number: u64,
}

impl Naive {
    /// Whether somebody for whom this wait would have to wait has to wait for what the one who asks holds elsewhere.
    pub(super) fn closes_a_cycle(&self, owner: &Owner, wanted: &[(&LockName, Share)]) -> bool {
        if owner.as_str() == Owner::ANONYMOUS {
            return false;
        }
        let mut reached: Vec<usize> = Vec::new();
        let mut wishes: Vec<_> =
            wanted.iter().map(|(lock, share)| Wish { lock, share: *share, number: u64::MAX }).collect();
        while let Some(wish) = wishes.pop() {
            let ahead = self.ahead(&wish);
            let holders = self.in_the_way(owner, &wish, &ahead);
            let is_wanted = wanted.iter().any(|(lock, _)| *lock == wish.lock);
            if holders.contains(owner) && !is_wanted {
                return true;
            }
            let of_holders = (0..self.attempts.len()).filter(|at| {
                let attempt = &self.attempts[*at];
                let is_one_of_them = holders.contains(&attempt.asked.owner) && attempt.asked.owner != *owner;
                attempt.waits() && self.is_present(attempt) && is_one_of_them
            });
            let next = of_holders.chain(ahead).flat_map(|at| self.parts_of(at));
            for at in next.collect::<Vec<_>>() {
                if !reached.contains(&at) {
                    reached.push(at);
                    let Attempt { asked, share, number, .. } = &self.attempts[at];
                    wishes.push(Wish { lock: &asked.lock, share: *share, number: *number });
                }
            }
        }
        false
    }

    fn ahead(&self, wish: &Wish<'_>) -> Vec<usize> {
        let waiters = self.waiters(wish.lock);
        let ahead = waiters.filter(|(_, waiter)| waiter.number < wish.number && self.is_present(waiter));
        ahead.map(|(at, _)| at).collect()
    }

    /// The holders that stay, in the way of the wish itself or of somebody in front of it.
    fn in_the_way(&self, asks: &Owner, wish: &Wish<'_>, ahead: &[usize]) -> Vec<Owner> {
        let stays = |owner: &Owner| {
            let is_known = owner.as_str() != Owner::ANONYMOUS;
            is_known && (owner == asks || self.attempts.iter().any(|a| a.waits() && a.asked.owner == *owner))
        };
        let holders = self.holders(wish.lock);
        let staying: Vec<_> =
            holders.iter().map(|(holder, _)| *holder).filter(|holder| stays(&holder.asked.owner)).collect();
        let kept: u32 = staying.iter().map(|holder| holder.share.permits()).sum();
        let needs = |share: Share, holder: &Attempt| match share {
            Share::Exclusive => true,
            Share::Shared => holder.share != Share::Shared,
            Share::Permits(_) => kept + share.permits() > self.limit(wish.lock).unwrap(),
        };
        let shares: Vec<_> = ahead.iter().map(|at| self.attempts[*at].share).chain([wish.share]).collect();
        let held = staying.iter().filter(|holder| shares.iter().any(|share| needs(*share, holder)));
        held.map(|holder| holder.asked.owner.clone()).collect()
    }
}

impl Attempt {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits { .. })
    }
}
