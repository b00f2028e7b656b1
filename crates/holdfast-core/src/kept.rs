//! What a lock keeps while nobody holds it: that nobody may for a while, and that a run was completed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ending::Cause;
use crate::ids::{AttemptKey, Fence};
use crate::lock::{Hold, Lock};
use crate::name::{LockName, Owner};
use crate::outcome::Rejection;
use crate::table::LockTable;
use crate::terms::Terms;
use crate::time::ClusterTime;

/// Something of it is there, or the lock has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Until then nobody is granted the lock.
    pub(crate) delayed_until: Option<ClusterTime>,
    pub(crate) done: Option<Done>,
}

/// A run that was completed, while its period lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
    /// When its holder said so.
    pub(crate) at: ClusterTime,
    /// The end of the period, which began with the grant.
    pub(crate) until: ClusterTime,
}

impl Done {
    fn rejection(&self, now: ClusterTime) -> Rejection {
        Rejection::AlreadyDone {
            owner: self.owner.clone(),
            fence: self.fence,
            next_in_ms: self.until.since(now),
            done_ms_ago: now.since(self.at),
        }
    }
}

/// A run that was completed, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneView {
    /// Whose it was.
    pub owner: Owner,
    /// Of its hold.
    pub fence: Fence,
    /// When the period is over, in milliseconds.
    pub next_in_ms: u64,
    /// How long ago it was completed, in milliseconds.
    pub done_ms_ago: u64,
}

impl LockTable {
    /// The completed run of a lock, while its period lasts; `now` as for [`LockTable::view`].
    pub fn done_run(&self, name: &LockName, now: ClusterTime) -> Option<DoneView> {
        let now = now.max(self.now);
        let done = self.locks.get(name)?.kept.as_ref()?.done.as_ref().filter(|done| done.until > now)?;
        Some(DoneView {
            owner: done.owner.clone(),
            fence: done.fence,
            next_in_ms: done.until.since(now),
            done_ms_ago: now.since(done.at),
        })
    }
}

/// When what locks keep is over, in that order. Derived: not part of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptUntil {
    delays: BTreeSet<(ClusterTime, LockName)>,
    periods: BTreeSet<(ClusterTime, LockName)>,
}

impl KeptUntil {
    pub(crate) fn next_due(&self) -> Option<ClusterTime> {
        let firsts = [self.delays.first(), self.periods.first()];
        firsts.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Whether nothing but periods is running.
    pub(crate) fn has_no_delay(&self) -> bool {
        self.delays.is_empty()
    }

    fn pop(&mut self) -> Option<(ClusterTime, LockName)> {
        let set = match (self.delays.first(), self.periods.first()) {
            (Some((delay, _)), Some((period, _))) if delay > period => &mut self.periods,
            (None, _) => &mut self.periods,
            _ => &mut self.delays,
        };
        set.pop_first()
    }

    /// Takes what a lock out of a snapshot keeps.
    pub(crate) fn restore(&mut self, name: &LockName, kept: &Kept) {
        self.delays.extend(kept.delayed_until.map(|until| (until, name.clone())));
        self.periods.extend(kept.done.as_ref().map(|done| (done.until, name.clone())));
    }
}

impl Lock {
    /// Until when nobody is granted it. What is over is not there any more.
    pub(crate) fn delayed_until(&self) -> Option<ClusterTime> {
        self.kept.as_ref()?.delayed_until
    }

    pub(crate) fn is_delayed(&self) -> bool {
        self.delayed_until().is_some()
    }

    fn done(&self) -> Option<&Done> {
        self.kept.as_ref()?.done.as_ref()
    }

    fn keeps(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }
}

impl LockTable {
    /// An ending that the holder did not want keeps others out for the delay that it had asked for.
    pub(crate) fn note_delay(&mut self, name: &LockName, hold: &Hold, cause: Cause) {
        let delay_ms = hold.terms().map_or(0, |terms| terms.delay_ms());
        let is_unwanted = matches!(cause, Cause::Expired | Cause::SessionExpired | Cause::Forced);
        if delay_ms == 0 || !is_unwanted {
            return;
        }
        let until = self.now.after(delay_ms);
        let kept = self.lock_entry(name).keeps();
        let former = kept.delayed_until;
        if former.is_none_or(|former| former < until) {
            kept.delayed_until = Some(until);
            self.kept.delays.extend([(until, name.clone())]);
            former.map(|former| self.kept.delays.remove(&(former, name.clone())));
        }
    }

    /// The holder has completed its run: nobody needs to make another one until its period is over, and those who wait
    /// to make one are told so.
    pub(crate) fn note_done(&mut self, name: &LockName, key: &AttemptKey) {
        let hold =
            self.locks.get(name).and_then(|lock| lock.hold(key)).expect("the caller has seen the hold");
        let Some(period_ms) = hold.terms().and_then(|terms| terms.period_ms()) else { return };
        let until = hold.granted_at.after(period_ms);
        let done = Done { owner: hold.owner.clone(), fence: hold.fence, at: self.now, until };
        let former = self.locks.get(name).and_then(|lock| lock.done()).map(|done| done.until);
        if until <= self.now || former.is_some_and(|former| former > until) {
            return;
        }
        let lock = self.lock_entry(name);
        lock.keeps().done = Some(done);
        let is_one = |terms: &Terms| terms.period_ms().is_some();
        let waiting = lock.waiters().filter(|waiter| waiter.terms.as_deref().is_some_and(is_one));
        let told: Vec<_> = waiting.map(|waiter| waiter.ticket).collect();
        former.map(|former| self.kept.periods.remove(&(former, name.clone())));
        self.kept.periods.extend([(until, name.clone())]);
        for ticket in told {
            let waiter = self.lock_mut(name).and_then(|lock| lock.remove_waiter(ticket));
            self.note_left(name, waiter.expect("it was there a moment ago"), Cause::AlreadyDone);
        }
    }

    /// Whether an attempt on these terms has nothing to do: what an attempt is told then.
    pub(crate) fn check_not_done(&self, name: &LockName, terms: Option<&Terms>) -> Result<(), Rejection> {
        match self.already_done(name).filter(|_| terms.is_some_and(|terms| terms.period_ms().is_some())) {
            Some(rejection) => Err(rejection),
            None => Ok(()),
        }
    }

    /// What is told of the run that was completed at this lock, while its period lasts.
    pub fn already_done(&self, name: &LockName) -> Option<Rejection> {
        self.locks.get(name)?.done().map(|done| done.rejection(self.now))
    }

    /// Whether this is the grant of the run that was completed.
    pub(crate) fn is_done_by(&self, name: &LockName, fence: Fence) -> bool {
        self.locks.get(name).and_then(|lock| lock.done()).is_some_and(|done| done.fence == fence)
    }

    /// Ends what is over first of all that locks keep.
    pub(crate) fn end_first_kept(&mut self) {
        let Some((at, name)) = self.kept.pop() else { return };
        let Some(lock) = self.lock_mut(&name) else { return };
        if let Some(kept) = &mut lock.kept {
            kept.delayed_until = kept.delayed_until.filter(|until| *until > at);
            kept.done = kept.done.take().filter(|done| done.until > at);
            if **kept == Kept::default() {
                lock.kept = None;
            }
        }
        self.settle(&name);
    }
}
