//! Bugs that can be planted, to see that the simulation finds them.
//!
//! Without the feature `planted-bugs` there are none: [`planted`] is false at compile time and leaves nothing behind. With
//! it a thread that simulates can choose one; the program that serves refuses to be built with it.

use crate::ending::{Cause, Ending};
use crate::event_history::EventHistory;
use crate::ids::{AttemptKey, SessionId};
use crate::lease::{Asked, Lease, Term};
use crate::lock::{Hold, Lock, Waiter};
use crate::name::{LockName, Metadata, Owner};
use crate::share::{Permits, Share};
use crate::table::LockTable;
use crate::time::{ClusterTime, Ttl};

/// A bug that can be planted. Each stands for an error that is easily made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Bug {
    FenceResetBySnapshot,
    FenceKeptInMemory,
    WaiterGrantedTwice,
    WaiterLostInSnapshot,
    ReleaseMatchedByOwner,
    RenewalRevivesExpiredLease,
    TokenForgottenTooEarly,
    QueueServedLastFirst,
    WaitDeadlineIgnored,
    RenewalAddsTtl,
    GoneWaitersNeverSkipped,
    LeaseBeginsWithTheWait,
    RepeatedAcquireGrantsAnew,
    AnyCallAbandons,
    VoteNotSynced,
    LogAcknowledgedBeforeSync,
    PurgeBeyondSnapshot,
    SnapshotInstalledAmidApply,
    LeaseJudgedByWallClock,
    DeposedLeaderExpires,
    OldLeaderReadsStale,
    ClaimNotConfirmed,
    LeaderClockFromZero,
    UnclaimedNeverTakenBack,
    RenewalAnsweredBeforeCommit,
    UnknownTakenForNoEffect,
    WritersShare,
    WriterBesideReaders,
    ReaderPassesWriter,
    PermitsCountedByHolders,
    PermitsLostInSnapshot,
    LimitLostInSnapshot,
    SmallRequestsServedFirst,
    LimitConflictUnnoticed,
    ExpiryEndsAllShares,
    SessionEndFreesHalf,
    SessionEndLetsItselfIn,
    SessionExtendedByWaiter,
    ManyGrantedInHalf,
    RenewalOfManyRenewsFirst,
    CycleSeenInOneOrder,
    CyclesThroughManyUnseen,
    HandOverKeepsOldLeader,
    HandOverToAnyCandidate,
    ProclaimRenews,
    EventLostInSnapshot,
    EventRepeatedAfterSnapshot,
    RestOfEntryUntold,
    ForcedHoldRenewed,
    ForceIgnoresFence,
    DelayLostInSnapshot,
    DoneLostInSnapshot,
    DoneNotNoted,
    MaxHoldPassedByRenewal,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 54] = [
        Self::FenceResetBySnapshot,
        Self::FenceKeptInMemory,
        Self::WaiterGrantedTwice,
        Self::WaiterLostInSnapshot,
        Self::ReleaseMatchedByOwner,
        Self::RenewalRevivesExpiredLease,
        Self::TokenForgottenTooEarly,
        Self::QueueServedLastFirst,
        Self::WaitDeadlineIgnored,
        Self::RenewalAddsTtl,
        Self::GoneWaitersNeverSkipped,
        Self::LeaseBeginsWithTheWait,
        Self::RepeatedAcquireGrantsAnew,
        Self::AnyCallAbandons,
        Self::VoteNotSynced,
        Self::LogAcknowledgedBeforeSync,
        Self::PurgeBeyondSnapshot,
        Self::SnapshotInstalledAmidApply,
        Self::LeaseJudgedByWallClock,
        Self::DeposedLeaderExpires,
        Self::OldLeaderReadsStale,
        Self::ClaimNotConfirmed,
        Self::LeaderClockFromZero,
        Self::UnclaimedNeverTakenBack,
        Self::RenewalAnsweredBeforeCommit,
        Self::UnknownTakenForNoEffect,
        Self::WritersShare,
        Self::WriterBesideReaders,
        Self::ReaderPassesWriter,
        Self::PermitsCountedByHolders,
        Self::PermitsLostInSnapshot,
        Self::LimitLostInSnapshot,
        Self::SmallRequestsServedFirst,
        Self::LimitConflictUnnoticed,
        Self::ExpiryEndsAllShares,
        Self::SessionEndFreesHalf,
        Self::SessionEndLetsItselfIn,
        Self::SessionExtendedByWaiter,
        Self::ManyGrantedInHalf,
        Self::RenewalOfManyRenewsFirst,
        Self::CycleSeenInOneOrder,
        Self::CyclesThroughManyUnseen,
        Self::HandOverKeepsOldLeader,
        Self::HandOverToAnyCandidate,
        Self::ProclaimRenews,
        Self::EventLostInSnapshot,
        Self::EventRepeatedAfterSnapshot,
        Self::RestOfEntryUntold,
        Self::ForcedHoldRenewed,
        Self::ForceIgnoresFence,
        Self::DelayLostInSnapshot,
        Self::DoneLostInSnapshot,
        Self::DoneNotNoted,
        Self::MaxHoldPassedByRenewal,
    ];
}

