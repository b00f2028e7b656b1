//! The clients that wait at this node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use holdfast_core::{AttemptKey, Cause, Event, Grant, Happening, Home, LockName, LockTable, NodeId, Op};
use tokio::sync::mpsc;

use crate::effects::Position;

/// So many calls are remembered as told: more than a node can be behind with.
const TOLD_MAX: usize = 100_000;

/// What happened to an attempt, for the call that waits for it.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// It got the lock.
    Acquired {
        grant: Grant,
        at: Position,
        /// The grant has to be claimed before the client is told.
        from_queue: bool,
    },
    /// It left the queue.
    Left(Cause),
    /// Its hold ended.
    Ended(Cause),
}

/// One call that waits.
#[derive(Debug)]
struct Call {
    number: u32,
    lock: LockName,
    tell: mpsc::UnboundedSender<Notice>,
}

/// Which calls wait at this node, and for what.
#[derive(Debug)]
pub(crate) struct Waiters {
    node: NodeId,
    boot: u32,
    calls: Mutex<BTreeMap<AttemptKey, Vec<Call>>>,
    /// Calls that the leader itself has told of their grant, the latest ones.
    told: Mutex<BTreeSet<u32>>,
    /// Commands that nobody waits for.
    errands: mpsc::UnboundedSender<Op>,
}

impl Waiters {
    pub(crate) fn new(node: NodeId, boot: u32, errands: mpsc::UnboundedSender<Op>) -> Self {
        Self { node, boot, calls: Mutex::default(), told: Mutex::default(), errands }
    }

    /// Hears from now on what happens to the attempt.
    pub(crate) fn register(
        &self,
        key: AttemptKey,
        lock: LockName,
        number: u32,
    ) -> mpsc::UnboundedReceiver<Notice> {
        let (tell, told) = mpsc::unbounded_channel();
        self.lock().entry(key).or_default().push(Call { number, lock, tell });
        told
    }

    pub(crate) fn deregister(&self, key: &AttemptKey, number: u32) {
        let mut calls = self.lock();
        if let Some(of_key) = calls.get_mut(key) {
            of_key.retain(|call| call.number != number);
            if of_key.is_empty() {
                calls.remove(key);
            }
        }
    }

    /// The leader's answer to a call that is ready to wait is a grant: this node may apply it only when the call is over.
    ///
    /// A call that was proposed twice may be granted from the queue between the two, and the second answer tells of it.
    pub(crate) fn note_told(&self, number: u32) {
        let mut told = self.told.lock().expect("no code panics while it holds this");
        told.insert(number);
        if told.len() > TOLD_MAX {
            told.pop_first();
        }
    }

    fn is_told(&self, number: u32) -> bool {
        self.told.lock().expect("no code panics while it holds this").contains(&number)
    }

    /// How many attempts have a client here.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Passes an event on to the calls that it concerns.
    ///
    /// Of a grant from the queue this node gives up at once its own calls whose client has gone.
    pub(crate) fn tell(&self, at: Position, event: &Event, table: &LockTable) {
        let calls = self.lock();
        let of_key = calls.get(&event.key).map_or(&[][..], Vec::as_slice);
        if let Some(notice) = notice_of(at, event) {
            for call in of_key {
                let _ = call.tell.send(notice.clone()); // A call that has ended deregisters itself.
            }
        }
        if let Happening::Acquired { fence, from_queue: true, .. } = event.what {
            let mine = table.unclaimed_calls(&event.lock, fence).filter(|home| self.is_mine(*home));
            for home in mine.filter(|home| !of_key.iter().any(|call| call.number == home.call)) {
                self.give_up(event, home);
            }
        }
    }

    fn is_mine(&self, home: Home) -> bool {
        home.node == self.node && home.boot == self.boot
    }

    fn give_up(&self, event: &Event, home: Home) {
        if !self.is_told(home.call) {
            let abandon = Op::Abandon { lock: event.lock.clone(), key: event.key, home };
            let _ = self.errands.send(abandon); // Closed only at shutdown.
        }
    }

