//! What happens to locks, counted by group as entries are applied: on every node, for the whole cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use holdfast_core::{Cause, Event, Happening, LockTable};

use crate::groups::LockGroups;
use crate::histogram::{Distribution, Histogram};

/// Upper bounds of the buckets for times, in milliseconds.
const BOUNDS_MS: [u64; 13] =
    [5, 25, 100, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000];

/// Counting is a search among the prefixes and a few additions: no lock, no allocation, no map.
#[derive(Debug)]
pub(crate) struct LockCounters {
    groups: Arc<LockGroups>,
    /// In the order of the groups.
    numbers: Vec<GroupCounters>,
    /// What has happened up to this entry was counted before this node started.
    counted_to: u64,
}

#[derive(Debug)]
struct GroupCounters {
    grants: AtomicU64,
    endings: [AtomicU64; Cause::ALL.len()],
    left: [AtomicU64; Cause::ALL.len()],
    held: Histogram<{ BOUNDS_MS.len() }>,
    waited: Histogram<{ BOUNDS_MS.len() }>,
    holders: AtomicI64,
    waiters: AtomicI64,
}

impl Default for GroupCounters {
    fn default() -> Self {
        Self {
            grants: AtomicU64::new(0),
            endings: Default::default(),
            left: Default::default(),
            held: Histogram::new(&BOUNDS_MS),
            waited: Histogram::new(&BOUNDS_MS),
            holders: AtomicI64::new(0),
            waiters: AtomicI64::new(0),
        }
    }
}

/// The numbers of one group of locks. Counts are of the whole cluster, since this node started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupNumbers {
    /// What the group is called.
    pub group: String,
    /// Grants.
    pub grants: u64,
    /// How holds have ended.
    pub endings: Vec<(Cause, u64)>,
    /// How waits have ended without a grant.
    pub left: Vec<(Cause, u64)>,
    /// How long holds lasted, in seconds.
    pub held: Distribution,
    /// How long those who were granted a lock had waited for it, in seconds; of those who did wait.
    pub waited: Distribution,
    /// How many hold a lock now.
    pub holders: u64,
    /// How many wait for a lock now, there or not.
    pub waiters: u64,
}

impl LockCounters {
    /// `counted_to`: index of the last entry that is in the log at the start.
    pub(crate) fn new(groups: Arc<LockGroups>, counted_to: u64) -> Self {
        let numbers = groups.names().map(|_| GroupCounters::default()).collect();
        Self { groups, numbers, counted_to }
    }

    /// Something has happened in this entry.
    pub(crate) fn count(&self, index: u64, event: &Event) {
        let group = &self.numbers[self.groups.of(event.lock.as_str())];
        let change = event.what.change();
        group.holders.fetch_add(change.holders, Ordering::Relaxed);
        group.waiters.fetch_add(change.waiters, Ordering::Relaxed);
        if index > self.counted_to {
            group.count(&event.what);
        }
    }

    /// The whole state was replaced.
    pub(crate) fn recount(&self, table: &LockTable) {
        let mut crowds = vec![(0, 0); self.numbers.len()];
        for (lock, holders, waiters) in table.crowds() {
            let crowd = &mut crowds[self.groups.of(lock.as_str())];
            *crowd = (crowd.0 + holders, crowd.1 + waiters);
        }
        for (group, (holders, waiters)) in self.numbers.iter().zip(crowds) {
            group.holders.store(holders.cast_signed(), Ordering::Relaxed);
            group.waiters.store(waiters.cast_signed(), Ordering::Relaxed);
        }
    }

    pub(crate) fn groups(&self) -> &Arc<LockGroups> {
        &self.groups
    }

    /// Of all groups together.
    pub(crate) fn grants(&self) -> u64 {
        self.numbers.iter().map(|group| group.grants.load(Ordering::Relaxed)).sum()
    }

    /// How holds have ended, of all groups together: what has happened only.
    pub(crate) fn endings(&self) -> BTreeMap<&'static str, u64> {
        let sum = |cause: Cause| {
            self.numbers.iter().map(|group| group.endings[cause as usize].load(Ordering::Relaxed)).sum()
        };
        let sums = Cause::ALL.into_iter().map(|cause| (cause.as_str(), sum(cause)));
        sums.filter(|(_, count)| *count > 0).collect()
    }

    /// All groups, in their order.
    pub(crate) fn read(&self) -> Vec<GroupNumbers> {
        self.groups.names().zip(&self.numbers).map(|(name, group)| group.read(name)).collect()
    }
}

impl GroupCounters {
    fn count(&self, what: &Happening) {
        match what {
            Happening::Acquired { waited_ms, .. } => {
                self.grants.fetch_add(1, Ordering::Relaxed);
                waited_ms.iter().for_each(|ms| self.waited.count(*ms));
            }
            Happening::Ended { cause, held_ms, .. } => {
                self.endings[*cause as usize].fetch_add(1, Ordering::Relaxed);
                self.held.count(*held_ms);
            }
            Happening::Left(cause) => {
                self.left[*cause as usize].fetch_add(1, Ordering::Relaxed);
            }
            Happening::Queued | Happening::Changed { .. } => {}
        }
    }

