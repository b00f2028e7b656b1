//! Commands, and how they lie in the replicated log.

use serde::{Deserialize, Serialize};

use crate::event::Intervention;
use crate::ids::{AttemptKey, ClusterId, Fence, Home, NodeId, SessionId, SessionKey, StorageId};
use crate::name::{LockName, Metadata, Owner};
use crate::several::{Item, Place, Several};
use crate::share::{Limit, Share};
use crate::terms::Terms;
use crate::time::{ClusterTime, Ttl, Wait};

/// What to do. The order of the variants is the encoding: append, never insert or reorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Take the lock if it is free; else wait, if the attempt waits.
    Acquire(Acquire),
    /// Set what is left of the lease to the TTL.
    Renew {
        /// The lock.
        lock: LockName,
        /// The attempt that holds it.
        key: AttemptKey,
        /// A new TTL; none keeps the one in force.
        ttl: Option<Ttl>,
    },
    /// Free the lock, or give up the wait: of this attempt only.
    Release {
        /// The lock.
        lock: LockName,
        /// The attempt.
        key: AttemptKey,
    },
    /// The client of this call has gone without an answer: give up its wait, or its hold.
    Abandon {
        /// The lock.
        lock: LockName,
        /// The attempt.
        key: AttemptKey,
        /// The call; if a newer call owns the attempt by now, nothing is done.
        home: Home,
    },
    /// Nobody has claimed this grant from the queue: the attempt goes back to its place, and its node counts as absent.
    ///
    /// Only the leader that made the grant, in the same term, may say so, and only while it has not confirmed the
    /// grant to anybody. Rejected where a call with the attempt's token was told of the grant meanwhile: it stays.
    Unclaim {
        /// The lock.
        lock: LockName,
        /// The grant.
        fence: Fence,
    },
    /// This node is alive, and so are the clients that wait at it.
    Vouch {
        /// The node.
        node: NodeId,
        /// Which start of it.
        boot: u32,
    },
    /// This node uses this data folder, for ever.
    Register {
        /// The node.
        node: NodeId,
        /// Its folder.
        storage: StorageId,
    },
    /// The cluster has this identity, unless it has one already.
    Found {
        /// The identity.
        cluster: ClusterId,
    },
    /// Like [`Op::Acquire`], but not all of the lock.
    AcquireShare(Acquire, Share),
    /// The lock has so many permits from now on, if it counts any.
    SetLimit {
        /// The lock.
        lock: LockName,
        /// How many.
        limit: Limit,
    },
    /// The holder says something else about itself from now on.
    Proclaim {
        /// The lock.
        lock: LockName,
        /// The attempt that holds it.
        key: AttemptKey,
        /// What it says.
        metadata: Metadata,
    },
    /// The lock goes from its holder to somebody who waits for it, whoever is in front of him.
    HandOver {
        /// The lock.
        lock: LockName,
        /// The attempt that holds it.
        key: AttemptKey,
        /// The first of this owner's attempts whose client is there gets it.
        to: Owner,
    },
    /// Take all of these locks if they are free; else wait for all of them, if the attempt waits.
    AcquireMany(AcquireMany),
    /// Like [`Op::Renew`], of many locks.
    RenewMany {
        /// The attempt at many that holds them.
        key: AttemptKey,
        /// Which of them; none: all that it holds.
        named: Option<Several<Place>>,
        /// A new TTL; none keeps those in force.
        ttl: Option<Ttl>,
    },
    /// Like [`Op::Release`], of many locks.
    ReleaseMany {
        /// The attempt at many.
        key: AttemptKey,
        /// Which of them; none: all that it holds or waits for.
        named: Option<Several<Place>>,
    },
    /// Like [`Op::AcquireShare`], for as long as the session lives: the attempt's own TTL counts for nothing.
    AcquireInSession(Acquire, Share, SessionRef),
    /// Open a session, or find the one that this key has opened.
    OpenSession {
        /// Which one; repeating it is safe.
        key: SessionKey,
        /// Public label.
        owner: Owner,
        /// How long it lives without renewal.
        ttl: Ttl,
    },
    /// Set what is left of the session to its TTL.
    RenewSession(SessionRef),
    /// Free all that the session holds and give up all that it waits for.
    EndSession(SessionRef),
    /// An operator ends a hold.
    ForceRelease {
        /// The lock.
        lock: LockName,
        /// Only this grant.
        fence: Fence,
        /// Who, and why.
        by: Intervention,
    },
    /// An operator takes those of an owner out of the queue.
    ForceLeave {
        /// The lock.
        lock: LockName,
        /// All of this owner's attempts that wait.
        owner: Owner,
        /// Who, and why.
        by: Intervention,
    },
    /// What the leader's clock on the wall shows, for people only.
    TellWallClock {
        /// In milliseconds since 1970.
        unix_ms: u64,
    },
    /// Like [`Op::AcquireShare`] or [`Op::AcquireInSession`], on terms.
    AcquireOnTerms(Box<AcquireOnTerms>),
    /// Like [`Op::Release`], and the holder has done what it took the lock for.
    ReleaseDone {
        /// The lock.
        lock: LockName,
        /// The attempt.
        key: AttemptKey,
    },
}

