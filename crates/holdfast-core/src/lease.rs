//! How long a hold lives.

use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::planted::{Bug, planted};
use crate::time::{ClusterTime, Ttl};

/// What keeps a hold: a lease of its own, or a session, which keeps several.
///
/// What is left of it and its TTL are asked of the table ([`crate::LockTable::term`]), since a session knows its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lease {
    /// Over at the deadline unless it is renewed before.
    Own {
        /// In force: as asked for at first, or by the last renewal that named one.
        ttl: Ttl,
        deadline: ClusterTime,
    },
    /// It lives as long as the session.
    Session(SessionId),
}

/// How an attempt wants its hold to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asked {
    Ttl(Ttl),
    Session(SessionId),
}

impl Asked {
    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Self::Ttl(_) => None,
            Self::Session(session) => Some(session),
        }
    }
}

impl Lease {
    pub(crate) fn begin(asked: Asked, now: ClusterTime) -> Self {
        match asked {
            Asked::Ttl(ttl) => Term::begin(now, ttl).into(),
            Asked::Session(session) => Self::Session(session),
        }
    }

    /// Its span, if it is the hold's own.
    pub(crate) fn own(self) -> Option<Term> {
        match self {
            Self::Own { ttl, deadline } => Some(Term { ttl, deadline }),
            Self::Session(_) => None,
        }
    }

    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Self::Own { .. } => None,
            Self::Session(session) => Some(session),
        }
    }
}

impl From<Term> for Lease {
    fn from(Term { ttl, deadline }: Term) -> Self {
        Self::Own { ttl, deadline }
    }
}

/// A span that is renewed: a lease of a hold's own, or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Term {
    /// In force.
    pub(crate) ttl: Ttl,
    pub(crate) deadline: ClusterTime,
}

impl Term {
    pub(crate) fn begin(now: ClusterTime, ttl: Ttl) -> Self {
        Self { ttl, deadline: now.after(ttl.ms()) }
    }

    /// Sets what is left to the TTL; it never adds.
    #[must_use]
    pub(crate) fn renewed(self, now: ClusterTime, ttl: Option<Ttl>) -> Self {
        let from = if planted(Bug::RenewalAddsTtl) { self.deadline } else { now };
        Self::begin(from, ttl.unwrap_or(self.ttl))
    }

    pub(crate) fn left_ms(self, now: ClusterTime) -> u64 {
        self.deadline.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly every hold has a lease of its own, and pays nothing for the others.
    #[test]
    fn a_lease_takes_no_more_memory_than_what_an_own_one_needs() {
        assert_eq!(size_of::<Lease>(), size_of::<Term>());
    }
}
