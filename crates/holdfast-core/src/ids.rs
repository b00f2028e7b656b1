//! Numbers that identify: fences, attempts, nodes, clusters.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a grant: one counter for the whole cluster, from 1, which never repeats and never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The last one there is, so that every JSON reader takes it for a whole number.
    pub const MAX: Self = Self((1 << 53) - 1);
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What identifies one acquisition attempt: a hash over the lock's name and the secret token.
///
/// The token itself never gets into the replicated state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptKey(pub [u8; 16]);

impl fmt::Debug for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}…", u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]))
    }
}

/// The number of a session. It is public: whoever uses the session shows its token, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A hash over a session's secret token, which itself never gets into the replicated state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(pub [u8; 16]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AttemptKey(self.0).fmt(f)
    }
}

/// Identifies a node within its cluster, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a client of an attempt is connected: which call at which start of which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Home {
    /// The node.
    pub node: NodeId,
    /// How often the node had been started, this start included.
    pub boot: u32,
    /// The call's number within that start.
    pub call: u32,
}

/// The random identity of a cluster, made when it is born.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub u128);

/// The random identity of a data folder, made when it is first used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StorageId(pub u128);

macro_rules! hex_identity {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

hex_identity!(ClusterId);
hex_identity!(StorageId);
