//! Grants from the queue whose waiter has not been heard of yet.
//!
//! A waiter's node may have died a moment ago. So a grant from the queue is told to the client only once the leader has
//! confirmed that it stands, and a leader takes back a grant that nobody asks about. This costs no log entry, since
//! only the leader that made a grant, in the same term, may take it back, and it remembers what it has confirmed:
//! a later leader takes back nothing that it did not grant itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use holdfast_core::{Event, Fence, Happening, Home, LockName, NodeId};

/// A grant that was made while some leader led in `term`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unclaimed {
    lock: LockName,
    term: u64,
    is_revoked: bool,
}

/// The grants that may still be taken back.
#[derive(Debug)]
pub(crate) struct Claims {
    node: NodeId,
    boot: u32,
    unclaimed: Mutex<BTreeMap<Fence, Unclaimed>>,
}

impl Claims {
    pub(crate) fn new(node: NodeId, boot: u32) -> Self {
        Self { node, boot, unclaimed: Mutex::default() }
    }

    /// Hears of an applied event. Grants to waiters of this very start of this node need no claim: it is
    /// alive. Those of a former start have gone with it.
    pub(crate) fn note(&self, term: u64, event: &Event) {
        match event.what {
            Happening::Acquired { fence, from_queue: true, .. } if !self.is_here(event.home) => {
                let unclaimed = Unclaimed { lock: event.lock.clone(), term, is_revoked: false };
                self.lock().insert(fence, unclaimed);
            }
            Happening::Ended { fence, .. } => {
                self.lock().remove(&fence);
            }
            Happening::Acquired { .. }
            | Happening::Queued
            | Happening::Left(_)
            | Happening::Changed { .. } => {}
        }
    }

    fn is_here(&self, home: Option<Home>) -> bool {
        home.is_some_and(|home| home.node == self.node && home.boot == self.boot)
    }

    /// The waiter's node asks. False if the grant is being taken back.
    pub(crate) fn confirm(&self, fence: Fence) -> bool {
        let mut unclaimed = self.lock();
        match unclaimed.get(&fence) {
            Some(grant) if grant.is_revoked => false,
            _ => {
                unclaimed.remove(&fence);
                true
            }
        }
    }

    /// Grants of this term that nobody has asked about yet. Those of other terms are forgotten.
    pub(crate) fn open_in(&self, term: u64) -> Vec<Fence> {
        let mut unclaimed = self.lock();
        unclaimed.retain(|_, grant| grant.term == term);
        unclaimed.iter().filter(|(_, grant)| !grant.is_revoked).map(|(fence, _)| *fence).collect()
    }

    /// Decides to take a grant of this term back: from now on it is confirmed to nobody.
    pub(crate) fn revoke(&self, fence: Fence, term: u64) -> Option<LockName> {
        let mut unclaimed = self.lock();
        let grant = unclaimed.get_mut(&fence).filter(|grant| grant.term == term && !grant.is_revoked)?;
        grant.is_revoked = true;
        Some(grant.lock.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fence, Unclaimed>> {
        self.unclaimed.lock().expect("no code panics while it holds this")
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{AttemptKey, Cause, ClusterTime, Metadata, Owner, Share, Ttl};

    use super::*;

    fn granted(fence: u64, node: u64) -> Event {
        Event {
            seq: fence,
            at: ClusterTime(0),
            share: Share::Exclusive,
            by: None,
            lock: LockName::new("db").unwrap(),
            owner: Owner::default(),
            key: AttemptKey([1; 16]),
            home: Some(Home { node: NodeId(node), boot: 1, call: 1 }),
            what: Happening::Acquired {
                expires_in_ms: Ttl::default().ms(),
                fence: Fence(fence),
                ttl: Ttl::default(),
                metadata: Metadata::default(),
                from_queue: true,
                max_left_ms: None,
                waited_ms: Some(0),
            },
        }
    }

    #[test]
    fn a_confirmed_grant_is_never_taken_back() {
        let claims = Claims::new(NodeId(1), 1);
        claims.note(3, &granted(7, 2));
        assert!(claims.confirm(Fence(7)));
        assert_eq!(claims.open_in(3), []);
        assert_eq!(claims.revoke(Fence(7), 3), None);
    }

    #[test]
    fn a_grant_that_is_being_taken_back_is_not_confirmed() {
        let claims = Claims::new(NodeId(1), 1);
        claims.note(3, &granted(7, 2));
        assert!(claims.revoke(Fence(7), 3).is_some());
        assert!(!claims.confirm(Fence(7)));
    }

    #[test]
    fn a_grant_of_an_earlier_term_is_not_taken_back() {
        let claims = Claims::new(NodeId(1), 1);
        claims.note(3, &granted(7, 2));
        assert_eq!(claims.revoke(Fence(7), 4), None);
        assert_eq!(claims.open_in(4), []);
        assert!(claims.confirm(Fence(7)));
    }

    #[test]
    fn a_waiter_of_a_former_start_of_the_leader_needs_a_claim() {
        let claims = Claims::new(NodeId(1), 2);
        claims.note(3, &granted(7, 1));
        assert_eq!(claims.open_in(3), [Fence(7)]);
    }

    #[test]
    fn a_waiter_of_the_leader_itself_and_an_ended_hold_need_no_claim() {
        let claims = Claims::new(NodeId(1), 1);
        claims.note(3, &granted(7, 1));
        claims.note(3, &granted(8, 2));
        let mut ended = granted(8, 2);
        ended.what = Happening::Ended { fence: Fence(8), cause: Cause::Released, held_ms: 1 };
        claims.note(3, &ended);
        assert_eq!(claims.open_in(3), []);
    }
}
