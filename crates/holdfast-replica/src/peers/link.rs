//! The calls to one peer on one lane: those that wait to be written, and those that wait for their answer.
//!
//! One lock guards both, so that whether a request was handed to the socket is never in doubt.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::backoff;
use super::frame::{self, Frame, FrameRole};
use super::limits::{BATCH_BYTES, QUEUE_BYTES_MAX, QUEUE_LEN_MAX, body_len_max};
use super::peering::Peering;
use crate::world::{CallError, CallKind, PeerAddress, PeerLane};

/// The way to one peer on one lane. Its driver is the only one to open connections.
pub(super) struct Link {
    pub(super) to: PeerAddress,
    pub(super) lane: PeerLane,
    pub(super) peering: Peering,
    inner: Mutex<Inner>,
    /// Wakes the driver: there is something to write, or the link is closed.
    wake: Notify,
}

struct Inner {
    phase: Phase,
    /// Connections in a row that could not be opened or brought no answer.
    failures: u32,
    /// Whether the present connection has brought an answer.
    was_useful: bool,
    next_id: u64,
    queue: VecDeque<Frame>,
    queued_bytes: usize,
    calls: BTreeMap<u64, Call>,
}

enum Phase {
    /// Requests are taken; the driver has a connection, or will open one.
    Open,
    /// The last connection failed: no other is tried before `until`.
    BackingOff { until: Instant, reason: String },
    /// For good.
    Closed { reason: String },
}

struct Call {
    /// Closed if nobody waits for the answer any more.
    waiter: oneshot::Sender<Result<Bytes, CallError>>,
    /// Whether any byte of the request may have been handed to the socket.
    is_sent: bool,
}

impl Link {
    pub(super) fn new(to: PeerAddress, lane: PeerLane, peering: Peering) -> Self {
        let inner = Inner {
            phase: Phase::Open,
            failures: 0,
            was_useful: false,
            next_id: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            calls: BTreeMap::new(),
        };
        Self { to, lane, peering, inner: Mutex::new(inner), wake: Notify::new() }
    }

    /// Queues a request.
    pub(super) fn enqueue(self: &Arc<Self>, kind: CallKind, body: Bytes) -> Result<Ticket, CallError> {
        let len_max = body_len_max(self.lane);
        if body.len() > len_max {
            let text = format!("a body of {} bytes is over the limit of {len_max}", body.len());
            return Err(CallError::NotSent(text));
        }
        let (id, answer) = self.inner().enqueue(kind, body)?;
        self.wake.notify_one();
        Ok(Ticket { link: self.clone(), id, answer })
    }

    /// Waits until there is something to write. False if the link was closed.
    pub(super) async fn has_work(&self) -> bool {
        loop {
            {
                let inner = self.inner();
                if matches!(inner.phase, Phase::Closed { .. }) {
                    return false;
                }
                if !inner.queue.is_empty() {
                    return true;
                }
            }
            self.wake.notified().await;
        }
    }

    /// Moves queued requests to `out`; from then on they count as sent. Returns how many.
    pub(super) fn take_batch(&self, out: &mut BytesMut) -> usize {
        let mut inner = self.inner();
        let mut frames = 0;
        while out.len() < BATCH_BYTES
            && let Some(frame) = inner.next_to_send()
        {
            frame::encode(&frame, out);
            frames += 1;
        }
        frames
    }

    /// Hands an answer to its call. One that nobody waits for any more is dropped.
    pub(super) fn deliver(&self, id: u64, answer: Result<Bytes, CallError>) {
        let call = {
            let mut inner = self.inner();
            inner.was_useful = true;
            inner.calls.remove(&id)
        };
        if let Some(call) = call {
            let _ = call.waiter.send(answer); // The caller may have left just now.
        }
    }

