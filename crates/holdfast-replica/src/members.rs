//! Changes of members and of the leader, on behalf of an operator or of a node that joins or moves.
//!
//! Only the leader makes them, one at a time; every other node passes a request on. All of it is safe to repeat: what is
//! done already is a success. An id is given to one data folder for ever, and does not come back once it was removed.

mod lead;
mod requests;
mod seat;

use openraft_rt::Instant as _;
use serde::{Deserialize, Serialize};

use crate::handle::{CALL_TIMEOUT, Unanswered};
use crate::replica::Replica;
use crate::wire::OperatorRequest;
use crate::world::{NodeId, Runtime};

pub(crate) use self::lead::Turns;
pub use self::seat::{SeatWish, Stay};

/// Whether a change is made although it may cost the cluster its majority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Safety {
    /// Then it is refused.
    #[default]
    Checked,
    /// It is made all the same.
    Forced,
}

/// Why the leader does not make a change. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ChangeRefusal {
    /// It would cost the cluster its majority, or let a node in that nobody can rely on.
    #[error("{0}")]
    Unsafe(String),
    /// One change at a time.
    #[error("another change of the members is under way")]
    InProgress,
    /// There is no such member.
    #[error("{0}")]
    NoSuchMember(String),
    /// It makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// Why a change was not made, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeFailure {
    /// The leader refused it.
    #[error(transparent)]
    Refused(#[from] ChangeRefusal),
    /// No leader said anything.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// A node that wants to be a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joiner {
    /// Its id.
    pub node: NodeId,
    /// `HOST:PORT` of its peer listener.
    pub addr: String,
    /// Its data folder.
    pub storage: holdfast_core::StorageId,
}

impl<R: Runtime> Replica<R> {
    /// Lets a node in as a learner, or notes the present address of one that is a member already.
    ///
    /// # Errors
    /// [`ChangeRefusal::Unsafe`] where the id belongs to another folder or was removed, or the leader cannot reach the node.
    pub async fn join(&self, joiner: Joiner) -> Result<(), ChangeFailure> {
        let Joiner { node, addr, storage } = joiner;
        self.0.check_open()?;
        self.0.operate(&OperatorRequest::Join { node, addr, storage }).await.map(|_| ())
    }

    /// The cluster's identity, if this node knows it.
    pub fn cluster_id(&self) -> Option<holdfast_core::ClusterId> {
        self.0.effects.progress.get().cluster
    }

    /// Lets a member go, whether it answers or not. One that leads lets another node lead first.
    ///
    /// # Errors
    /// [`ChangeRefusal::Unsafe`] where those who are left would have no majority of nodes that answer.
    pub async fn remove(&self, node: NodeId, safety: Safety) -> Result<(), ChangeFailure> {
        self.0.check_open()?;
        self.0.operate(&OperatorRequest::Remove { node, safety }).await.map(|_| ())
    }

    /// Lets another node lead: this one, or whichever is best. Gives the leader, which serves by then.
    ///
    /// # Errors
    /// [`ChangeRefusal::Unsafe`] where the node does not answer or does not take over.
    pub async fn transfer(&self, to: Option<NodeId>) -> Result<NodeId, ChangeFailure> {
        self.0.check_open()?;
        let begun = R::Instant::now();
        let leader = self.0.operate(&OperatorRequest::Transfer { to }).await?;
        let left = CALL_TIMEOUT.saturating_sub(R::Instant::now() - begun);
        self.0.wait_until_led_by(leader, left).await?;
        Ok(leader)
    }
}
