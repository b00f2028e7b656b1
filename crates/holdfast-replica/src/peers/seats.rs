//! One connection for each node and lane: a newer one takes the place of an older one.
//!
//! The older one has ended before the newer one is served, so that requests of a node are never handed over in
//! another order than they were sent in, and connections whose peer has vanished do not add up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::refusal::{Refusal, RefusalReason};
use crate::world::{NodeId, PeerLane};

/// The seats of one listener.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<BTreeMap<Owner, Occupant>>,
}

type Owner = (NodeId, PeerLane);

/// Boot of the node, and number of the connection since.
pub(super) type Age = (u64, u64);

#[derive(Debug)]
struct Occupant {
    age: Age,
    /// Dropped to send the occupant away.
    _stay: oneshot::Sender<()>,
    /// Ends when the occupant has gone.
    gone: oneshot::Receiver<()>,
}

/// The right to be served, given up when dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    owner: Owner,
    age: Age,
    sent_away: oneshot::Receiver<()>,
    _gone: oneshot::Sender<()>,
}

impl Seats {
    /// Takes the seat, from an older connection if need be, and waits until that has gone.
    pub(super) async fn take(self: &Arc<Self>, owner: Owner, age: Age) -> Result<Seat, Refusal> {
        let (stay, sent_away) = oneshot::channel();
        let (leaving, gone) = oneshot::channel();
        let predecessor = self.replace(owner, Occupant { age, _stay: stay, gone })?;
        let seat = Seat { seats: self.clone(), owner, age, sent_away, _gone: leaving };
        if let Some(gone) = predecessor {
            let _ = gone.await; // An error is how it ends.
        }
        Ok(seat)
    }

    fn replace(&self, owner: Owner, next: Occupant) -> Result<Option<oneshot::Receiver<()>>, Refusal> {
        let mut taken = self.taken.lock().expect("nothing panics with this lock held");
        if let Some(present) = taken.get(&owner)
            && present.age >= next.age
        {
            let text = format!("a newer connection of node {} is open", owner.0);
            return Err(Refusal::new(RefusalReason::Stale, text));
        }
        Ok(taken.insert(owner, next).map(|previous| previous.gone))
    }
}

impl Seat {
    /// Returns when a newer connection wants the seat.
    pub(super) async fn sent_away(&mut self) {
        let _ = (&mut self.sent_away).await; // An error is how it ends.
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().expect("nothing panics with this lock held");
        if taken.get(&self.owner).is_some_and(|present| present.age == self.age) {
            taken.remove(&self.owner);
        }
    }
}