    fn read(&self, name: &str) -> GroupNumbers {
        let of = |counts: &[AtomicU64], is_shown: fn(Cause) -> bool| {
            let causes = Cause::ALL.into_iter().filter(|cause| is_shown(*cause));
            causes.map(|cause| (cause, counts[cause as usize].load(Ordering::Relaxed))).collect()
        };
        let now = |gauge: &AtomicI64| u64::try_from(gauge.load(Ordering::Relaxed)).unwrap_or(0);
        GroupNumbers {
            group: name.into(),
            grants: self.grants.load(Ordering::Relaxed),
            endings: of(&self.endings, Cause::ends_holds),
            left: of(&self.left, Cause::ends_waits),
            held: self.held.read(),
            waited: self.waited.read(),
            holders: now(&self.holders),
            waiters: now(&self.waiters),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{
        Acquire, AttemptKey, ClusterTime, Fence, Group, Home, LockName, Metadata, NodeId, Op, Owner, Ttl,
        Wait,
    };
    use proptest::prelude::*;

    use super::*;

    const LOCKS: [&str; 4] = ["jobs/1", "jobs/2", "invoices/1", "else"];

    fn groups() -> Arc<LockGroups> {
        Arc::new(LockGroups::new(["jobs/", "invoices/"]).unwrap())
    }

    /// Of attempt `n`, at the lock that it is at.
    fn acquire(n: u8, wait_ms: u64) -> Op {
        Op::Acquire(Acquire {
            lock: lock_of(n),
            key: AttemptKey([n; 16]),
            owner: Owner::default(),
            ttl: Ttl::from_ms(1_000).unwrap(),
            wait: Wait::from_ms(wait_ms).unwrap(),
            metadata: Metadata::default(),
            home: home(n),
        })
    }

    fn lock_of(n: u8) -> LockName {
        LockName::new(LOCKS[usize::from(n) % LOCKS.len()]).unwrap()
    }

    fn home(n: u8) -> Home {
        Home { node: NodeId(1), boot: 1, call: n.into() }
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (1..20_u8, prop_oneof![Just(0), Just(700), Just(60_000)]).prop_map(|(n, wait)| acquire(n, wait)),
            2 => (1..20_u8).prop_map(|n| Op::Release { lock: lock_of(n), key: AttemptKey([n; 16]) }),
            1 => (1..20_u8).prop_map(|n| Op::Abandon { lock: lock_of(n), key: AttemptKey([n; 16]), home: home(n) }),
            1 => (1..4_u8, 1..60_u64).prop_map(|(n, fence)| Op::Unclaim { lock: lock_of(n), fence: Fence(fence) }),
            1 => Just(Op::Vouch { node: NodeId(1), boot: 1 }),
        ]
    }

    proptest! {
        #[test]
        fn the_numbers_of_holders_and_waiters_never_drift(
            script in prop::collection::vec((0..900_u64, op()), 1..120),
        ) {
            let mut table = LockTable::default();
            let counters = LockCounters::new(groups(), 0);
            let mut now = 0;
            for (index, (later, op)) in (1..).zip(script) {
                now += later;
                let applied = table.apply(&Group { now: ClusterTime(now), ops: vec![op] });
                applied.events.iter().for_each(|event| counters.count(index, event));
                let anew = LockCounters::new(groups(), 0);
                anew.recount(&table);
                for (counted, there) in counters.read().iter().zip(anew.read()) {
                    prop_assert_eq!((counted.holders, counted.waiters), (there.holders, there.waiters));
                    let ended: u64 = counted.endings.iter().map(|(_, count)| count).sum();
                    prop_assert_eq!(counted.grants, ended + counted.holders);
                    prop_assert_eq!(ended, counted.held.count());
                }
            }
        }
    }

    #[test]
    fn what_was_counted_before_a_restart_only_moves_the_gauges() {
        let mut table = LockTable::default();
        let counters = LockCounters::new(groups(), 2);
        let ops = [
            acquire(1, 0),
            Op::Release { lock: lock_of(1), key: AttemptKey([1; 16]) },
            acquire(2, 0),
            acquire(5, 0),
        ];
        for (index, op) in (1..).zip(ops) {
            let applied = table.apply(&Group { now: ClusterTime(10), ops: vec![op] });
            applied.events.iter().for_each(|event| counters.count(index, event));
        }
        let numbers = counters.read();
        let of = |name: &str| numbers.iter().find(|group| group.group == name).unwrap();
        let other = of("jobs/");
        assert_eq!((of("invoices/").holders, of("invoices/").grants), (1, 1));
        assert_eq!((other.holders, other.grants, other.held.count()), (1, 1, 0), "{other:?}");
        assert_eq!((counters.grants(), counters.endings().len()), (2, 0));
    }
}
