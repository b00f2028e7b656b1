//! The model's wait graph: everybody asks everybody.

use holdfast_core::{LockName, Owner, SessionId, Share};

use crate::naive::{Attempt, Naive, State};

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
    /// Whether somebody for whom this wait would have to wait has to wait for the one who asks.
    pub(super) fn closes_a_cycle(&self, asks: &Party, wanted: &[(&LockName, Share)]) -> bool {
        if *asks == Party::Nobody {
            return false;
        }
        let mut reached: Vec<Party> = Vec::new();
        for (lock, share) in wanted {
            reached.extend(self.in_the_way(asks, lock, *share, u64::MAX));
        }
        reached.retain(|other| other != asks);
        let mut at = 0;
        while at < reached.len() {
            let of_party = self.attempts.iter().filter(|attempt| attempt.party() == reached[at]);
            let waits = of_party.filter(|attempt| attempt.waits() && self.is_present(attempt));
            let next: Vec<_> = waits
                .flat_map(|wait| self.in_the_way(asks, &wait.asked.lock, wait.share, wait.number))
                .collect();
            if next.contains(asks) {
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
    fn in_the_way(&self, asks: &Party, lock: &LockName, share: Share, number: u64) -> Vec<Party> {
        let ahead: Vec<_> = self
            .waiters(lock)
            .map(|(_, waiter)| waiter)
            .filter(|waiter| waiter.number < number && self.is_present(waiter))
            .collect();
        let stays = |party: &Party| {
            let is_known = *party != Party::Nobody;
            is_known && (party == asks || self.attempts.iter().any(|a| a.waits() && a.party() == *party))
        };
        let holders = self.holders(lock);
        let staying: Vec<_> =
            holders.iter().map(|(holder, _)| *holder).filter(|h| stays(&h.party())).collect();
        let kept: u32 = staying.iter().map(|holder| holder.share.permits()).sum();
        let needs = |share: Share, holder: &Attempt| match share {
            Share::Exclusive => true,
            Share::Shared => holder.share != Share::Shared,
            Share::Permits(_) => kept + share.permits() > self.limit(lock).unwrap(),
        };
        let shares: Vec<_> = ahead.iter().map(|waiter| waiter.share).chain([share]).collect();
        let held = staying.iter().filter(|holder| shares.iter().any(|share| needs(*share, holder)));
        let all = held.chain(ahead.iter()).map(|attempt| attempt.party());
        all.filter(|other| *other != Party::Nobody).collect()
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