/// An attempt that asks for more than a TTL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireOnTerms {
    /// In a session its TTL counts for nothing.
    pub acquire: Acquire,
    /// How much of the lock.
    pub share: Share,
    /// What keeps the hold, if not a lease of its own.
    pub session: Option<SessionRef>,
    /// What it asks for.
    pub terms: Terms,
}

/// A session, named by somebody who shows that it is his.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRef {
    /// Its number.
    pub id: SessionId,
    /// The hash of the token that was shown.
    pub key: SessionKey,
}

/// One attempt to acquire a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// The lock.
    pub lock: LockName,
    /// Which attempt; repeating it is safe.
    pub key: AttemptKey,
    /// Public label.
    pub owner: Owner,
    /// Of the lease.
    pub ttl: Ttl,
    /// How long to wait in the queue, from the moment the leader took the request.
    pub wait: Wait,
    /// The holder's own.
    pub metadata: Metadata,
    /// Where the client is connected.
    pub home: Home,
}

/// One attempt to acquire many locks, all or none.
///
/// To abandon it, or to take back its grant, its first lock is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireMany {
    /// Which attempt; repeating it is safe. Another key than those it has at its locks.
    pub key: AttemptKey,
    /// The locks.
    pub items: Several<Item>,
    /// Public label.
    pub owner: Owner,
    /// Of the leases.
    pub ttl: Ttl,
    /// How long to wait in the queues, from the moment the leader took the request.
    pub wait: Wait,
    /// Where the client is connected.
    pub home: Home,
}

/// An operation in its encoding: made once where it arrives, copied into the log as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EncodedOp(Vec<u8>);

impl EncodedOp {
    /// Encodes an operation.
    pub fn new(op: &Op) -> Self {
        Self(postcard::to_stdvec(op).expect("operations contain nothing that postcard cannot encode"))
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Decodes it again; what comes from another node is checked this way before it goes into the log.
    pub fn decode(&self) -> Result<Op, DecodeError> {
        match postcard::take_from_bytes(&self.0) {
            // Bytes behind it would be taken for the next operation of the group.
            Ok((op, [])) => Ok(op),
            _ => Err(DecodeError::Malformed),
        }
    }
}

/// Why bytes are no group of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a version of the program that this one does not know.
    #[error("the log entry has format {0}, this program reads up to {known}", known = Group::FORMAT)]
    Format(u8),
    /// Not what this program writes.
    #[error("the log entry is malformed")]
    Malformed,
}

/// One entry of the replicated log: what to do, and when the leader took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The leader's cluster time. Replicas never read a clock of their own.
    pub now: ClusterTime,
    /// In this order.
    pub ops: Vec<Op>,
}

