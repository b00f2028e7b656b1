//! What a worker says on its standard output, one line each.

#![expect(clippy::print_stdout, reason = "the output is the report of the worker")]

use std::fmt;
use std::time::Duration;

use holdfast_client::{LossReason, ReleaseError};

use crate::belief::Belief;
use crate::decisions::StaleFence;

/// The word that the line begins with when a worker leads.
pub(crate) const LEADS: &str = "leads";
/// … when it has decided something for the first time in its term.
pub(crate) const DECIDES: &str = "decides";
/// … when a renewal was confirmed. Beside the story.
pub(crate) const RENEWED: &str = "(renewed";
/// … when it tells how long it can believe in its lead. Beside the story: it is for arithmetic.
pub(crate) const BELIEVES: &str = "(believes";

/// One line.
#[derive(Debug)]
pub(crate) enum Report<'a> {
    /// It asks for the lead, and waits while another one has it.
    Waits { election: &'a str },
    /// It leads from now on.
    Leads { fence: u64, ttl: Duration },
    /// The lead has just begun or ended, or a renewal was confirmed.
    Believes(Belief),
    /// A renewal was confirmed.
    Renewed { fence: u64 },
    /// The first decision of its term is in the store.
    Decides { fence: u64 },
    /// It leads no more, and knows it.
    Lost { fence: u64, reason: LossReason },
    /// It leads no more, and the store knew it first.
    Overtaken(StaleFence),
    /// It was asked to stop, and the next one leads.
    Resigned { fence: u64 },
    /// It was asked to stop, but that it has resigned was not confirmed.
    NotResigned(&'a ReleaseError),
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
            Self::Waits { election } => {
                write!(f, "campaigns in {election}, and waits while another one leads")
            }
            Self::Leads { fence, ttl } => {
                write!(f, "{LEADS} with fence {fence}, for {:.1} s at a time", ttl.as_secs_f64())
            }
            Self::Believes(Belief { fence, from_ms, until_ms }) => {
                write!(f, "{BELIEVES} in fence {fence} from {from_ms} until {until_ms})")
            }
            Self::Renewed { fence } => write!(f, "{RENEWED} fence {fence})"),
            Self::Decides { fence } => write!(f, "{DECIDES} under fence {fence}"),
            Self::Lost { fence, reason } => write!(f, "leads no more (fence {fence}): {reason}"),
            Self::Overtaken(stale) => write!(f, "leads no more: the store refuses its decision, {stale}"),
            Self::Resigned { fence } => write!(f, "resigned (fence {fence})"),
            Self::NotResigned(error) => write!(f, "could not resign: {error}"),
        }
    }
}
