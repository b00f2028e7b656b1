//! How attempts end, and for how long that is remembered.

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

    fn is_remembered(&self, now: ClusterTime) -> bool {
        let kept_ms = if planted(Bug::TokenForgottenTooEarly) { 400 } else { ENDING_KEPT_MS };
        self.at.after(kept_ms) > now
    }

    /// What a renewal or another acquire under the same token is told.
    pub(crate) fn rejection(&self) -> Rejection {
        match self.cause {
            Cause::Expired => Rejection::LeaseExpired,
            Cause::Forced => Rejection::LeaseForced,
            Cause::HandedOver => Rejection::HandedOver,
            // A wait that ended otherwise is not remembered.
            Cause::Released
            | Cause::Abandoned
            | Cause::WaitTimeout
            | Cause::Unclaimed
            | Cause::LimitChanged => Rejection::LeaseReleased,
        }
    }
}

/// The endings of the last [`ENDING_KEPT_MS`], so that a repeated call gets the answer of the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Endings {
    by_key: OrdMap<AttemptKey, Ending>,
    /// In order of time, nothing else: endings of one moment have none. Derived: not part of a snapshot.
    order: VecDeque<(ClusterTime, AttemptKey)>,
}

impl Endings {
    pub(crate) fn remember(&mut self, key: AttemptKey, ending: Ending) {
        self.order.push_back((ending.at, key));
        self.by_key.insert(key, ending);
    }

    /// An attempt that has just ended has handed its lock over to this owner.
    pub(crate) fn note_successor(&mut self, key: &AttemptKey, successor: &Owner) {
        let ending = self.by_key.get_mut(key).expect("it was remembered a moment ago");
        ending.successor = Some(Box::new(successor.clone()));
    }

    /// How an attempt ended, if that is to be remembered at `now`.
    pub(crate) fn get(&self, key: &AttemptKey, now: ClusterTime) -> Option<&Ending> {
        self.by_key.get(key).filter(|ending| ending.is_remembered(now))
    }

    /// Drops the oldest of those that are not to be remembered any more.
    ///
    /// All endings of one moment go together, so that replicas that know their order and replicas that have restored
    /// them from a snapshot drop the same.
    pub(crate) fn forget_old(&mut self, now: ClusterTime) {
        let (mut forgotten, mut last) = (0, None);
        while let Some((at, key)) = self.order.front().copied() {
            let enough = forgotten >= FORGOTTEN_AT_ONCE && last != Some(at);
            if enough || at.after(ENDING_KEPT_MS) > now {
                return;
            }
            self.order.pop_front();
            // The attempt may have been forgotten by `get`, made anew and ended again before its turn came here.
            if self.by_key.get(&key).is_some_and(|ending| ending.at == at) {
                self.by_key.remove(&key);
                forgotten += 1;
                last = Some(at);
            }
        }
    }

    pub(crate) fn map(&self) -> &OrdMap<AttemptKey, Ending> {
        &self.by_key
    }

    pub(crate) fn restore(by_key: OrdMap<AttemptKey, Ending>) -> Self {
        let mut order: Vec<_> = by_key.iter().map(|(key, ending)| (ending.at, *key)).collect();
        order.sort_unstable();
        Self { by_key, order: order.into() }
    }
}
