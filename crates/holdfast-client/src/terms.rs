//! What an acquire may ask for beside a TTL.

use std::fmt;
use std::time::Duration;

use holdfast_api::Once;

use crate::acquire::whole_ms;

/// What to agree on beside the TTL. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// For how long nobody is granted the lock after the hold has expired or an operator has ended it. At most 5 minutes.
    pub delay: Option<Duration>,
    /// How long after the grant a release takes effect at the earliest. At most 24 h.
    pub min_hold: Option<Duration>,
    /// How long after the grant the hold is over at the latest, however it is renewed. 100 ms to 366 days.
    pub max_hold: Option<Duration>,
    /// Only where no run was completed within this period, counted from that run's grant. 1 s to 366 days.
    pub once: Option<Duration>,
}

impl Terms {
    pub(crate) fn once(&self) -> Option<Once> {
        self.once.map(|period| Once { period_ms: whole_ms(period) })
    }
}

/// A run that was completed in the present period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlreadyDone {
    /// The label of who did it.
    pub owner: String,
    /// The number of its grant.
    pub fence: u64,
    /// When the period is over.
    pub next_in: Duration,
    /// How long ago it was completed.
    pub done_ago: Duration,
}

impl fmt::Display for AlreadyDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, fence, next_in, done_ago } = self;
        write!(
            f,
            "it was done already, {done_ago:?} ago by {owner:?} with fence {fence}; the next run is due in {next_in:?}"
        )
    }
}
