//! The network between simulated nodes and clients: messages that are lost, late, doubled, out of order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_replica::peers::limits::unacknowledged_max;
use holdfast_replica::world::{
    AsyncRuntime, CallError, CallKind, NodeId, PeerAddress, PeerLane, PeerService, Transport,
};

use super::executor::{self, Nanos, Shared, WORLD, below, now, one_in, true_sleep};
use super::faults::Moment;
use super::moments::Moments;
use super::runtime::SimRuntime;
use super::sometimes::saw;

/// The state of all links.
#[derive(Default)]
pub(crate) struct Links {
    /// Nothing gets from the first to the second.
    pub(crate) cut: BTreeSet<(u64, u64)>,
    /// Of a hundred messages so many are lost.
    pub(crate) loss_percent: u64,
    /// Of a hundred requests so many arrive twice.
    pub(crate) double_percent: u64,
    pub(crate) delay_micros_max: u64,
    /// When forwarded calls were made twice.
    pub(crate) doubled: Vec<Nanos>,
    services: BTreeMap<NodeId, Arc<dyn PeerService>>,
    /// When the last message of a link arrives: a later one does not overtake it.
    arrivals: BTreeMap<(u64, u64, u8), Nanos>,
    /// By (to, from, lane).
    inboxes: BTreeMap<(NodeId, NodeId, u8), Shared<Inbox>>,
}

/// A request that has arrived, and where its answer goes.
struct Arrival {
    from: NodeId,
    kind: CallKind,
    body: Bytes,
    tell: tokio::sync::oneshot::Sender<Bytes>,
}

/// What has arrived over one connection and was not handed over yet.
#[derive(Default)]
struct Inbox {
    arrivals: VecDeque<Arrival>,
    is_served: bool,
}

/// Hands requests over in their order, and polls each once before the next.
async fn serve(service: Arc<dyn PeerService>, inbox: Shared<Inbox>) {
    loop {
        let arrival = {
            let mut inbox = inbox.lock().expect("one thread");
            let arrival = inbox.arrivals.pop_front();
            inbox.is_served = arrival.is_some();
            arrival
        };
        let Some(Arrival { from, kind, body, tell }) = arrival else { return };
        let mut answer = service.serve(from, kind, body);
        match futures_util::poll!(&mut answer) {
            std::task::Poll::Ready(answer) => drop(tell.send(answer)),
            std::task::Poll::Pending => executor::spawn_on(executor::running_on(), async move {
                let _ = tell.send(answer.await); // The caller may have given up.
            }),
        }
    }
}

/// The network. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Network {
    links: Arc<Mutex<Links>>,
    moments: Moments,
}

/// TCP sends again after this time at first.
const RESEND_AFTER: Duration = Duration::from_millis(200);

/// A heartbeat is shorter.
const ENTRIES_LEN_MIN: usize = 64;

fn has_entries(kind: CallKind, body: &Bytes) -> bool {
    kind == CallKind::Append && body.len() >= ENTRIES_LEN_MIN
}

