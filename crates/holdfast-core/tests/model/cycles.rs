//! The model's wait graph: everybody asks everybody.

use holdfast_core::{LockName, Owner, SessionId, Share};

use crate::naive::{Attempt, Naive, State};

/// Somebody who wants something at a lock, behind those with smaller numbers.
struct Wish<'a> {
    lock: &'a LockName,
    share: Share,
    number: u64,
}

/// Whose attempts belong together: a session's, else those of one label.
#[derive(Clone, PartialEq)]
pub(crate) enum Party {
    Session(SessionId),
    Label(Owner),
    Nobody,
}

impl Party {
    pub(crate) fn of(owner: &Owner, session: Option<SessionId>) -> Self {
        match session {
            Some(session) => Self::Session(session),
            None if owner.as_str() == Owner::ANONYMOUS => Self::Nobody,
            None => Self::Label(owner.clone()),
        }
    }
}

impl Naive {
    /// Whether somebody for whom this wait would have to wait has to wait for what the one who asks holds elsewhere.
    pub(super) fn closes_a_cycle(&self, asks: &Party, wanted: &[(&LockName, Share)]) -> bool {
        if *asks == Party::Nobody {
            return false;
        }
        let mut reached: Vec<usize> = Vec::new();
        let mut wishes: Vec<_> =
            wanted.iter().map(|(lock, share)| Wish { lock, share: *share, number: u64::MAX }).collect();
        while let Some(wish) = wishes.pop() {
            let ahead = self.ahead(&wish);
            let holders = self.in_the_way(asks, &wish, &ahead);
            let is_wanted = wanted.iter().any(|(lock, _)| *lock == wish.lock);
            if holders.contains(asks) && !is_wanted {
                return true;
            }
            let of_holders = (0..self.attempts.len()).filter(|at| {
                let attempt = &self.attempts[*at];
                let is_one_of_them = holders.contains(&attempt.party()) && attempt.party() != *asks;
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
    fn in_the_way(&self, asks: &Party, wish: &Wish<'_>, ahead: &[usize]) -> Vec<Party> {
        let stays = |party: &Party| {
            let is_known = *party != Party::Nobody;
            is_known && (party == asks || self.attempts.iter().any(|a| a.waits() && a.party() == *party))
        };
        let holders = self.holders(wish.lock);
        let staying: Vec<_> =
            holders.iter().map(|(holder, _)| *holder).filter(|holder| stays(&holder.party())).collect();
        // Who has given it back goes by itself.
        let staying: Vec<_> = staying.into_iter().filter(|holder| !holder.is_releasing()).collect();
        let kept: u32 = staying.iter().map(|holder| holder.share.permits()).sum();
        let needs = |share: Share, holder: &Attempt| match share {
            Share::Exclusive => true,
            Share::Shared => holder.share != Share::Shared,
            Share::Permits(_) => kept + share.permits() > self.limit(wish.lock).unwrap(),
        };
        let shares: Vec<_> = ahead.iter().map(|at| self.attempts[*at].share).chain([wish.share]).collect();
        let held = staying.iter().filter(|holder| shares.iter().any(|share| needs(*share, holder)));
        held.map(|holder| holder.party()).collect()
    }
}

impl Attempt {
    fn party(&self) -> Party {
        Party::of(&self.asked.owner, self.session)
    }

    fn waits(&self) -> bool {
        matches!(self.state, State::Waits { .. })
    }
}
