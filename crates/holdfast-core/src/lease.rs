//! How long a hold lives.

use serde::{Deserialize, Serialize};

use crate::planted::{Bug, planted};
use crate::time::{ClusterTime, Ttl};

/// A lease of the hold's own: it is over at the deadline unless it is renewed before.
///
/// Holders reach it through its methods alone, so that a lease can come to belong to several holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// In force: as asked for at first, or by the last renewal that named one.
    pub(crate) ttl: Ttl,
    pub(crate) deadline: ClusterTime,
}

impl Lease {
    pub(crate) fn begin(now: ClusterTime, ttl: Ttl) -> Self {
        Self { ttl, deadline: now.after(ttl.ms()) }
    }

    /// Sets what is left to the TTL; it never adds.
    pub(crate) fn renew(&mut self, now: ClusterTime, ttl: Option<Ttl>) {
        let from = if planted(Bug::RenewalAddsTtl) { self.deadline } else { now };
        *self = Self::begin(from, ttl.unwrap_or(self.ttl));
    }

    pub(crate) fn left_ms(&self, now: ClusterTime) -> u64 {
        self.deadline.since(now)
    }
}
