//! What must be true after every entry, whatever the model says: told from what the table says of itself.

use std::collections::BTreeMap;

use holdfast_core::{
    Answer, Applied, AttemptKey, Cause, ClusterTime, Fence, Group, Happening, LockName, LockTable, Op,
};

use crate::script::{LOCKS, lock_name};

/// A hold, as events and answers have told of it.
struct Told {
    key: AttemptKey,
    fence: Fence,
    deadline: ClusterTime,
}

#[derive(Default)]
pub(crate) struct Invariants {
    seq: u64,
    fence: Fence0,
    holds: BTreeMap<LockName, Told>,
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
        }
        self.follow_answers(group, applied, table.now());
        self.check_deadlines(table)?;
        check_locks(table)
    }

    /// One holder at a time, fences that only go up, and no lease that is over too early.
    fn follow(&mut self, event: &holdfast_core::Event, now: ClusterTime) -> Result<(), String> {
        match &event.what {
            Happening::Acquired { fence, ttl, .. } => {
                if fence.0 <= self.fence {
                    return Err(format!("fence {fence} after {}", self.fence));
                }
                self.fence = fence.0;
                let told = Told { key: event.key, fence: *fence, deadline: now.after(ttl.ms()) };
                match self.holds.insert(event.lock.clone(), told) {
                    Some(other) => {
                        Err(format!("{} has two holders: {} and {fence}", event.lock, other.fence))
                    }
                    None => Ok(()),
                }
            }
            Happening::Ended { fence, cause, .. } => match self.holds.remove(&event.lock) {
                Some(told) if told.fence == *fence => match cause {
                    Cause::Expired if told.deadline > now => {
                        Err(format!("{fence} was over before its deadline"))
                    }
                    _ => Ok(()),
                },
                _ => Err(format!("{fence} has ended and did not hold {}", event.lock)),
            },
            Happening::Queued | Happening::Left(_) => Ok(()),
        }
    }

    /// Renewals are no events: their answers tell the new deadline.
    fn follow_answers(&mut self, group: &Group, applied: &Applied, now: ClusterTime) {
        for (op, outcome) in group.ops.iter().zip(&applied.outcomes) {
            let (Op::Acquire(holdfast_core::Acquire { lock, key, .. }) | Op::Renew { lock, key, .. }) = op
            else {
                continue;
            };
            let (Some(told), Ok(Answer::Granted(grant))) = (self.holds.get_mut(lock), outcome) else {
                continue;
            };
            if (told.key, told.fence) == (*key, grant.fence) {
                told.deadline = now.after(grant.expires_in_ms);
            }
        }
    }

    /// No lease lives on after an entry that has reached its deadline, and the leader knows when to speak next.
    fn check_deadlines(&self, table: &LockTable) -> Result<(), String> {
        for (lock, told) in &self.holds {
            if told.deadline <= table.now() {
                return Err(format!("the lease of {lock} should be over since {:?}", told.deadline));
            }
            if table.next_due().is_none_or(|due| due > told.deadline) {
                return Err(format!("the leader would sleep through the deadline of {lock}"));
            }
            if !table.is_held_by(lock, told.fence) {
                return Err(format!("{lock} is not held by {} any more, and nobody was told", told.fence));
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

/// Nobody who is present waits for a free lock.
fn check_locks(table: &LockTable) -> Result<(), String> {
    for name in (0..LOCKS.len()).map(lock_name) {
        let view = table.view(&name, table.now());
        if view.holders.len() > 1 {
            return Err(format!("{name} has {} holders", view.holders.len()));
        }
        if view.holders.is_empty() && view.queue_length > 0 {
            return Err(format!("{name} is free and somebody waits for it"));
        }
    }
    Ok(())
}
