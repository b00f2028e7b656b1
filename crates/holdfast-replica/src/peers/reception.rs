//! The listener's part of the greeting: who comes in, and who is turned away.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::handshake::{GreetingError, Opening, Reply, VERSIONS, common_version, read_greeting};
use super::identity::Hello;
use super::limits::{HANDSHAKE_TIMEOUT, UNAUTHENTICATED_MAX};
use super::peering::Peering;
use super::refusal::{Refusal, RefusalReason};
use super::seats::{Seat, Seats};
use super::stream::set_options;
use super::wire::lane_from_number;
use crate::world::PeerLane;

/// Connections that have not greeted yet, by age.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    waiting: Mutex<BTreeMap<u64, AbortHandle>>,
}

impl Lobby {
    /// Starts a connection's task as number `serial`, and ends that of the oldest that still waits if there are too
    /// many: silent strangers cannot keep a peer out, who greets at once. Returns whether one had to go.
    pub(super) fn enter(&self, serial: u64, spawn: impl FnOnce() -> AbortHandle) -> bool {
        // The new task leaves under the same lock, so it cannot leave before it has entered.
        let mut waiting = self.waiting.lock().expect("nothing panics with this lock held");
        waiting.insert(serial, spawn());
        if waiting.len() <= UNAUTHENTICATED_MAX {
            return false;
        }
        let oldest = waiting.pop_first();
        oldest.inspect(|(_, task)| task.abort()).is_some()
    }

    /// The connection has been accepted or refused. False if it was just sent away to make room.
    pub(super) fn leave(&self, serial: u64) -> bool {
        self.waiting.lock().expect("nothing panics with this lock held").remove(&serial).is_some()
    }
}

/// A connection that has been let in.
pub(super) struct Guest {
    pub(super) stream: TcpStream,
    pub(super) lane: PeerLane,
    /// What this node said of itself.
    pub(super) ours: Hello,
    /// What the peer said of itself.
    pub(super) theirs: Hello,
    pub(super) seat: Seat,
}

/// Greets a new connection; none if it was turned away.
pub(super) async fn receive(
    peering: &Peering,
    seats: &Arc<Seats>,
    stream: TcpStream,
    from: IpAddr,
) -> Option<Guest> {
    let refusal = match timeout(HANDSHAKE_TIMEOUT, greet(peering, seats, stream)).await {
        Ok(Ok(guest)) => return Some(guest),
        Ok(Err(refusal)) => refusal,
        Err(_) => Refusal::new(RefusalReason::Silent, format!("no greeting within {HANDSHAKE_TIMEOUT:?}")),
    };
    peering.refuse(from, &refusal);
    None
}

async fn greet(peering: &Peering, seats: &Arc<Seats>, mut stream: TcpStream) -> Result<Guest, Refusal> {
    let body = read_greeting(&mut stream).await.map_err(garbage)?;
    let ours = peering.identity.hello();
    match admit(peering, seats, &body, &ours).await {
        Ok((opening, version, lane, seat)) => {
            let reply = Reply::Accepted { version, hello: ours.clone() };
            set_options(&stream, lane).map_err(|error| gone(&error))?;
            stream.write_all(&reply.encode()).await.map_err(|error| gone(&error))?;
            Ok(Guest { stream, lane, ours, theirs: opening.hello, seat })
        }
        Err(refusal) => {
            let reply = Reply::Refused { code: refusal.reason as u8, text: refusal.text.clone() };
            let _ = stream.write_all(&reply.encode()).await; // It is turned away in any case.
            Err(refusal)
        }
    }
}

async fn admit(
    peering: &Peering,
    seats: &Arc<Seats>,
    body: &[u8],
    ours: &Hello,
) -> Result<(Opening, u16, PeerLane, Seat), Refusal> {
    let opening = Opening::decode(body).map_err(garbage)?;
    let theirs = &opening.hello;
    let version = common_version(VERSIONS, opening.versions.clone()).ok_or_else(|| {
        let text = format!(
            "node {} ({}) speaks versions {:?}, this node ({}) {VERSIONS:?}",
            theirs.node, theirs.software, opening.versions, ours.software
        );
        Refusal::new(RefusalReason::Version, text)
    })?;
    let lane = lane_from_number(opening.lane).ok_or_else(|| {
        Refusal::new(RefusalReason::Lane, format!("node {} asks for lane {}", theirs.node, opening.lane))
    })?;
    if opening.to != ours.node {
        let text = format!("node {} looks for node {}, this is node {}", theirs.node, opening.to, ours.node);
        return Err(Refusal::new(RefusalReason::OtherNode, text));
    }
    peering.admit(ours, theirs)?;
    let seat = seats.take((theirs.node, lane), (theirs.boot, opening.connection)).await?;
    Ok((opening, version, lane, seat))
}

fn garbage(error: GreetingError) -> Refusal {
    Refusal::new(RefusalReason::Garbage, error.to_string())
}

fn gone(error: &std::io::Error) -> Refusal {
    Refusal::new(RefusalReason::Garbage, format!("the connection ended within the greeting: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn one_stranger_too_many_sends_the_oldest_away_and_nobody_else() {
        let (lobby, mut tasks) = (Lobby::default(), JoinSet::new());
        for serial in 0..UNAUTHENTICATED_MAX as u64 {
            assert!(!lobby.enter(serial, || tasks.spawn(std::future::pending::<()>())));
        }
        assert!(lobby.leave(0), "it has greeted, so it is no stranger any more");
        assert!(!lobby.enter(5_000, || tasks.spawn(std::future::pending())));
        assert!(lobby.enter(5_001, || tasks.spawn(std::future::pending())));
        assert!(!lobby.leave(1), "the oldest had to go");
        assert!(lobby.leave(2));
        assert!(tasks.join_next().await.is_some_and(|ended| ended.is_err_and(|error| error.is_cancelled())));
        assert!(tasks.try_join_next().is_none());
    }
}