    /// The state was replaced by a newer one: tells each call how its attempt stands in it.
    pub(crate) fn resync(&self, at: Position, table: &LockTable) {
        for (key, of_key) in self.lock().iter() {
            for call in of_key {
                let notice = match table.standing(&call.lock, key) {
                    holdfast_core::Standing::Held(grant) => Notice::Acquired { grant, at, from_queue: true },
                    holdfast_core::Standing::Queued => continue,
                    holdfast_core::Standing::Ended(cause) => Notice::Ended(cause),
                    // It may not have come that far yet, or its wait is over.
                    holdfast_core::Standing::Unknown => continue,
                };
                let _ = call.tell.send(notice);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<AttemptKey, Vec<Call>>> {
        self.calls.lock().expect("no code panics while it holds this")
    }
}

fn notice_of(at: Position, event: &Event) -> Option<Notice> {
    match &event.what {
        Happening::Queued | Happening::Changed { .. } => None,
        Happening::Left(cause) => Some(Notice::Left(*cause)),
        Happening::Ended { cause, .. } => Some(Notice::Ended(*cause)),
        Happening::Acquired { fence, ttl, expires_in_ms, metadata, from_queue, max_left_ms, .. } => {
            Some(Notice::Acquired {
                grant: Grant {
                    fence: *fence,
                    owner: event.owner.clone(),
                    ttl: *ttl,
                    expires_in_ms: *expires_in_ms,
                    metadata: metadata.clone(),
                    max_left_ms: *max_left_ms,
                },
                at,
                from_queue: *from_queue,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Acquire, ClusterTime, Group, Metadata, Owner, Ttl, Wait};

    use super::*;

    const HOLDER: AttemptKey = AttemptKey([1; 16]);
    const WAITER: AttemptKey = AttemptKey([2; 16]);

    fn home(node: u64, call: u32) -> Home {
        Home { node: NodeId(node), boot: 1, call }
    }

    fn lock() -> LockName {
        LockName::new("db").unwrap()
    }

    fn acquire(key: AttemptKey, home: Home) -> Op {
        Op::Acquire(Acquire {
            lock: lock(),
            key,
            owner: Owner::default(),
            ttl: Ttl::default(),
            wait: Wait::from_ms(60_000).unwrap(),
            metadata: Metadata::default(),
            home,
        })
    }

    /// The waiter has asked through nodes 1 and 2 when the lock becomes his.
    fn granted_to_one_who_asked_twice() -> (LockTable, Event) {
        let mut table = LockTable::default();
        let ops = [
            Op::Vouch { node: NodeId(1), boot: 1 },
            Op::Vouch { node: NodeId(2), boot: 1 },
            acquire(HOLDER, home(1, 1)),
            acquire(WAITER, home(1, 7)),
            acquire(WAITER, home(2, 9)),
            Op::Release { lock: lock(), key: HOLDER },
        ];
        let mut applied = table.apply(&Group { now: ClusterTime(10), ops: ops.into() });
        (table, applied.events.pop().unwrap())
    }

    fn told(number: Option<u32>, has_answered: bool) -> Vec<Op> {
        let (errands, mut run) = mpsc::unbounded_channel();
        let waiters = Waiters::new(NodeId(2), 1, errands);
        let (table, granted) = granted_to_one_who_asked_twice();
        let _told = number.map(|number| waiters.register(WAITER, lock(), number));
        if has_answered {
            waiters.note_told(9);
        }
        waiters.tell(Position { term: 1, index: 1 }, &granted, &table);
        std::iter::from_fn(|| run.try_recv().ok()).collect()
    }

    #[test]
    fn a_node_gives_up_its_own_call_of_a_grant_whose_client_has_gone_though_another_node_has_one_too() {
        assert_eq!(told(None, false), [Op::Abandon { lock: lock(), key: WAITER, home: home(2, 9) }]);
    }

    #[test]
    fn a_call_of_a_grant_is_given_up_though_a_newer_one_of_the_attempt_waits_here() {
        assert_eq!(told(Some(12), false), [Op::Abandon { lock: lock(), key: WAITER, home: home(2, 9) }]);
    }

    #[test]
    fn a_call_that_waits_or_was_told_by_the_leader_keeps_its_grant() {
        assert_eq!(told(Some(9), false), []);
        assert_eq!(told(None, true), []);
    }
}
