//! The past of the locks beyond what is replicated: each node keeps the endings that it has seen in its own store.
//!
//! It is fed from the events, a block at a time, about once a second: off the way of any call. Nothing depends on it.

use std::time::Duration;

use bytes::Bytes;
use holdfast_core::{Cause, Event, EventHistory, Fence, Happening, Intervention, LockName, Owner, Share};
use serde::{Deserialize, Serialize};

use crate::handle::{Consistency, Unanswered};
use crate::node_store::{BLOCK_LEN_MAX, NodeStore};
use crate::replica::{Inner, Replica};
use crate::tasks::Closing;
use crate::world::Runtime;

const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Of a block.
const FORMAT: u8 = 1;
/// About 32 MiB, or 250,000 endings of locks with usual names.
const BLOCKS_MAX: u64 = 8 * 1024;
/// Older endings are forgotten, by this node's clock on the wall.
const AGE_MAX_MS: u64 = 30 * 24 * 3_600_000;

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastHold {
    /// Of its ending.
    pub seq: u64,
    /// The lock.
    pub lock: LockName,
    /// The grant's number.
    pub fence: Fence,
    /// The holder's label.
    pub owner: Owner,
    /// How much of the lock it was.
    pub share: Share,
    /// How long it lasted, in milliseconds.
    pub held_ms: u64,
    /// How it ended.
    pub cause: Cause,
    /// The operator's doing, if it was.
    pub by: Option<Intervention>,
    /// When it ended by the leader's clock on the wall, in milliseconds since 1970: for people only.
    pub unix_ms: Option<u64>,
}

impl PastHold {
    /// None if the event is no end of a hold.
    fn of(event: &Event, unix_ms: Option<u64>) -> Option<Self> {
        let Happening::Ended { fence, cause, held_ms } = &event.what else { return None };
        Some(Self {
            seq: event.seq,
            lock: event.lock.clone(),
            fence: *fence,
            owner: event.owner.clone(),
            share: event.share,
            held_ms: *held_ms,
            cause: *cause,
            by: event.by.as_deref().cloned(),
            unix_ms,
        })
    }
}

/// What a node remembers of a lock. Looking at it reads from the disk: not for a thread that must not wait.
pub struct Past<R: Runtime> {
    replica: Replica<R>,
    lock: LockName,
    replicated: EventHistory,
}

impl<R: Runtime> Replica<R> {
    /// The past of a lock, as this node remembers it.
    ///
    /// # Errors
    /// If this node cannot find out how far the cluster is.
    pub async fn past(&self, lock: LockName) -> Result<Past<R>, Unanswered> {
        let look = |table: &holdfast_core::LockTable, _| table.event_history();
        let replicated = self.read(Consistency::Linearizable, look).await?;
        Ok(Past { replica: self.clone(), lock, replicated })
    }
}

impl<R: Runtime> Past<R> {
    /// The holds that have ended, the last ending first: at most `limit` of them, and only those whose endings come before
    /// that of the hold with the fence `before`, if that is given and remembered.
    pub fn page(&self, before: Option<Fence>, limit: usize) -> Vec<PastHold> {
        if let Some(fence) = before {
            let mut from = self.all().skip_while(|hold| hold.fence != fence);
            if from.next().is_some() {
                return from.take(limit).collect();
            }
        }
        self.all().filter(|hold| before.is_none_or(|before| hold.fence < before)).take(limit).collect()
    }

    /// First what is replicated, then what lies in this node's store.
    fn all(&self) -> impl Iterator<Item = PastHold> {
        let wall_clock = |event: &Event| self.replica.wall_clock(event.at);
        let replicated = self.replicated.of_lock(&self.lock);
        let replicated = replicated.filter_map(move |event| PastHold::of(event, wall_clock(event)));
        let oldest = self.replicated.first_seq();
        let store = &*self.replica.0.node_store;
        let mut next = u64::MAX;
        let blocks = std::iter::from_fn(move || {
            let (number, block) = store.past_before(next)?;
            next = number;
            Some(read_block(&block))
        });
        let stored = blocks.flat_map(|holds| holds.into_iter().rev());
        replicated.chain(stored.filter(move |hold| hold.seq < oldest && hold.lock == self.lock))
    }
}

