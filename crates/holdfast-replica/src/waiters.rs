//! The clients that wait at this node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use holdfast_core::{
    AttemptKey, Cause, Event, Fence, Grant, Happening, Home, LockName, LockTable, NodeId, Op,
};
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
    /// A grant from the queue for a client that has gone from this node is given up at once.
    pub(crate) fn tell(&self, at: Position, event: Event) {
        let calls = self.lock();
        match calls.get(&event.key) {
            Some(of_key) => {
                if let Some(notice) = notice_of(at, &event) {
                    for call in of_key {
                        let _ = call.tell.send(notice.clone()); // A call that has ended deregisters itself.
                    }
                }
            }
            None => {
                if let Some(home) = event.home.filter(|home| self.is_mine(*home)) {
                    self.give_up_orphan(event, home);
                }
            }
        }
    }

    fn is_mine(&self, home: Home) -> bool {
        home.node == self.node && home.boot == self.boot
    }

    fn give_up_orphan(&self, event: Event, home: Home) {
        if let Happening::Acquired { from_queue: true, .. } = event.what
            && !self.is_told(home.call)
        {
            let abandon = Op::Abandon { lock: event.lock, key: event.key, home };
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
        Happening::Queued => None,
        Happening::Left(cause) => Some(Notice::Left(*cause)),
        Happening::Ended { cause, .. } => Some(Notice::Ended(*cause)),
        Happening::Acquired { fence, ttl, metadata, from_queue } => Some(Notice::Acquired {
            grant: grant_of(event, *fence, *ttl, metadata.clone()),
            at,
            from_queue: *from_queue,
        }),
    }
}

fn grant_of(
    event: &Event,
    fence: Fence,
    ttl: holdfast_core::Ttl,
    metadata: holdfast_core::Metadata,
) -> Grant {
    Grant { fence, owner: event.owner.clone(), ttl, expires_in_ms: ttl.ms(), metadata }
}