/// Whether bugs can be planted in this build.
pub const POSSIBLE: bool = cfg!(feature = "planted-bugs");

/// Whether this bug is planted.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub use self::switch::{plant, planted, set_wall_clock, wall_clock_ms};

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static WALL_CLOCK: Cell<fn() -> u64> = const { Cell::new(|| 0) };
    }

    /// Plants a bug for this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is planted on this thread.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Where [`Bug::LeaseJudgedByWallClock`] gets its time from, on this thread.
    pub fn set_wall_clock(clock: fn() -> u64) {
        WALL_CLOCK.set(clock);
    }

    /// What the wall clock of the running node shows, in milliseconds.
    pub fn wall_clock_ms() -> u64 {
        WALL_CLOCK.get()()
    }
}

/// What the wall clock of the running node shows: nobody who serves asks for it.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
pub const fn wall_clock_ms() -> u64 {
    0
}

/// What only a planted bug does.
impl LockTable {
    /// What is left of the fences where nobody keeps their number.
    pub(crate) fn highest_held(&self) -> u64 {
        let holders = self.locks.values().flat_map(|lock| &lock.holders);
        holders.map(|hold| hold.fence.0).max().unwrap_or(0)
    }

    /// Nobody is left who holds the lock.
    pub(crate) fn expire_all(&mut self, name: &LockName) {
        let holders = self.lock_mut(name).map(|lock| std::mem::take(&mut lock.holders));
        for hold in holders.into_iter().flatten() {
            self.note_end(name, hold, Cause::Expired);
        }
    }

    /// All holds of a session but the first get a lease of their own.
    pub(crate) fn let_all_but_one_go_on(&mut self, id: SessionId, ttl: Ttl) {
        for (ticket, name) in self.sessions.contents(id).holds.clone().into_iter().skip(1) {
            let term = Term::begin(self.now, ttl);
            let lock = self.lock_mut(&name);
            let hold = lock.and_then(|lock| lock.holders.iter_mut().find(|hold| hold.ticket == ticket));
            if let Some(hold) = hold {
                hold.lease = term.into();
                self.set_deadline(Some(term.deadline), ticket, &name);
                self.sessions.remove(Some(id), ticket);
            }
        }
    }

    /// The holds of a session end, and others are let in, while the session still waits for some locks. How many there
    /// were.
    pub(crate) fn end_holds_first(&mut self, id: SessionId, cause: Cause) -> u64 {
        let holds = self.sessions.contents(id).holds.clone();
        let released = holds.len() as u64;
        for (ticket, name) in holds {
            let hold = self.lock_mut(&name).and_then(|lock| lock.remove_hold(|hold| hold.ticket == ticket));
            if let Some(hold) = hold {
                self.note_end(&name, hold, cause);
                self.settle(&name);
            }
        }
        released
    }

    /// A session lives on because one that waits in it has asked again.
    pub(crate) fn extend_session_of(&mut self, asked: Asked) {
        let now = self.now;
        let Some(id) = asked.session() else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let former = session.term;
        session.term = former.renewed(now, None);
        let deadline = session.term.deadline;
        self.timers.clear_session(former.deadline, id);
        self.timers.set_session(deadline, id);
    }

    /// Another fence for the same hold.
    pub(crate) fn grant_anew(&mut self, lock: &LockName, key: &AttemptKey) {
        let fence = self.next_fence();
        let hold = self.lock_mut(lock).and_then(|lock| lock.hold_mut(key));
        if let (Some(fence), Some(hold)) = (fence, hold) {
            hold.fence = fence;
        }
    }

