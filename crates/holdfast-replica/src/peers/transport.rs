//! The calling side.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::driver::drive;
use super::link::{Link, Ticket};
use super::peering::Peering;
use crate::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, Transport};

/// Calls peers over TCP, with one kept-alive connection for each peer and lane.
///
/// A node has one transport: a listener takes a newer connection of the same node and lane for the successor of the
/// older one, which it then closes. Dropping the transport ends its connections; [`TcpTransport::shutdown`] also
/// waits for that.
pub struct TcpTransport {
    peering: Peering,
    runtime: Handle,
    links: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    by_peer: BTreeMap<(NodeId, PeerLane), Arc<Link>>,
    drivers: JoinSet<()>,
    is_stopped: bool,
}

impl TcpTransport {
    /// Opens no connection before the first call. Must be called within a tokio runtime, on which it then runs.
    pub fn new(peering: Peering) -> Self {
        Self { peering, runtime: Handle::current(), links: Mutex::default() }
    }

    /// See [`Peering::disconnects`].
    pub fn disconnects(&self) -> broadcast::Receiver<NodeId> {
        self.peering.disconnects()
    }

    /// Closes all connections and waits for their tasks. Calls under way and later ones fail.
    pub async fn shutdown(&self) {
        let mut drivers = {
            let mut links = self.links.lock().expect("nothing panics with this lock held");
            links.is_stopped = true;
            links.by_peer.clear();
            std::mem::take(&mut links.drivers)
        };
        drivers.shutdown().await;
    }

    fn enqueue(
        &self,
        to: &PeerAddress,
        lane: PeerLane,
        kind: CallKind,
        body: Bytes,
    ) -> Result<Ticket, CallError> {
        self.link(to, lane)?.enqueue(kind, body)
    }

    /// The link to the peer. One that led to another address is closed.
    fn link(&self, to: &PeerAddress, lane: PeerLane) -> Result<Arc<Link>, CallError> {
        let mut links = self.links.lock().expect("nothing panics with this lock held");
        if links.is_stopped {
            return Err(CallError::NotSent("the peer network has stopped".to_owned()));
        }
        if let Some(link) = links.by_peer.get(&(to.node, lane)) {
            if link.to == *to && !link.is_closed() {
                return Ok(link.clone());
            }
            link.close("the peer has another address now");
        }
        while links.drivers.try_join_next().is_some() {}
        let link = Arc::new(Link::new(to.clone(), lane, self.peering.clone()));
        links.drivers.spawn_on(drive(link.clone()), &self.runtime);
        links.by_peer.insert((to.node, lane), link.clone());
        Ok(link)
    }
}

impl Transport for TcpTransport {
    /// The request is queued here and now, not when the future is first polled: requests leave in the order of calls.
    fn call(
        &self,
        to: &PeerAddress,
        lane: PeerLane,
        kind: CallKind,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let deadline = Instant::now() + timeout;
        let ticket = self.enqueue(to, lane, kind, body);
        let stats = self.peering.stats();
        async move {
            let answer = match ticket {
                Ok(ticket) => ticket.answer(deadline).await,
                Err(error) => Err(error),
            };
            answer.inspect_err(|error| stats.lane(lane).failed(error))
        }
        .boxed()
    }
}
