//! The rules of the locks: one deterministic state machine.
//!
//! [`LockTable`] is a value; [`LockTable::apply`] is the only thing that changes it. There is no clock, IO, randomness,
//! task, channel or hash-ordered map in this crate, so every replica computes the same bytes from the same log. A
//! rejection is an outcome like any other.
//!
//! Clippy holds it to that: `clippy.toml` names what may not be used here.

#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]
#![deny(clippy::iter_over_hash_type, clippy::float_arithmetic)]
// The switch of the planted bugs, which only the simulation is built with.
#![cfg_attr(feature = "planted-bugs", allow(clippy::disallowed_macros, clippy::disallowed_types))]

mod acquire;
mod acquire_many;
mod command;
mod deadlock;
mod decode;
mod election;
mod ending;
mod event;
mod event_history;
mod force;
mod homes;
mod ids;
mod kept;
mod lease;
mod lock;
mod many;
mod many_ends;
mod name;
mod node;
mod outcome;
pub mod planted;
mod release;
mod session;
mod several;
mod share;
mod snapshot;
mod table;
mod terms;
mod time;
mod timers;
mod view;
mod waits;
mod wall_clock;

pub use command::{
    Acquire, AcquireMany, AcquireOnTerms, DecodeError, EncodedOp, Group, GroupEncoder, Op, SessionRef,
};
pub use ending::{Cause, ENDING_KEPT_MS};
pub use event::{Change, Event, Happening, Intervention};
pub use event_history::{EVENTS_KEPT, EventHistory};
pub use ids::{AttemptKey, ClusterId, Fence, Home, NodeId, SessionId, SessionKey, StorageId};
pub use kept::DoneView;
pub use lock::QUEUE_LEN_MAX;
pub use name::{LockName, Metadata, NameError, Owner, Reason};
pub use node::VOUCH_MS;
pub use outcome::{Answer, Grant, HolderSummary, ManyGrant, Outcome, Rejection, SessionGrant};
pub use session::{SESSION_LEN_MAX, SessionDetail, SessionPage, SessionView};
pub use several::{Item, MANY_MAX, OfLock, Place, Several, SeveralError};
pub use share::{LIMIT_MAX, Limit, Permits, PermitsError, Share};
pub use snapshot::{SnapshotError, SnapshotReader, SnapshotView};
pub use table::{Applied, LockTable};
pub use terms::{Run, Terms, TermsError};
pub use time::{ClusterTime, RangeError, Ttl, Wait};
pub use view::{HolderView, LockPage, LockView, Lookup, Standing, WAITERS_LISTED_MAX, WaiterView};
