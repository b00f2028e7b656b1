//! How attempts end, and for how long that and the end of a session are remembered.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptKey, Fence};
use crate::name::Owner;
use crate::outcome::Rejection;
use crate::planted::{Bug, planted};
use crate::time::ClusterTime;

/// How long an ending is remembered, in milliseconds of cluster time.
pub const ENDING_KEPT_MS: u64 = 75_000;
/// About how many endings one entry forgets at most, so that the first entry after a long pause does not pay for all of
/// them. Twice as many as a group can add: memory does not grow under load.
const FORGOTTEN_AT_ONCE: usize = 1_024;

/// Why a hold or a wait came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The holder released it, or a waiter gave up its attempt.
    Released,
    /// The lease was over.
    Expired,
    /// An operator ended it.
    Forced,
    /// The client hung up before it was told of its grant, or while it waited.
    Abandoned,
    /// The wait was over.
    WaitTimeout,
    /// The client's node did not answer for a grant from the queue.
    Unclaimed,
    /// The lock's limit was changed to less than the attempt waited for.
    LimitChanged,
    /// The holder handed the lock over to somebody who waited for it.
    HandedOver,
    /// The session that kept it was over.
    SessionExpired,
    /// The session that kept it was ended.
    SessionEnded,
    /// Somebody else has completed the run that the attempt waited to make.
    AlreadyDone,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Released,
        Self::Expired,
        Self::Forced,
        Self::Abandoned,
        Self::WaitTimeout,
        Self::Unclaimed,
        Self::LimitChanged,
        Self::HandedOver,
        Self::SessionExpired,
        Self::SessionEnded,
        Self::AlreadyDone,
    ];

    /// As it is written for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Forced => "forced",
            Self::Abandoned => "abandoned",
            Self::WaitTimeout => "wait_timeout",
            Self::Unclaimed => "unclaimed",
            Self::LimitChanged => "limit_changed",
            Self::HandedOver => "handed_over",
            Self::SessionExpired => "session_expired",
            Self::SessionEnded => "session_ended",
            Self::AlreadyDone => "already_done",
        }
    }

    /// Whether a hold can end that way.
    pub fn ends_holds(self) -> bool {
        match self {
            Self::Released | Self::Expired | Self::Forced | Self::Abandoned | Self::Unclaimed => true,
            Self::HandedOver | Self::SessionExpired | Self::SessionEnded => true,
            Self::WaitTimeout | Self::LimitChanged | Self::AlreadyDone => false,
        }
    }

    /// Whether a wait can end that way.
    pub fn ends_waits(self) -> bool {
        match self {
            Self::Released | Self::Forced | Self::Abandoned | Self::WaitTimeout | Self::LimitChanged => true,
            Self::SessionExpired | Self::SessionEnded | Self::AlreadyDone => true,
            Self::Expired | Self::Unclaimed | Self::HandedOver => false,
        }
    }

    /// Whether an attempt that has only waited is told of it when it comes back.
    pub(crate) fn is_remembered_of_waiters(self) -> bool {
        matches!(self, Self::Released | Self::Forced | Self::SessionExpired | Self::SessionEnded)
    }
}

/// What is remembered of an ended attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    /// None for an attempt that was only queued. Fences begin at 1, so that this takes no more room than a number.
    fence: Option<NonZeroU64>,
    pub(crate) at: ClusterTime,
    /// Whom the lock was handed over to, where it was.
    pub(crate) successor: Option<Box<Owner>>,
}

impl Ending {
    pub(crate) fn new(cause: Cause, fence: Option<Fence>, at: ClusterTime) -> Self {
        Self { cause, fence: fence.and_then(|fence| NonZeroU64::new(fence.0)), at, successor: None }
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.fence.map(|fence| Fence(fence.get()))
    }

