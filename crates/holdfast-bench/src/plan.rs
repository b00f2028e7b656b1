//! What is measured, and for how long.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What each client does in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Pairs with one client only: what one acquire costs where nobody else is.
    Single,
    /// Acquires and releases a lock that nobody else wants. One operation is a pair.
    Pairs,
    /// Waits for the one lock that all want, and gives it back at once. One operation is a hand-over.
    Hot,
    /// Holds a lock of its own and renews it.
    Renew,
}

impl Workload {
    /// All of them, in the order in which they are best run: the quietest first.
    pub const ALL: [Self; 4] = [Self::Single, Self::Pairs, Self::Hot, Self::Renew];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Pairs => "pairs",
            Self::Hot => "hot",
            Self::Renew => "renew",
        }
    }

    /// What its rate counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Single | Self::Pairs => "pairs",
            Self::Hot => "hand-overs",
            Self::Renew => "renewals",
        }
    }

    /// How many clients take part if so many are asked for.
    pub fn clients(self, asked: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::Pairs | Self::Hot | Self::Renew => asked,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What each client does.
    pub workload: Workload,
    /// How many of them.
    pub clients: usize,
    /// How long they run before anything counts.
    pub warm_up: Duration,
    /// How long they run while it counts.
    pub measured: Duration,
}
