//! Watching: what has happened since, and what happens next, read from this node's own state.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{ClusterTime, Event, EventHistory, LockName, Wait};

use crate::handle::Unanswered;
use crate::replica::{Inner, Replica};
use crate::world::Runtime;

/// Most events that are handed out at a time.
const BATCH_LEN_MAX: usize = 256;
/// Whoever has just been given something is given no more before this is over: a busy cluster wakes its watchers for many
/// events at a time.
const COALESCE: Duration = Duration::from_millis(5);

/// What somebody who watches is told next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// These happened, one after the other, with nothing in between that was asked for.
    Events {
        /// At least one.
        events: Vec<Event>,
        /// Up to this number nothing is left out.
        seq: u64,
    },
    /// What happened in between cannot be told any more: everything that was learned from events has to be read again.
    Reset {
        /// From here on nothing is left out.
        seq: u64,
        /// Why, for people.
        reason: &'static str,
    },
}

/// The events of locks whose names begin with some text, from some number on.
pub struct EventStream<R: Runtime> {
    inner: Arc<Inner<R>>,
    prefix: String,
    /// Everything up to this number has been told, or was not asked for.
    seq: u64,
    /// What is told first.
    reset: Option<&'static str>,
    has_told: bool,
}

impl<R: Runtime> Replica<R> {
    /// Watches the locks whose names begin with `prefix`, from `since` on, or from now on.
    ///
    /// # Errors
    /// If this node cannot find out how far the cluster is.
    pub async fn watch(&self, prefix: &str, since: Option<u64>) -> Result<EventStream<R>, Unanswered> {
        let last = self.0.last_event().await?;
        let is_ahead = since.is_some_and(|since| since > last);
        Ok(EventStream {
            inner: self.0.clone(),
            prefix: prefix.to_owned(),
            seq: if is_ahead { last } else { since.unwrap_or(last) },
            reset: is_ahead.then_some(
                "there is no event of that number yet: the cluster was restored, or is another one",
            ),
            has_told: false,
        })
    }

    /// Resolves when something has happened to a lock after `since`, when that cannot be told any more, or when the wait
    /// is over.
    ///
    /// # Errors
    /// If this node cannot find out how far the cluster is, or closes.
    pub async fn wait_for_event(
        &self,
        lock: &LockName,
        since: Option<u64>,
        wait: Wait,
    ) -> Result<(), Unanswered> {
        let last = self.0.last_event().await?;
        let seq = since.unwrap_or(last);
        if seq > last {
            return Ok(());
        }
        let mut stream = EventStream {
            inner: self.0.clone(),
            prefix: lock.as_str().to_owned(),
            seq,
            reset: None,
            has_told: false,
        };
        let happened = async {
            loop {
                match stream.next().await? {
                    Watched::Reset { .. } => return Ok(()),
                    Watched::Events { events, .. } if events.iter().any(|event| event.lock == *lock) => {
                        return Ok(());
                    }
                    Watched::Events { .. } => {}
                }
            }
        };
        R::timeout(Duration::from_millis(wait.ms()), Box::pin(happened)).await.unwrap_or(Ok(()))
    }

    /// What the clock on the wall showed at some moment of cluster time, in milliseconds since 1970: for people only.
    pub fn wall_clock(&self, at: ClusterTime) -> Option<u64> {
        self.0.machine.look(|state| state.table.wall_clock(at))
    }
}

impl<R: Runtime> Inner<R> {
    /// The number of the last event of the cluster, which this node has by then.
    async fn last_event(&self) -> Result<u64, Unanswered> {
        self.check_open()?;
        self.read_now().await?;
        Ok(self.machine.look(|state| state.table.seq()))
    }
}

impl<R: Runtime> EventStream<R> {
    /// The number up to which everything has been told.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// What is to be told next. It may be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// If this node closes.
    pub async fn next(&mut self) -> Result<Watched, Unanswered> {
        if let Some(reason) = self.reset.take() {
            return Ok(Watched::Reset { seq: self.seq, reason });
        }
        if self.has_told {
            R::sleep(COALESCE).await;
            self.has_told = false;
        }
        loop {
            self.inner.check_open()?;
            let mut last = self.inner.effects.last_event.watch();
            last.take();
            let history = self.inner.machine.look(|state| state.table.event_history());
            if let Some(told) = self.look(&history) {
                self.has_told = true;
                return Ok(told);
            }
            let closing = self.inner.is_draining.wait_for(|draining| *draining);
            R::select2(closing, last.changed()).await;
        }
    }

    fn look(&mut self, history: &EventHistory) -> Option<Watched> {
        let Some(events) = history.after(self.seq) else {
            self.seq = history.seq();
            let reason = "the events since then are not kept any more";
            return Some(Watched::Reset { seq: self.seq, reason });
        };
        let wanted = events.filter(|event| event.lock.as_str().starts_with(&self.prefix));
        let batch: Vec<_> = wanted.take(BATCH_LEN_MAX).cloned().collect();
        self.seq = match batch.last() {
            Some(last) if batch.len() == BATCH_LEN_MAX => last.seq,
            _ => history.seq(),
        };
        (!batch.is_empty()).then_some(Watched::Events { events: batch, seq: self.seq })
    }

    /// Finds out whether this node still follows the cluster: one that is cut off has nothing to tell, and does not know.
    ///
    /// # Errors
    /// If it does not.
    pub async fn check(&self) -> Result<(), Unanswered> {
        self.inner.last_event().await.map(|_| ())
    }
}