    /// What a renewal or another acquire under the same token is told.
    pub(crate) fn rejection(&self) -> Rejection {
        match self.cause {
            // It has only waited.
            Cause::SessionExpired | Cause::SessionEnded if self.fence.is_none() => Rejection::SessionExpired,
            Cause::Expired | Cause::SessionExpired => Rejection::LeaseExpired,
            Cause::Forced => Rejection::LeaseForced,
            Cause::HandedOver => Rejection::HandedOver,
            // A wait that ended otherwise is not remembered.
            Cause::Released
            | Cause::Abandoned
            | Cause::WaitTimeout
            | Cause::Unclaimed
            | Cause::LimitChanged
            | Cause::SessionEnded
            | Cause::AlreadyDone => Rejection::LeaseReleased,
        }
    }
}

/// What ended at some time.
pub(crate) trait Dated {
    fn at(&self) -> ClusterTime;

    fn is_remembered(&self, now: ClusterTime) -> bool {
        let kept_ms = if planted(Bug::TokenForgottenTooEarly) { 400 } else { ENDING_KEPT_MS };
        self.at().after(kept_ms) > now
    }
}

impl Dated for Ending {
    fn at(&self) -> ClusterTime {
        self.at
    }
}

/// How attempts have ended, so that a repeated call gets the answer of the first one.
pub(crate) type Endings = Remembered<AttemptKey, Ending>;

impl Endings {
    /// An attempt that has just ended has handed its lock over to this owner.
    pub(crate) fn note_successor(&mut self, key: &AttemptKey, successor: &Owner) {
        let ending = self.by_key.get_mut(key).expect("it was remembered a moment ago");
        ending.successor = Some(Box::new(successor.clone()));
    }
}

/// What has ended in the last [`ENDING_KEPT_MS`].
#[derive(Clone, Debug)]
pub(crate) struct Remembered<K: Ord, V> {
    by_key: OrdMap<K, V>,
    /// In order of time, nothing else: endings of one moment have none. Derived: not part of a snapshot.
    order: VecDeque<(ClusterTime, K)>,
}

impl<K: Ord, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { by_key: OrdMap::default(), order: VecDeque::new() }
    }
}

impl<K: Copy + Ord, V: Clone + Dated> Remembered<K, V> {
    pub(crate) fn remember(&mut self, key: K, ended: V) {
        self.order.push_back((ended.at(), key));
        self.by_key.insert(key, ended);
    }

    /// How it ended, if that is to be remembered at `now`.
    pub(crate) fn get(&self, key: &K, now: ClusterTime) -> Option<&V> {
        self.by_key.get(key).filter(|ended| ended.is_remembered(now))
    }

    /// Drops the oldest of those that are not to be remembered any more, and tells which.
    ///
    /// All endings of one moment go together, so that replicas that know their order and replicas that have restored
    /// them from a snapshot drop the same.
    pub(crate) fn forget_old(&mut self, now: ClusterTime, mut tell: impl FnMut(K, V)) {
        let (mut forgotten, mut last) = (0, None);
        while let Some((at, key)) = self.order.front().copied() {
            let enough = forgotten >= FORGOTTEN_AT_ONCE && last != Some(at);
            if enough || at.after(ENDING_KEPT_MS) > now {
                return;
            }
            self.order.pop_front();
            // It may have been forgotten by `get`, made anew and ended again before its turn came here.
            if self.by_key.get(&key).is_some_and(|ended| ended.at() == at) {
                self.by_key.remove(&key).into_iter().for_each(|ended| tell(key, ended));
                forgotten += 1;
                last = Some(at);
            }
        }
    }

    pub(crate) fn map(&self) -> &OrdMap<K, V> {
        &self.by_key
    }

    pub(crate) fn restore(by_key: OrdMap<K, V>) -> Self {
        let mut order: Vec<_> = by_key.iter().map(|(key, ended)| (ended.at(), *key)).collect();
        order.sort_unstable();
        Self { by_key, order: order.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_causes_is_complete_and_in_their_order() {
        let decoded = |at: usize| postcard::from_bytes::<Cause>(&[u8::try_from(at).expect("there are few")]);
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((decoded(at), cause as usize), (Ok(cause), at));
        }
        assert!(decoded(Cause::ALL.len()).is_err(), "there are more causes");
        assert!(Cause::ALL.into_iter().all(|cause| cause.ends_holds() || cause.ends_waits()));
    }
}