impl<R: Runtime> Inner<R> {
    /// Keeps what has ended in the node's own store.
    pub(crate) async fn keep_past(&self, closing: Closing) {
        while crate::chores::pause::<R>(&closing, KEEP_EVERY).await {
            let store = &*self.node_store;
            if store.health().stopped {
                return; // It keeps nothing until the next start.
            }
            let extent = store.past_extent();
            let history = self.machine.look(|state| state.table.event_history());
            let events = history.rest_after(extent.last);
            let wall_clock = |event: &Event| self.machine.look(|state| state.table.wall_clock(event.at));
            let blocks = blocks_of(events.filter_map(|event| PastHold::of(event, wall_clock(event))));
            let excess = (extent.blocks + blocks.len() as u64).saturating_sub(BLOCKS_MAX);
            if !blocks.is_empty() {
                store.keep_past(blocks);
            }
            if excess > 0 {
                store.forget_past(excess);
            }
            self.forget_old(store);
        }
    }

    /// A block at a time: there is always a next time.
    fn forget_old(&self, store: &dyn NodeStore) {
        let is_old =
            |hold: &PastHold| hold.unix_ms.is_some_and(|unix_ms| unix_ms + AGE_MAX_MS < (self.wall_clock)());
        let oldest = store.oldest_past().map(|(_, block)| read_block(&block));
        if oldest.is_some_and(|holds| holds.iter().all(is_old)) {
            store.forget_past(1);
        }
    }
}

/// Blocks that are as long as they may be, each with the number of its last ending.
fn blocks_of(holds: impl Iterator<Item = PastHold>) -> Vec<(u64, Bytes)> {
    let mut blocks: Vec<(u64, Vec<u8>)> = Vec::new();
    for hold in holds {
        let record = postcard::to_stdvec(&hold).expect("numbers and texts can always be written");
        match blocks.last_mut() {
            Some((number, block)) if block.len() + record.len() <= BLOCK_LEN_MAX => {
                block.extend_from_slice(&record);
                *number = hold.seq;
            }
            _ => {
                let mut block = vec![FORMAT];
                block.extend_from_slice(&record);
                blocks.push((hold.seq, block));
            }
        }
    }
    blocks.into_iter().map(|(number, block)| (number, block.into())).collect()
}

/// In the order of their endings. What cannot be read is left out: nothing depends on it.
fn read_block(block: &[u8]) -> Vec<PastHold> {
    let Some((&FORMAT, mut rest)) = block.split_first() else { return Vec::new() };
    let mut holds = Vec::new();
    while let Ok((hold, tail)) = postcard::take_from_bytes(rest) {
        holds.push(hold);
        rest = tail;
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(seq: u64, name_len: usize) -> PastHold {
        PastHold {
            seq,
            lock: LockName::new(&"x".repeat(name_len)).unwrap(),
            fence: Fence(seq),
            owner: Owner::default(),
            share: Share::Exclusive,
            held_ms: 5,
            cause: Cause::Expired,
            by: None,
            unix_ms: Some(1_700_000_000_000),
        }
    }

    #[test]
    fn blocks_are_full_and_read_back() {
        let holds: Vec<_> =
            (1..=200).map(|seq| hold(seq, 20 + usize::try_from(seq % 400).unwrap())).collect();
        let blocks = blocks_of(holds.iter().cloned());
        assert!(blocks.len() > 3 && blocks.iter().all(|(_, block)| block.len() <= BLOCK_LEN_MAX));
        let read: Vec<_> = blocks.iter().flat_map(|(_, block)| read_block(block)).collect();
        assert_eq!(read, holds);
        let last_of_each =
            blocks.iter().map(|(number, block)| (*number, read_block(block).last().unwrap().seq));
        assert!(last_of_each.into_iter().all(|(number, last)| number == last));
    }

    #[test]
    fn a_block_of_another_format_is_passed_over() {
        assert_eq!(read_block(&[9, 1, 2, 3]), []);
        assert_eq!(read_block(&[]), []);
    }
}
