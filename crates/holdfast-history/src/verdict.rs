//! What the checks came to.

use std::sync::Arc;

use serde::Serialize;

use crate::history::{History, Operation};

/// One promise of the service that histories are checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Those who may believe that they hold a lock fit beside each other: one alone, several that share it, or as many as
    /// there are permits for.
    OneHolder,
    /// Fences go up with time, over all locks.
    FenceOrder,
    /// A repeated call has one effect.
    OneEffect,
    /// Nobody is granted a lock before the leases in the way are over, unless they were released.
    NoEarlyGrant,
    /// No lease lasts longer than promised.
    NoLateExpiry,
    /// Nothing that was acknowledged is lost within its lease.
    NothingLost,
    /// What has ended stays ended.
    NoRevival,
    /// First come, first served.
    QueueOrder,
    /// For each lock there is one order of all that happened that explains every answer.
    Linearizable,
}

impl Check {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 9] = [
        Self::OneHolder,
        Self::FenceOrder,
        Self::OneEffect,
        Self::NoEarlyGrant,
        Self::NoLateExpiry,
        Self::NothingLost,
        Self::NoRevival,
        Self::QueueOrder,
        Self::Linearizable,
    ];

    /// For programs; as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneHolder => "one_holder",
            Self::FenceOrder => "fence_order",
            Self::OneEffect => "one_effect",
            Self::NoEarlyGrant => "no_early_grant",
            Self::NoLateExpiry => "no_late_expiry",
            Self::NothingLost => "nothing_lost",
            Self::NoRevival => "no_revival",
            Self::QueueOrder => "queue_order",
            Self::Linearizable => "linearizable",
        }
    }

    /// What must hold, for people.
    pub fn promise(self) -> &'static str {
        match self {
            Self::OneHolder => "those who may believe that they hold a lock fit beside each other",
            Self::FenceOrder => "a grant that is asked for after another was told has the higher fence",
            Self::OneEffect => "a repeated call has one effect",
            Self::NoEarlyGrant => "nobody is granted a lock within a lease that is in the way",
            Self::NoLateExpiry => "a lease ends at most 1 s after its TTL while a leader serves",
            Self::NothingLost => "an acknowledged hold is there for its whole lease",
            Self::NoRevival => "a hold that has ended does not come back",
            Self::QueueOrder => "who waits is served in the order of the queue",
            Self::Linearizable => "one order of all that happened explains every answer",
        }
    }
}

/// A few operations that contradict each other.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What is broken.
    pub check: Check,
    /// The lock.
    pub lock: Arc<str>,
    /// What is wrong, in a sentence.
    pub what: String,
    /// The operations, in order of time.
    pub operations: Vec<Operation>,
}

impl Violation {
    pub(crate) fn new(check: Check, what: String, operations: &[&Operation]) -> Self {
        let mut operations: Vec<Operation> =
            operations.iter().map(|operation| (*operation).clone()).collect();
        operations.sort_by_key(|operation| (operation.invoked, operation.completed));
        operations.dedup();
        let lock = operations[0].request.lock().clone();
        Self { check, lock, what, operations }
    }
}

/// A check that could not be made, or not of everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotMade {
    /// Which.
    pub check: Check,
    /// What is missing in the history.
    pub why: String,
}

/// What a history has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls.
    pub operations: usize,
    /// Calls whose outcome nobody knows.
    pub unknown: usize,
    /// Calls that were refused.
    pub refused: usize,
    /// Different grants that somebody was told of.
    pub grants: usize,
    /// Successful reads.
    pub reads: usize,
    /// Locks.
    pub locks: usize,
    /// Clients.
    pub processes: usize,
}

/// What the checks came to.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What was looked at.
    pub counts: Counts,
    /// What is wrong, by check.
    pub violations: Vec<Violation>,
    /// What could not be checked.
    pub not_made: Vec<NotMade>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Violations of one promise.
    pub fn of(&self, check: Check) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(move |violation| violation.check == check)
    }
}

impl Serialize for Violation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut object = serializer.serialize_struct("Violation", 5)?;
        object.serialize_field("check", self.check.name())?;
        object.serialize_field("promise", self.check.promise())?;
        object.serialize_field("lock", &self.lock)?;
        object.serialize_field("what", &self.what)?;
        object.serialize_field("operations", &self.operations)?;
        object.end()
    }
}

impl Counts {
    pub(crate) fn of(history: &History) -> Self {
        use crate::outcome::{Answer, Outcome};
        use std::collections::HashSet;
        let mut counts = Self { operations: history.operations.len(), ..Self::default() };
        let (mut fences, mut locks, mut processes) = (HashSet::new(), HashSet::new(), HashSet::new());
        for operation in &history.operations {
            locks.insert(operation.request.lock());
            processes.insert(&operation.process);
            match &operation.outcome {
                Outcome::Ok(Answer::Granted { fence, .. }) => {
                    fences.insert(*fence);
                }
                Outcome::Ok(Answer::Seen { .. }) => counts.reads += 1,
                Outcome::Ok(Answer::Released { .. } | Answer::Limited { .. } | Answer::Forced { .. }) => {}
                Outcome::Refused(_) => counts.refused += 1,
                Outcome::Unknown { .. } => counts.unknown += 1,
            }
        }
        counts.grants = fences.len();
        counts.locks = locks.len();
        counts.processes = processes.len();
        counts
    }
}
