//! One member of a cluster, as its server uses it.

use holdfast_core::{AttemptKey, ClusterTime, Fence, Grant, LockName, LockTable, Ttl};

use crate::handle::{Acquired, Attempt, CallFailure, ClusterStatus, Consistency, NodeStatus, Unanswered};
use crate::world::{NodeId, Runtime};

/// One member of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replica<R: Runtime> {
    _world: std::marker::PhantomData<R>,
}

/// The answer to an attempt on its way to the client.
///
/// Dropped without [`Delivery::delivered`], it means that the client has hung up: a grant that nobody was told of is
/// given up at once.
#[derive(Debug)]
#[must_use = "dropping it gives the grant up"]
pub struct Delivery(Option<Box<dyn std::any::Any + Send + Sync>>);

impl Delivery {
    /// The answer has been handed to the client's connection.
    pub fn delivered(mut self) {
        self.0 = None;
    }
}

impl<R: Runtime> Replica<R> {
    /// Takes the lock, or waits for it.
    ///
    /// Dropping the future means that the client has hung up: the attempt is given up.
    /// Answered within the attempt's wait + [`crate::handle::CALL_TIMEOUT`].
    pub async fn acquire(&self, attempt: Attempt) -> Result<(Acquired, Delivery), CallFailure> {
        unimplemented!("{attempt:?}")
    }

    /// Sets what is left of the lease to the TTL.
    pub async fn renew(
        &self,
        lock: LockName,
        key: AttemptKey,
        ttl: Option<Ttl>,
    ) -> Result<Grant, CallFailure> {
        unimplemented!("{lock:?} {key:?} {ttl:?}")
    }

    /// Frees the lock, or takes the attempt out of the queue (then there is no fence).
    pub async fn release(&self, lock: LockName, key: AttemptKey) -> Result<Option<Fence>, CallFailure> {
        unimplemented!("{lock:?} {key:?}")
    }

    /// Looks at the state; `look` also gets the leader's present cluster time (the table's own for a stale read).
    pub async fn read<T>(
        &self,
        consistency: Consistency,
        look: impl FnOnce(&LockTable, ClusterTime) -> T + Send,
    ) -> Result<T, Unanswered> {
        let _ = look;
        unimplemented!("{consistency:?}")
    }

    /// The cluster as this node sees it; asks the members what they say of themselves, for half a second at most.
    pub async fn cluster(&self) -> ClusterStatus {
        unimplemented!()
    }

    /// Numbers about this node. Cheap.
    pub fn status(&self) -> NodeStatus {
        unimplemented!()
    }

    /// This node's id.
    pub fn node_id(&self) -> NodeId {
        unimplemented!()
    }

    /// Resolves when the replica has stopped by itself (a broken disk, a bug), with the reason: the process must exit.
    pub async fn failed(&self) -> String {
        unimplemented!()
    }

    /// Hands leadership over if this node leads, answers what is in flight, stops. Idempotent.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