impl Network {
    pub(crate) fn new(moments: Moments) -> Self {
        Self { links: Arc::default(), moments }
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Links) -> T) -> T {
        act(&mut self.links.lock().expect("one thread"))
    }

    /// Whether a message is to arrive a second time.
    pub(crate) fn doubles(&self) -> bool {
        let double = self.with(|links| links.double_percent);
        let doubles = double > 0 && below(100) < double;
        if doubles {
            saw("a message arrived twice");
        }
        doubles
    }

    pub(crate) fn register(&self, node: NodeId, service: Arc<dyn PeerService>) {
        self.with(|links| links.services.insert(node, service));
    }

    pub(crate) fn deregister(&self, node: NodeId) {
        let gone = self.with(|links| {
            let service = links.services.remove(&node);
            let (gone, kept) =
                std::mem::take(&mut links.inboxes).into_iter().partition(|((to, _, _), _)| *to == node);
            links.inboxes = kept;
            let gone: BTreeMap<_, _> = gone;
            (service, gone)
        });
        drop(gone);
    }

    fn service(&self, node: NodeId) -> Option<Arc<dyn PeerService>> {
        self.with(|links| links.services.get(&node).cloned())
    }

    /// Brings a message over, unless it gets lost. Others may overtake it.
    pub(crate) async fn cross(&self, from: u64, to: u64) -> bool {
        if self.loses(from, to) {
            return false;
        }
        true_sleep(self.latency()).await;
        !self.with(|links| links.cut.contains(&(from, to)))
    }

    /// When a message that is sent over a connection now will arrive: after those sent before. None if it gets lost.
    fn post(&self, from: u64, to: u64, lane: PeerLane) -> Option<Nanos> {
        if self.loses(from, to) {
            return None;
        }
        let earliest = now() + u64::try_from(self.latency().as_nanos()).expect("a short time");
        Some(self.with(|links| {
            let last = links.arrivals.entry((from, to, lane as u8)).or_default();
            *last = earliest.max(*last + 1);
            *last
        }))
    }

    /// Waits until a message arrives. False if it does not.
    async fn arrive(&self, from: u64, to: u64, at: Option<Nanos>) -> bool {
        let Some(at) = at else { return false };
        true_sleep(Duration::from_nanos(at.saturating_sub(now()))).await;
        !self.with(|links| links.cut.contains(&(from, to)))
    }

    fn loses(&self, from: u64, to: u64) -> bool {
        let (is_cut, loss) = self.with(|links| (links.cut.contains(&(from, to)), links.loss_percent));
        is_cut || (loss > 0 && below(100) < loss)
    }

    fn latency(&self) -> Duration {
        let max = self.with(|links| links.delay_micros_max).max(1);
        let late = if one_in(100) { below(50_000) } else { 0 };
        Duration::from_micros(100 + below(max) + late)
    }

    /// Sends what was lost once more, as TCP does, ever less often. Only chunks of snapshots, of which there is one at a
    /// time under way: a later message must not overtake it.
    async fn try_again(&self, from: u64, to: u64, lane: PeerLane) -> bool {
        let mut pause = RESEND_AFTER;
        while lane == PeerLane::Bulk && pause < unacknowledged_max(lane) {
            true_sleep(pause).await;
            if self.cross(from, to).await {
                return true;
            }
            pause *= 2;
        }
        false
    }

    /// What was lost stays unacknowledged until the connection counts as broken.
    async fn break_off(&self, lane: PeerLane) -> Option<Bytes> {
        true_sleep(unacknowledged_max(lane)).await;
        None
    }

    async fn deliver(
        self,
        (from, to): (NodeId, NodeId),
        (lane, at): (PeerLane, Option<Nanos>),
        kind: CallKind,
        body: Bytes,
    ) -> Option<Bytes> {
        if !self.arrive(from, to, at).await && !self.try_again(from, to, lane).await {
            return self.break_off(lane).await;
        }
        let arrived = match kind {
            CallKind::TransferLeader => Some(Moment::TransferArrived),
            CallKind::SnapshotChunk => Some(Moment::SnapshotChunkArrived),
            _ => None,
        };
        if arrived.is_some_and(|moment| self.moments.reach(moment, to)) {
            executor::yield_now().await;
        }
        let answered = match kind {
            CallKind::Vote => Some(Moment::VoteGiven),
            _ => has_entries(kind, &body).then_some(Moment::EntriesAcknowledged),
        };
        let service = self.service(to)?;
        let (tell, told) = tokio::sync::oneshot::channel();
        let inbox = self.with(|links| links.inboxes.entry((to, from, lane as u8)).or_default().clone());
        let begins = {
            let mut inbox = inbox.lock().expect("one thread");
            inbox.arrivals.push_back(Arrival { from, kind, body, tell });
            !std::mem::replace(&mut inbox.is_served, true)
        };
        match begins {
            true => executor::spawn_on(to, serve(service, inbox)),
            false => drop(inbox), // Held while its answer is awaited, it would outlive its node.
        }
        let answer = told.await.ok()?; // A node that dies resets its connections.
        if answered.is_some_and(|moment| self.moments.reach(moment, to)) {
            executor::yield_now().await;
        }
        if !self.cross(to, from).await && !self.try_again(to, from, lane).await {
            return self.break_off(lane).await;
        }
        Some(answer)
    }
}

/// One node's way into the network.
pub(crate) struct SimTransport {
    pub(crate) node: NodeId,
    pub(crate) network: Network,
}

impl Transport for SimTransport {
    fn call(
        &self,
        to: &PeerAddress,
        lane: PeerLane,
        kind: CallKind,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let (from, to, network) = (self.node, to.node, self.network.clone());
        // Appends go over one connection, which doubles nothing; a forwarded call may be made twice.
        if lane == PeerLane::Forward && network.doubles() {
            network.with(|links| links.doubled.push(now()));
            let (network, body) = (network.clone(), body.clone());
            executor::spawn_on(WORLD, async move {
                true_sleep(Duration::from_micros(below(300_000))).await;
                let at = network.post(from, to, lane);
                let _ = network.deliver((from, to), (lane, at), kind, body).await; // Its answer goes nowhere.
            });
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let at = network.post(from, to, lane);
        let sent = match kind {
            CallKind::Claim => Some(Moment::ClaimSent),
            CallKind::Propose => Some(Moment::ForwardSent),
            _ => has_entries(kind, &body).then_some(Moment::EntriesSent),
        };
        if let Some(moment) = sent {
            network.moments.reach(moment, from);
        }
        // On its way it outlives its sender.
        executor::spawn_on(WORLD, async move {
            let _ = tell.send(network.deliver((from, to), (lane, at), kind, body).await);
        });
        async move {
            match SimRuntime::timeout(timeout, told).await {
                Ok(Ok(Some(answer))) => Ok(answer),
                Ok(_) => Err(CallError::NoAnswer("the connection was reset".into())),
                Err(_) => Err(CallError::NoAnswer("timed out".into())),
            }
        }
        .boxed()
    }
}
