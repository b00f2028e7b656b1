//! The answering side: accepts connections and owns their tasks.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::peering::Peering;
use super::reception::{Lobby, receive};
use super::refusal::{Refusal, RefusalReason};
use super::seats::Seats;
use super::session::Session;
use crate::world::PeerService;

/// Pause after an accept that failed, which is most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Serves peers until `shutdown` is ready.
///
/// Then no more requests are taken, those taken are answered or given up after
/// [`DRAIN_TIMEOUT`](super::limits::DRAIN_TIMEOUT), and every connection and task has ended when this returns.
/// Dropping the future ends them at once.
pub async fn serve(
    peering: Peering,
    listener: TcpListener,
    service: Arc<dyn PeerService>,
    shutdown: impl Future<Output = ()>,
) {
    let (stop, stopping) = watch::channel(());
    let house = House { peering, service, lobby: Arc::default(), seats: Arc::default(), stopping };
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut serial = 0;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = tasks.join_next() => report_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    serial += 1;
                    house.open_door(&mut tasks, serial, stream, from.ip());
                }
                Err(error) => {
                    house.peering.complain("listener", "accept", error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop((listener, stop));
    while let Some(ended) = tasks.join_next().await {
        report_panic(ended);
    }
}

#[derive(Clone)]
struct House {
    peering: Peering,
    service: Arc<dyn PeerService>,
    lobby: Arc<Lobby>,
    seats: Arc<Seats>,
    /// Closed when the listener stops.
    stopping: watch::Receiver<()>,
}

impl House {
    fn open_door(&self, tasks: &mut JoinSet<()>, serial: u64, stream: TcpStream, from: IpAddr) {
        let visit = self.clone().visit(serial, stream, from);
        if self.lobby.enter(serial, || tasks.spawn(visit)) {
            let text = "too many connections that have not greeted yet";
            self.peering.refuse(from, &Refusal::new(RefusalReason::Crowded, text));
        }
    }

    async fn visit(mut self, serial: u64, stream: TcpStream, from: IpAddr) {
        let guest = tokio::select! {
            guest = receive(&self.peering, &self.seats, stream, from) => guest,
            _ = self.stopping.changed() => None,
        };
        let is_welcome = self.lobby.leave(serial);
        if let Some(guest) = guest
            && is_welcome
        {
            Session::new(self.peering, self.service, guest, from).run(self.stopping).await;
        }
    }
}

fn report_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a peer connection's task has panicked: {error}");
    }
}