    /// Fails all calls. New ones may open a connection at once if this one brought an answer, else after a pause.
    pub(super) fn connection_failed(&self, reason: &str) {
        let mut inner = self.inner();
        inner.fail_calls(reason);
        if std::mem::take(&mut inner.was_useful) {
            inner.failures = 0;
            return;
        }
        inner.failures = inner.failures.saturating_add(1);
        let until = Instant::now() + backoff::pause(inner.failures, rand::random());
        if !matches!(inner.phase, Phase::Closed { .. }) {
            inner.phase = Phase::BackingOff { until, reason: reason.to_owned() };
        }
    }

    /// Fails all calls, and all later ones. The driver ends.
    pub(super) fn close(&self, reason: &str) {
        let mut inner = self.inner();
        if !matches!(inner.phase, Phase::Closed { .. }) {
            inner.phase = Phase::Closed { reason: reason.to_owned() };
        }
        inner.fail_calls(reason);
        self.wake.notify_one();
    }

    /// Whether the link was closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.inner().phase, Phase::Closed { .. })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics with this lock held")
    }
}

impl Inner {
    fn enqueue(&mut self, kind: CallKind, body: Bytes) -> Result<(u64, Answer), CallError> {
        match &self.phase {
            Phase::Open => {}
            Phase::Closed { reason } => return Err(CallError::NotSent(reason.clone())),
            Phase::BackingOff { until, reason } if Instant::now() < *until => {
                return Err(CallError::NotSent(format!("waiting to reconnect: {reason}")));
            }
            Phase::BackingOff { .. } => self.phase = Phase::Open,
        }
        if self.queue.len() >= QUEUE_LEN_MAX || self.queued_bytes + body.len() > QUEUE_BYTES_MAX {
            return Err(CallError::NotSent("the queue to the peer is full".to_owned()));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.queued_bytes += body.len();
        self.queue.push_back(Frame { id, kind: kind as u8, role: FrameRole::Request, body });
        let (waiter, answer) = oneshot::channel();
        self.calls.insert(id, Call { waiter, is_sent: false });
        Ok((id, answer))
    }

    /// The next request whose caller has not given up, marked as sent.
    fn next_to_send(&mut self) -> Option<Frame> {
        while let Some(frame) = self.queue.pop_front() {
            self.queued_bytes -= frame.body.len();
            let Some(call) = self.calls.get_mut(&frame.id) else { continue };
            call.is_sent = true;
            if call.waiter.is_closed() {
                self.calls.remove(&frame.id);
            }
            return Some(frame);
        }
        None
    }

    fn fail_calls(&mut self, reason: &str) {
        self.queue.clear();
        self.queued_bytes = 0;
        for call in std::mem::take(&mut self.calls).into_values() {
            let error = if call.is_sent { CallError::NoAnswer } else { CallError::NotSent };
            let _ = call.waiter.send(Err(error(reason.to_owned()))); // The caller may have left.
        }
    }
}

type Answer = oneshot::Receiver<Result<Bytes, CallError>>;

/// One call on its way.
///
/// Dropping it gives up on the answer: a request that is still queued is sent all the same.
pub(super) struct Ticket {
    link: Arc<Link>,
    id: u64,
    answer: Answer,
}

impl Ticket {
    /// Waits for the answer until the deadline. A request that is still queued then is never sent.
    pub(super) async fn answer(mut self, deadline: Instant) -> Result<Bytes, CallError> {
        if let Ok(answer) = timeout_at(deadline, &mut self.answer).await {
            return answer.unwrap_or_else(|_| Err(CallError::NoAnswer("the link was dropped".to_owned())));
        }
        let withdrawn = self.link.inner().calls.remove(&self.id);
        match withdrawn {
            Some(call) if call.is_sent => Err(CallError::NoAnswer("timed out".to_owned())),
            Some(_) => Err(CallError::NotSent("timed out in the queue".to_owned())),
            // Whoever has taken the call out of the table is about to send its answer.
            None => {
                (&mut self.answer).await.unwrap_or_else(|_| Err(CallError::NoAnswer("timed out".to_owned())))
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.link.inner();
        if inner.calls.get(&self.id).is_some_and(|call| call.is_sent) {
            inner.calls.remove(&self.id);
        }
    }
}
