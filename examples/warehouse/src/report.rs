//! What a worker says on its standard output, one line each.

#![expect(clippy::print_stdout, reason = "the output is the report of the sync")]

use std::fmt;
use std::time::Duration;

use holdfast_client::ReleaseError;
use holdfast_client::api::HeldBy;

/// The word that the line begins with when a worker has the lock.
pub(crate) const HOLDS: &str = "holds";
/// … when another one has it, and a retry is planned.
pub(crate) const BUSY: &str = "busy";
/// … when it stops before the write.
pub(crate) const PAUSES: &str = "pauses";
/// … when the event was new.
pub(crate) const APPLIED: &str = "applied";
/// … when the event was applied before.
pub(crate) const UNCHANGED: &str = "changed nothing";

/// One line.
#[derive(Debug)]
pub(crate) enum Report<'a> {
    /// The lock is taken.
    Holds { lock: &'a str, fence: u64, ttl: Duration },
    /// Another worker has the lock: number `retry` of `most` comes after `pause`.
    Busy { holder: Option<&'a HeldBy>, retry: u32, most: u32, pause: Duration },
    /// It is about to stop.
    Pauses,
    /// The event is in the stock.
    Applied { event: &'a str },
    /// The event was in the stock before.
    Unchanged { event: &'a str },
    /// The event is in the stock, but the release was not confirmed.
    NotReleased(&'a ReleaseError),
}

impl Report<'_> {
    /// Says it.
    pub(crate) fn say(&self) {
        println!("{self}");
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { lock, fence, ttl } => {
                write!(f, "{HOLDS} {lock} with fence {fence}; lease of {:.1} s", ttl.as_secs_f64())
            }
            Self::Busy { holder, retry, most, pause } => {
                let holder = match holder {
                    Some(HeldBy { owner, fence, expires_in_ms }) => {
                        format!("{owner} with fence {fence}, for {expires_in_ms} ms unless renewed")
                    }
                    None => "somebody".into(),
                };
                write!(f, "{BUSY}: held by {holder}; retry {retry} of {most} in {} ms", pause.as_millis())
            }
            Self::Pauses => write!(f, "{PAUSES} in the middle of its work"),
            Self::Applied { event } => write!(f, "{APPLIED} {event}"),
            Self::Unchanged { event } => write!(f, "{UNCHANGED}: {event} had been applied before"),
            Self::NotReleased(error) => write!(f, "could not release the lock: {error}"),
        }
    }
}
