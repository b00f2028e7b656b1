//! The log as openraft wants it.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};

use futures_util::FutureExt;
use holdfast_core::planted::{Bug, planted};
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use tokio::sync::oneshot;

use crate::consensus::codec;
use crate::consensus::types::{Entry, LogId, Types, VoteOf};
use crate::log::Log;
use crate::world::{DiskDone, Runtime};

/// Most bytes of entries that one read brings into memory.
const READ_BYTES_MAX: usize = 4 << 20;

/// The log and vote of this node, on stable storage before openraft hears that they are.
pub(crate) struct LogStore<R> {
    log: Log,
    _runtime: PhantomData<fn() -> R>,
}

impl<R> Clone for LogStore<R> {
    fn clone(&self) -> Self {
        Self { log: self.log.clone(), _runtime: PhantomData }
    }
}

impl<R: Runtime> LogStore<R> {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, _runtime: PhantomData }
    }
}

/// Runs one write and waits until it is durable.
pub(crate) async fn durable(write: impl FnOnce(DiskDone)) -> io::Result<()> {
    let (tell, told) = oneshot::channel();
    write(Box::new(move |result| {
        let _ = tell.send(result); // The waiting side may have been dropped at shutdown.
    }));
    told.map(|told| told.unwrap_or_else(|_| Err(io::Error::other("the disk dropped a write")))).await
}

fn bounds(range: impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(index) => *index,
        Bound::Excluded(index) => index + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(index) => index + 1,
        Bound::Excluded(index) => *index,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl<R: Runtime> RaftLogReader<Types<R>> for LogStore<R> {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry<R>>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let mut range = bounds(range);
        range.end = range.end.min(self.log.last().map_or(0, |last| last.index + 1));
        let mut entries = Vec::new();
        while range.start < range.end {
            let read = self.log.entries(range.clone(), READ_BYTES_MAX)?;
            let Some(last) = read.last() else { break };
            range.start = last.index + 1;
            for record in &read {
                entries.push(codec::decode_entry::<R>(record)?);
            }
        }
        Ok(entries)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry<R>>, io::Error> {
        self.log.entries(start..end, READ_BYTES_MAX / 4)?.iter().map(codec::decode_entry::<R>).collect()
    }

    async fn read_vote(&mut self) -> Result<Option<VoteOf<R>>, io::Error> {
        self.log.vote().map(|bytes| codec::decode_vote::<R>(&bytes)).transpose()
    }
}

impl<R: Runtime> RaftLogStorage<Types<R>> for LogStore<R> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types<R>>, io::Error> {
        let point = |point| codec::decode_point::<R>(&point);
        Ok(LogState {
            last_purged_log_id: self.log.purged().map(point).transpose()?,
            last_log_id: self.log.last().map(point).transpose()?,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<R>) -> Result<(), io::Error> {
        if planted(Bug::VoteNotSynced) {
            self.log.set_vote(codec::encode_vote::<R>(vote), Box::new(|_| {}));
            return Ok(());
        }
        durable(|done| self.log.set_vote(codec::encode_vote::<R>(vote), done)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId<R>>) -> Result<(), io::Error> {
        if let Some(log_id) = committed {
            self.log.set_committed(codec::encode_committed::<R>(&log_id));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<R>>, io::Error> {
        let Some(bytes) = self.log.committed() else { return Ok(None) };
        let committed = codec::decode_committed::<R>(&bytes)?;
        let last = self.log.last().map(|last| codec::decode_point::<R>(&last)).transpose()?;
        Ok(last.map(|last| committed.min(last)))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types<R>>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry<R>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records = entries.into_iter().map(|entry| codec::encode_entry::<R>(&entry)).collect();
        if planted(Bug::LogAcknowledgedBeforeSync) {
            self.log.append(records, Box::new(|_| {}));
            callback.io_completed(Ok(()));
            return Ok(());
        }
        self.log.append(records, Box::new(move |result| callback.io_completed(result)));
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId<R>>) -> Result<(), io::Error> {
        durable(|done| self.log.truncate_after(last_log_id.map(|log_id| log_id.index), done)).await
    }

    async fn purge(&mut self, log_id: LogId<R>) -> Result<(), io::Error> {
        let beyond = if planted(Bug::PurgeBeyondSnapshot) { 5 } else { 0 };
        durable(|done| self.log.purge(log_id.index + beyond, codec::encode_term::<R>(&log_id), done)).await
    }
}
