//! What must be true after every entry, whatever the model says: told from what the table says of itself.

use std::collections::BTreeMap;

use holdfast_core::{
    Answer, Applied, AttemptKey, Cause, ClusterTime, Fence, Group, Happening, LockName, LockTable, Op,
    Outcome, Share,
};

use crate::script::{LOCKS, lock_name};

/// A hold, as events and answers have told of it.
struct Told {
    key: AttemptKey,
    deadline: ClusterTime,
}

#[derive(Default)]
pub(crate) struct Invariants {
    seq: u64,
    fence: Fence0,
    holds: BTreeMap<Fence, (LockName, Told)>,
    permits_out: BTreeMap<LockName, u64>,
    delayed_until: BTreeMap<LockName, ClusterTime>,
    /// How many hold each lock and how many wait for it, counted by events.
    crowds: BTreeMap<LockName, (i64, i64)>,
}

/// The last fence that was seen; 0 before the first.
type Fence0 = u64;

impl Invariants {
    pub(crate) fn check(
        &mut self,
        group: &Group,
        applied: &Applied,
        table: &LockTable,
    ) -> Result<(), String> {
        if applied.outcomes.len() != group.ops.len() {
            return Err("not one outcome for each operation".into());
        }
        for event in &applied.events {
            self.seq += 1;
            if event.seq != self.seq {
                return Err(format!("event {} where {} is next", event.seq, self.seq));
            }
            self.follow(event, table.now())?;
            let change = event.what.change();
            let (holders, waiters) = self.crowds.entry(event.lock.clone()).or_default();
            (*holders, *waiters) = (*holders + change.holders, *waiters + change.waiters);
        }
        self.check_crowds(table)?;
        self.follow_answers(group, applied, table);
        self.check_deadlines(table)?;
        self.check_locks(group, table)
    }

    /// Whoever counts events knows how many hold each lock, and how many wait.
    fn check_crowds(&mut self, table: &LockTable) -> Result<(), String> {
        self.crowds.retain(|_, crowd| *crowd != (0, 0));
        let signed = |n: u64| i64::try_from(n).unwrap();
        let there = table.crowds();
        let there = there.map(|(name, holders, waiters)| (name.clone(), (signed(holders), signed(waiters))));
        let there: BTreeMap<_, _> = there.collect();
        match there == self.crowds {
            true => Ok(()),
            false => Err(format!("events tell of {:?}, and there are {there:?}", self.crowds)),
        }
    }

    /// Those who hold a lock fit beside each other, and nobody who is present waits for a free one.
    fn check_locks(&mut self, group: &Group, table: &LockTable) -> Result<(), String> {
        let is_free = |name: LockName| {
            let view = table.view(&name, table.now());
            view.holders.is_empty() && view.delay_ms.is_none()
        };
        let all_are_free = (0..LOCKS.len()).map(lock_name).all(is_free);
        let limit_changes = group.ops.iter().any(|op| matches!(op, Op::SetLimit { .. }));
        for name in (0..LOCKS.len()).map(lock_name) {
            let view = table.view(&name, table.now());
            let shares: Vec<_> = view.holders.iter().map(|holder| holder.share).collect();
            let is_of_one_kind = match view.limit {
                Some(_) => shares.iter().all(|share| matches!(share, Share::Permits(_))),
                None => shares.len() <= 1 || shares.iter().all(|share| *share == Share::Shared),
            };
            if !is_of_one_kind {
                return Err(format!("{name} is held by {shares:?}"));
            }
            if let Some(delay_ms) = view.delay_ms {
                self.delayed_until.insert(name.clone(), table.now().after(delay_ms));
            }
            if view.holders.iter().any(|holder| holder.max_left_ms == Some(0)) {
                return Err(format!("{name} is held for longer than it may be"));
            }
            let out = shares.iter().map(|share| u64::from(share.permits())).sum();
            let before = self.permits_out.insert(name.clone(), out).unwrap_or(0);
            // A limit may be lowered below what is out; then no more come out.
            if !limit_changes && out > before.max(view.limit.unwrap_or(0).into()) {
                return Err(format!("{name} has {out} permits out of {:?}", view.limit));
            }
            // Somebody may wait for others as well.
            if all_are_free && view.queue_length > 0 {
                return Err(format!("{name} and all others are free and somebody waits for it"));
            }
        }
        Ok(())
    }