    /// A free lock goes back to the one whose hold has ended like this.
    pub(crate) fn revive(&mut self, lock: &LockName, key: &AttemptKey, cause: Cause) {
        let is_free = self.locks.get(lock).is_none_or(|lock| lock.is_unused());
        let ending = self.endings.get(key, self.now).filter(|ending| ending.cause == cause);
        let Some(fence) = ending.and_then(Ending::fence).filter(|_| is_free) else { return };
        let hold = Hold {
            ticket: self.next_ticket(),
            key: *key,
            owner: Owner::default(),
            fence,
            lease: Lease::begin(Asked::Ttl(Ttl::default()), self.now),
            asked_ttl: Ttl::default(),
            granted_at: self.now,
            unclaimed: None,
            told: None,
            share: Share::Exclusive,
            metadata: Metadata::default(),
            asked_metadata: None,
            on_terms: None,
        };
        self.admit(lock, hold, false, None);
    }
}

impl EventHistory {
    /// As it comes out of a snapshot that has lost something, or was put behind what was there.
    pub(crate) fn with_losses(mut self) -> Self {
        if planted(Bug::EventLostInSnapshot) {
            self.kept.pop_back();
        }
        if planted(Bug::EventRepeatedAfterSnapshot)
            && let Some(last) = self.kept.last().cloned()
        {
            self.kept.push_back(last);
        }
        self
    }

    /// From where on the next entry is told: whoever has been told of a part of one is taken to know all of it.
    pub(crate) fn after_entry_at(&self, from: usize) -> usize {
        let Some(told) = from.checked_sub(1).and_then(|at| self.kept.get(at)) else { return from };
        from + self.kept.skip(from).iter().take_while(|event| event.at == told.at).count()
    }
}

impl Waiter {
    /// Whether it keeps its place although it is granted: while its wait lasts, and while the lock is then full, so that
    /// it gets it once each time.
    pub(crate) fn goes_on_waiting(&self, now: ClusterTime) -> bool {
        self.waiting.until > now && self.share == Share::Exclusive
    }
}

impl Lock {
    /// As it comes out of a snapshot that has lost something.
    pub(crate) fn with_losses(&self) -> Self {
        let mut lock = self.clone();
        if planted(Bug::WaiterLostInSnapshot) {
            lock.queue = None;
        }
        if planted(Bug::LimitLostInSnapshot) {
            lock.limit = None;
        }
        if let Some(kept) = &mut lock.kept {
            kept.delayed_until = kept.delayed_until.filter(|_| !planted(Bug::DelayLostInSnapshot));
            kept.done = kept.done.take().filter(|_| !planted(Bug::DoneLostInSnapshot));
        }
        if planted(Bug::PermitsLostInSnapshot) {
            lock.holders.iter_mut().for_each(Hold::lose_permits);
        }
        lock
    }

    /// Whether an attempt is let in although it does not fit.
    pub(crate) fn is_let_in_wrongly(&self, share: Share) -> bool {
        let all_are = |wanted: Share| self.holders.iter().all(|hold| hold.share == wanted);
        match share {
            Share::Exclusive => {
                planted(Bug::WritersShare) && all_are(Share::Exclusive)
                    || planted(Bug::WriterBesideReaders) && all_are(Share::Shared)
            }
            Share::Shared => false,
            Share::Permits(permits) => {
                planted(Bug::PermitsCountedByHolders)
                    && self.holders.len() as u64 + u64::from(permits.taken())
                        <= u64::from(self.limit.unwrap_or(0))
            }
        }
    }
}

impl Hold {
    /// One permit is left of several.
    fn lose_permits(&mut self) {
        if let Share::Permits(permits) = self.share
            && let Ok(one) = Permits::new(permits.limit().into(), 1)
        {
            self.share = Share::Permits(one);
        }
    }

    /// Whether an attempt is taken for the one that holds, having the same owner. The simulation's keys begin with two
    /// bytes that say whose they are.
    pub(crate) fn is_taken_for(&self, key: &AttemptKey) -> bool {
        planted(Bug::ReleaseMatchedByOwner) && self.key.0[..2] == key.0[..2]
    }
}
