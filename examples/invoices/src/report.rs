//! What an instance says on its standard output, one line each.

#![expect(clippy::print_stdout, reason = "the output is the report of the run")]

use std::fmt;
use std::time::Duration;

use holdfast_client::ReleaseError;
use holdfast_client::api::HeldBy;

use crate::store::{Invoice, Written};

/// The word that the line begins with when an instance has the lock.
pub const HOLDS: &str = "holds";
/// … when it leaves the run to another instance.
pub const SKIPS: &str = "skips";
/// … when it stops between its look at the lock and the write.
pub const PAUSES: &str = "pauses";
/// … when its work is done.
pub const RAN: &str = "ran";
/// … when the store refused its write.
pub const REFUSED: &str = "refused";

/// One line.
#[derive(Debug)]
pub enum Report<'a> {
    /// The lock is taken.
    Holds {
        /// The lock.
        lock: &'a str,
        /// The grant's number.
        fence: u64,
        /// The lease without renewal.
        ttl: Duration,
    },
    /// Another instance has the lock.
    Skips {
        /// The lock.
        lock: &'a str,
        /// That instance, if the service said so.
        holder: Option<&'a HeldBy>,
    },
    /// It is about to stop, sure that it holds the lock.
    Pauses {
        /// Whose invoice comes next.
        customer: i64,
        /// How long the lock is still held for certain.
        left: Duration,
    },
    /// The store took a write.
    Wrote(&'a Invoice, Written),
    /// The store refused a write: this holder has been overtaken.
    Refused {
        /// Whose invoice it was; none if the run was refused at its beginning.
        customer: Option<i64>,
        /// The writer's fence.
        fence: u64,
        /// The newest that the store has seen.
        newest: u64,
    },
    /// The run is complete.
    Ran {
        /// Invoices that it wrote.
        new: u32,
        /// Invoices that were there already.
        already: u32,
    },
    /// The work is done, but the release was not confirmed.
    NotReleased(&'a ReleaseError),
}

impl Report<'_> {
    /// Says it.
    pub fn say(&self) {
        println!("{self}");
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { lock, fence, ttl } => {
                let (ttl_s, third_s) = (ttl.as_secs_f64(), ttl.as_secs_f64() / 3.0);
                write!(
                    f,
                    "{HOLDS} {lock} with fence {fence}; lease of {ttl_s:.1} s, renewed every {third_s:.1} s"
                )
            }
            Self::Skips { lock, holder: Some(HeldBy { owner, fence, .. }) } => {
                write!(f, "{SKIPS} this run: {lock} is held by {owner} with fence {fence}")
            }
            Self::Skips { lock, holder: None } => write!(f, "{SKIPS} this run: {lock} is held"),
            Self::Pauses { customer, left } => write!(
                f,
                "{PAUSES}: it has checked that it holds the lock, for {:.2} s more; next comes customer {customer}",
                left.as_secs_f64()
            ),
            Self::Wrote(Invoice { customer, fence, .. }, Written::New) => {
                write!(f, "wrote the invoice of customer {customer} under fence {fence}")
            }
            Self::Wrote(Invoice { customer, .. }, Written::Already) => {
                write!(f, "found the invoice of customer {customer} in place")
            }
            Self::Refused { customer: Some(customer), fence, newest } => write!(
                f,
                "{REFUSED}: the store takes no invoice of customer {customer} under fence {fence}, \
                 for it has seen {newest}"
            ),
            Self::Refused { customer: None, fence, newest } => {
                write!(f, "{REFUSED}: the store begins no run under fence {fence}, for it has seen {newest}")
            }
            Self::Ran { new, already } => {
                write!(f, "{RAN} to the end: {new} invoices written, {already} were in place")
            }
            Self::NotReleased(error) => write!(f, "could not release the lock: {error}"),
        }
    }
}
