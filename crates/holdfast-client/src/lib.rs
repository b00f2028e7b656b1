//! The client library of Holdfast: guards that renew themselves and know when they are lost.
//!
//! [`Client::lock`] is what most programs want: it acquires a lock and returns a [`Guard`]. Whoever holds many opens a
//! [`Session`] ([`Client::session`]), which keeps them all. The methods named
//! after the calls of the API ([`Client::acquire`], [`Client::renew`], [`Client::release`], [`Client::get`],
//! [`Client::list`], [`Client::cluster`] and those of many locks at once) are what it is made of.
//!
//! [`Client::election`] is the same for the job of leading: see [`Election`] and [`Leadership`].
//!
//! [`Client::watch`] tells what happens to locks, without a hole.
//!
//! All calls go to any endpoint, stay with one that works, and hide a leader change or a node's death by repeating
//! the request with the same token. A lease is counted from the moment its request was *sent*, on a clock that also
//! runs while the machine is suspended; see [`safety_margin`].

mod acquire;
mod attempt;
mod backoff;
mod call;
mod client;
mod clock;
mod election;
mod endpoint;
mod error;
mod grant;
mod guard;
mod judge;
mod keeping;
mod leadership;
mod lease;
mod membership;
mod path;
mod request;
mod session;
mod session_calls;
mod sse;
mod standing;
mod status;
mod steering;
mod target;
mod terms;
mod transport;
mod watch;

pub use acquire::{Acquire, Share, Wait, fresh_token};
pub use call::Answer;
pub use client::{Client, ClientBuilder, Consistency, Page};
pub use clock::{Clock, Moment};
pub use election::{Election, OBSERVE_EVERY, Observer};
pub use endpoint::EndpointError;
pub use error::{CallError, Refusal, Unanswered};
pub use guard::{Guard, ReleaseError};
pub use holdfast_api as api;
pub use leadership::{HandOverError, Leadership};
pub use lease::safety_margin;
pub use request::{AcquireError, LockRequest};
pub use session::{Session, SessionRequest};
pub use session_calls::{SessionPage, SessionRef};
pub use standing::{LossReason, Standing};
pub use status::status_of;
pub use terms::{AlreadyDone, Terms};
pub use watch::{Watch, Watched};