impl Group {
    /// First byte of the encoding.
    pub const FORMAT: u8 = 1;
    const HEADER_LEN: usize = 9;

    /// Reads what a [`GroupEncoder`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (format, rest) = bytes.split_first().ok_or(DecodeError::Malformed)?;
        if *format != Self::FORMAT {
            return Err(DecodeError::Format(*format));
        }
        let (now, mut rest) = rest.split_first_chunk::<8>().ok_or(DecodeError::Malformed)?;
        let mut ops = Vec::new();
        while !rest.is_empty() {
            let (op, tail) = postcard::take_from_bytes(rest).map_err(|_| DecodeError::Malformed)?;
            ops.push(op);
            rest = tail;
        }
        Ok(Self { now: ClusterTime(u64::from_le_bytes(*now)), ops })
    }
}

/// Builds the encoding of a group from operations that are encoded already.
#[derive(Debug)]
pub struct GroupEncoder {
    bytes: Vec<u8>,
    len: usize,
}

impl GroupEncoder {
    /// An empty group: a tick.
    pub fn new(now: ClusterTime) -> Self {
        let mut bytes = Vec::with_capacity(Group::HEADER_LEN);
        bytes.push(Group::FORMAT);
        bytes.extend_from_slice(&now.0.to_le_bytes());
        Self { bytes, len: 0 }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: &EncodedOp) {
        self.bytes.extend_from_slice(&op.0);
        self.len += 1;
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is a mere tick.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size so far, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes for the log.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renew(name: &str) -> Op {
        Op::Renew { lock: LockName::new(name).unwrap(), key: AttemptKey([7; 16]), ttl: None }
    }

    #[test]
    fn a_group_reads_back_as_it_was_written() {
        let ops = vec![renew("a"), Op::Vouch { node: NodeId(3), boot: 2 }, renew("b")];
        let mut encoder = GroupEncoder::new(ClusterTime(42));
        for op in &ops {
            encoder.push(&EncodedOp::new(op));
        }
        let bytes = encoder.finish();
        assert_eq!(Group::decode(&bytes), Ok(Group { now: ClusterTime(42), ops }));
    }

    #[test]
    fn an_unknown_format_and_a_cut_entry_are_told_apart() {
        let mut encoder = GroupEncoder::new(ClusterTime(1));
        encoder.push(&EncodedOp::new(&renew("a")));
        let mut bytes = encoder.finish();
        assert_eq!(Group::decode(&bytes[..bytes.len() - 1]), Err(DecodeError::Malformed));
        assert_eq!(Group::decode(&bytes[..4]), Err(DecodeError::Malformed));
        bytes[0] = 9;
        assert_eq!(Group::decode(&bytes), Err(DecodeError::Format(9)));
    }

    /// The bytes of the first format, for ever: a log written by it must stay readable.
    #[test]
    fn the_first_format_has_not_changed() {
        let mut encoder = GroupEncoder::new(ClusterTime(0x0102));
        encoder.push(&EncodedOp::new(&Op::Acquire(Acquire {
            lock: LockName::new("db").unwrap(),
            key: AttemptKey([1; 16]),
            owner: Owner::new("me").unwrap(),
            ttl: Ttl::from_ms(1_000).unwrap(),
            wait: Wait::NONE,
            metadata: Metadata::default(),
            home: Home { node: NodeId(1), boot: 2, call: 3 },
        })));
        encoder.push(&EncodedOp::new(&Op::Unclaim { lock: LockName::new("db").unwrap(), fence: Fence(5) }));
        let mut expected = vec![1, 2, 1, 0, 0, 0, 0, 0, 0];
        expected.extend([0, 2, b'd', b'b']);
        expected.extend([1; 16]);
        expected.extend([2, b'm', b'e', 0xe8, 0x07, 0, 0, 1, 2, 3]);
        expected.extend([4, 2, b'd', b'b', 5]);
        assert_eq!(encoder.finish(), expected);
    }
}
