//! What a command came to.

use serde::{Deserialize, Serialize};

use crate::ids::{Fence, SessionId};
use crate::name::{LockName, Metadata, Owner};
use crate::time::Ttl;

/// Accepted or rejected: both are decided by the rules, the same on every replica.
pub type Outcome = Result<Answer, Rejection>;

/// A hold, as its holder is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The grant's number.
    pub fence: Fence,
    /// The holder's label.
    pub owner: Owner,
    /// In force.
    pub ttl: Ttl,
    /// What is left of the lease, in milliseconds.
    pub expires_in_ms: u64,
    /// The holder's own.
    pub metadata: Metadata,
    /// What is left until the hold is over even if it is renewed, in milliseconds; none: there is no such end.
    pub max_left_ms: Option<u64>,
}

/// A session, as its owner is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The session's number.
    pub id: SessionId,
    /// Its public label.
    pub owner: Owner,
    /// In force.
    pub ttl: Ttl,
    /// What is left of it, in milliseconds.
    pub expires_in_ms: u64,
}

/// The command was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The attempt holds the lock.
    Granted(Grant),
    /// The attempt waits; `place` 1 is the next in turn.
    Queued {
        /// How many are in front of it, itself included.
        place: u64,
    },
    /// The attempt holds nothing and waits for nothing (any more).
    Released {
        /// None for an attempt that was only queued.
        fence: Option<Fence>,
    },
    /// Nothing to tell.
    Done,
    /// The attempt holds all of these locks.
    GrantedMany(ManyGrant),
    /// The attempt holds none of these locks and waits for none of them (any more).
    ReleasedMany {
        /// The locks with their fences; none for one that was only waited for.
        fences: Vec<(LockName, Option<Fence>)>,
    },
    /// The session lives.
    Session(SessionGrant),
    /// The session has ended.
    SessionEnded {
        /// How many locks it held.
        released: u64,
    },
    /// These attempts have left the queue.
    Left {
        /// How many; 0 where this call is a repetition.
        count: u64,
    },
    /// The attempt is over, or will be.
    ReleasedOnTerms {
        /// Of its hold.
        fence: Fence,
        /// When its least hold is over and others can have the lock, in milliseconds; 0: already.
        effective_in_ms: u64,
        /// Whether it counts as the run that was completed in its period.
        is_done: bool,
    },
}

/// Holds of one attempt, as their holder is told of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManyGrant {
    /// The locks with the numbers of their grants, in the order in which they were named.
    pub fences: Vec<(LockName, Fence)>,
    /// The shortest in force.
    pub ttl: Ttl,
    /// What is left of the lease that is over first, in milliseconds.
    pub expires_in_ms: u64,
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderSummary {
    /// The holder's label.
    pub owner: Owner,
    /// The holder's number.
    pub fence: Fence,
    /// What is left of its lease, in milliseconds.
    pub expires_in_ms: u64,
}

/// The rules said no. Nothing has changed, but that a queued attempt which does not want to wait any more has left the
/// queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// The lock is busy, and the attempt does not wait.
    #[error("the lock is held")]
    Held {
        /// The first of those who hold it. None if it is kept free for somebody who waits for other locks as well.
        holder: Option<HolderSummary>,
        /// How many wait.
        queue_length: u64,
    },
    /// This attempt's lease was over.
    #[error("the lease of this token is over")]
    LeaseExpired,
    /// This attempt was released.
    #[error("the hold of this token was released")]
    LeaseReleased,
    /// An operator ended this attempt's hold.
    #[error("the hold of this token was ended by an operator")]
    LeaseForced,
    /// This attempt does not hold the lock and nothing is known of it.
    #[error("this token does not hold the lock")]
    NotHolder,
    /// The token is in use with another owner, TTL or metadata.
    #[error("this token is in use with other parameters")]
    TokenConflict,
    /// The lock's queue has no room.
    #[error("the queue of the lock is full")]
    QueueFull,
    /// There are no more numbers to give out.
    #[error("the cluster has no fences left")]
    FencesExhausted,
    /// The node's number is in use with another data folder.
    #[error("this node id belongs to another data folder")]
    ForeignStorage,
    /// The lock is in use with another limit, or without one.
    #[error("the lock is in use {}", in_use(.limit))]
    LimitConflict {
        /// In force; none if the lock is in use and counts no permits.
        limit: Option<u32>,
    },
    /// There is no limit to change: nobody who counts permits holds the lock or waits for it.
    #[error("nobody holds the lock or waits for it with a limit")]
    NoLimit,
    /// This attempt's hold went to somebody else as its holder wished.
    #[error("the holder of this token has handed the lock over")]
    HandedOver,
    /// There is nobody to hand over to; the holder keeps what it has.
    #[error("no attempt of that owner waits for the lock with its client there")]
    NoSuchCandidate,
    /// The wait would close a cycle of waits.
    #[error("the wait would close a cycle of waits")]
    Deadlock {
        /// The lock that was asked for, the one that whoever is in the way there waits for, and so on: the last one is
        /// kept by the one who asks.
        cycle: Vec<LockName>,
    },
    /// What was said of one of many locks.
    #[error("{why}: {lock:?}")]
    Of {
        /// The lock.
        lock: LockName,
        /// What was said of it.
        why: Box<Rejection>,
    },
    /// The session was over or was ended.
    #[error("the session is over")]
    SessionExpired,
    /// Nothing is known of the session.
    #[error("there is no such session")]
    SessionNotFound,
    /// The session has another token.
    #[error("the session has another token")]
    SessionNotYours,
    /// The session holds and waits for as much as one can.
    #[error("the session has no room")]
    SessionFull,
    /// Nobody of that label waits for the lock.
    #[error("nobody of that owner waits for the lock")]
    NoSuchWaiter,
    /// After a holder was lost, nobody is granted the lock for a while, and the attempt does not wait.
    #[error("the lock is in the delay that a lost holder had asked for")]
    Delayed {
        /// The first of those who still hold it beside the one that was lost.
        holder: Option<HolderSummary>,
        /// How many wait.
        queue_length: u64,
        /// What is left of the delay, in milliseconds.
        delay_ms: u64,
    },
    /// In this period the run was completed.
    #[error(
        "it was done already, {done_ms_ago} ms ago by {owner:?} with fence {fence}; the next run is due in {next_in_ms} ms"
    )]
    AlreadyDone {
        /// Who did it.
        owner: Owner,
        /// The grant's number.
        fence: Fence,
        /// When the period is over, in milliseconds.
        next_in_ms: u64,
        /// When its holder said that it was done, in milliseconds.
        done_ms_ago: u64,
    },
}

fn in_use(limit: &Option<u32>) -> String {
    match limit {
        Some(limit) => format!("with a limit of {limit}: name the same"),
        None => "without a limit: leave `limit` out, or use another name".to_owned(),
    }
}
