//! The types that openraft is built with here.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use holdfast_core::Outcome;
use openraft::impls::{BasicNode, BoxedErrorSource, InlineBatch, OneshotResponder, Vote, leader_id_std};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};
use serde::{Deserialize, Serialize};

use crate::consensus::machine::Machine;
use crate::world::{NodeId, Runtime};

/// openraft's types on one runtime. At most one leader a term.
pub(crate) struct Types<R>(PhantomData<fn() -> R>);

impl<R: Runtime> RaftTypeConfig for Types<R> {
    type D = GroupBytes;
    type R = Outcomes;
    type NodeId = NodeId;
    type Node = BasicNode;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, NodeId>;
    type Vote = Vote<Self::LeaderId>;
    type Payload = EntryPayload<Self::D, Self::NodeId, Self::Node>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = R;
    type Responder<T>
        = OneshotResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

pub(crate) type Raft<R> = openraft::Raft<Types<R>, Machine<R>>;
pub(crate) type LogId<R> = openraft::alias::LogIdOf<Types<R>>;
pub(crate) type Entry<R> = openraft::alias::EntryOf<Types<R>>;
pub(crate) type VoteOf<R> = openraft::alias::VoteOf<Types<R>>;
pub(crate) type StoredMembership<R> = openraft::alias::StoredMembershipOf<Types<R>>;
pub(crate) type SnapshotMeta<R> = openraft::alias::SnapshotMetaOf<Types<R>>;

/// A group of commands, encoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupBytes(pub(crate) Bytes);

impl fmt::Display for GroupBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for GroupBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for GroupBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl serde::de::Visitor<'_> for BytesVisitor {
            type Value = GroupBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<GroupBytes, E> {
                Ok(GroupBytes(Bytes::copy_from_slice(bytes)))
            }
        }

        deserializer.deserialize_bytes(BytesVisitor)
    }
}

/// What the commands of a group came to, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcomes(pub(crate) Vec<Outcome>);

// By hand: the derived ones would ask the same of the runtime, which is only a marker here.
impl<R> fmt::Debug for Types<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

impl<R> Clone for Types<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Types<R> {}

impl<R> Default for Types<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R> PartialEq for Types<R> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<R> Eq for Types<R> {}

impl<R> PartialOrd for Types<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R> Ord for Types<R> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}
