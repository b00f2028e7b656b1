//! Ways of holding: what the clients of a run use a lock for, and how much of it each attempt asks for.
//!
//! A run uses each lock in one way. A further way of holding is a variant of [`Holding`] that [`Holding::draw`] draws; what
//! its attempts ask for is said here, what its clients do with what they hold in `clients`.

use holdfast_core::{Permits, Share, Terms};

use super::executor::{below, one_in};

/// What the clients of a run use a lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Each wants it alone.
    Alone,
    /// Some read beside others, some write alone.
    ReadersAndWriters,
    /// They count permits: so many at first.
    Permits { limit: u32 },
    /// Each wants to lead, says something, and may choose its successor.
    Election,
}

/// An operator sets limits up to this one.
const LIMIT_SET_MAX: u64 = 6;

impl Holding {
    /// Most locks are held alone.
    pub(crate) fn draw(mut below: impl FnMut(u64) -> u64) -> Self {
        match below(6) {
            0 => Self::ReadersAndWriters,
            5 => Self::Election,
            1 => Self::Permits { limit: [2, 3, 5][usize::try_from(below(3)).expect("few")] },
            _ => Self::Alone,
        }
    }

    /// What one more attempt asks for. `known` is the limit that its client has heard of last.
    pub(crate) fn wish(self, known: Option<u32>) -> Share {
        match self {
            Self::Alone | Self::Election => Share::Exclusive,
            Self::ReadersAndWriters if one_in(3) => Share::Exclusive,
            Self::ReadersAndWriters => Share::Shared,
            Self::Permits { limit } => {
                let limit = known.unwrap_or(limit);
                // Now and then one has a limit of its own in mind.
                let limit = if one_in(15) { limit + 1 } else { limit };
                permits(limit, [1, 1, 2, limit][usize::try_from(below(4)).expect("few")])
            }
        }
    }

    /// What those ask for who wait when the faults are over: one wants all that can be had, the next one as little.
    pub(crate) fn wish_of_probe(self, known: Option<u32>, wants_all: bool) -> Share {
        match (self, wants_all) {
            (Self::Alone | Self::Election, _) | (Self::ReadersAndWriters, true) => Share::Exclusive,
            (Self::ReadersAndWriters, false) => Share::Shared,
            (Self::Permits { limit }, wants_all) => {
                let limit = known.unwrap_or(limit);
                permits(limit, if wants_all { limit } else { 1 })
            }
        }
    }

    /// What one attempt in four asks for beside its TTL. Elections take no terms.
    pub(crate) fn terms(self) -> Terms {
        if self == Self::Election || !one_in(4) {
            return Terms::default();
        }
        let delay_ms = [0, 600, 2_000][usize::try_from(below(3)).expect("few")];
        let max_hold_ms = [None, Some(600), Some(1_500)][usize::try_from(below(3)).expect("few")];
        let period_ms = one_in(2).then_some(3_000);
        Terms::new(delay_ms, 0, max_hold_ms, period_ms).expect("within the limits")
    }

    /// The limit that an operator sets, if one is about.
    pub(crate) fn new_limit(self) -> Option<u32> {
        let is_about = matches!(self, Self::Permits { .. }) && one_in(10);
        is_about.then(|| u32::try_from(1 + below(LIMIT_SET_MAX)).expect("few"))
    }
}

fn permits(limit: u32, taken: u32) -> Share {
    let permits = Permits::new(limit.into(), taken.min(limit).into());
    Share::Permits(permits.expect("within the limits"))
}