    /// One holder at a time, fences that only go up, and no lease that is over too early.
    fn follow(&mut self, event: &holdfast_core::Event, now: ClusterTime) -> Result<(), String> {
        match &event.what {
            Happening::Acquired { fence, expires_in_ms, .. } => {
                if fence.0 <= self.fence {
                    return Err(format!("fence {fence} after {}", self.fence));
                }
                self.fence = fence.0;
                if self.delayed_until.get(&event.lock).is_some_and(|until| *until > now) {
                    return Err(format!("fence {fence} in the delay of {}", event.lock));
                }
                let told = Told { key: event.key, deadline: now.after(*expires_in_ms) };
                self.holds.insert(*fence, (event.lock.clone(), told));
                Ok(())
            }
            Happening::Ended { cause, .. } if !cause.ends_holds() => {
                Err(format!("a hold ended by {cause:?}"))
            }
            Happening::Left(cause) if !cause.ends_waits() => Err(format!("a wait ended by {cause:?}")),
            Happening::Ended { fence, cause, .. } => match self.holds.remove(fence) {
                Some((lock, told)) if lock == event.lock => match cause {
                    Cause::Expired if told.deadline > now => {
                        Err(format!("{fence} was over before its deadline"))
                    }
                    _ => Ok(()),
                },
                _ => Err(format!("{fence} has ended and did not hold {}", event.lock)),
            },
            Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => Ok(()),
        }
    }

    /// Renewals are no events: their answers tell the new deadline.
    fn follow_answers(&mut self, group: &Group, applied: &Applied, table: &LockTable) {
        let now = table.now();
        for (op, outcome) in group.ops.iter().zip(&applied.outcomes) {
            if let Op::AcquireOnTerms(attempt) = op {
                self.follow_grant(&attempt.acquire.key, outcome, now);
            }
            let (Op::Acquire(holdfast_core::Acquire { key, .. })
            | Op::AcquireShare(holdfast_core::Acquire { key, .. }, _)
            | Op::AcquireInSession(holdfast_core::Acquire { key, .. }, ..)
            | Op::Renew { key, .. }) = op
            else {
                continue;
            };
            self.follow_grant(key, outcome, now);
        }
        // What was given back before its least hold is over stays until then, whatever its lease was.
        for (fence, (lock, told)) in &mut self.holds {
            let holders = table.view(lock, now).holders;
            if let Some(holder) = holders.iter().find(|holder| holder.fence == *fence && holder.is_releasing)
            {
                told.deadline = now.after(holder.expires_in_ms);
            }
        }
        for outcome in &applied.outcomes {
            let Ok(Answer::GrantedMany(grant)) = outcome else { continue };
            for (lock, fence) in &grant.fences {
                // Each has a deadline of its own; the answer has the first one.
                let holders = table.view(lock, now).holders;
                let Some(holder) = holders.iter().find(|holder| holder.fence == *fence) else { continue };
                if let Some((_, told)) = self.holds.get_mut(fence) {
                    told.deadline = now.after(holder.expires_in_ms);
                }
            }
        }
    }

    fn follow_grant(&mut self, key: &AttemptKey, outcome: &Outcome, now: ClusterTime) {
        let Ok(Answer::Granted(grant)) = outcome else { return };
        if let Some((_, told)) = self.holds.get_mut(&grant.fence).filter(|(_, told)| told.key == *key) {
            told.deadline = now.after(grant.expires_in_ms);
        }
    }

    /// No lease lives on after an entry that has reached its deadline, and the leader knows when to speak next.
    fn check_deadlines(&self, table: &LockTable) -> Result<(), String> {
        for (fence, (lock, told)) in &self.holds {
            let view = table.view(lock, table.now());
            let holder = view.holders.iter().find(|holder| holder.fence == *fence);
            if let Some(session) = holder.and_then(|holder| holder.session) {
                match table.session(session, table.now()) {
                    Some(detail) if detail.session.expires_in_ms > 0 && detail.holds.contains(lock) => {
                        continue;
                    }
                    _ => return Err(format!("{lock} is held by session {session}, which has it no more")),
                }
            }
            if told.deadline <= table.now() {
                return Err(format!("the lease of {lock} should be over since {:?}", told.deadline));
            }
            if table.next_due().is_none_or(|due| due > told.deadline) {
                return Err(format!("the leader would sleep through the deadline of {lock}"));
            }
            if !table.is_held_by(lock, *fence) {
                return Err(format!("{lock} is not held by {fence} any more, and nobody was told"));
            }
        }
        match table.next_due() {
            Some(due) if due <= table.now() => Err("something is due and was not done".into()),
            due if due.is_some() != table.is_busy() => {
                Err("busy without a deadline, or the other way round".into())
            }
            _ => Ok(()),
        }
    }
}
