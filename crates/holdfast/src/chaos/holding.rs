//! Ways of holding: what the clients use a lock for, and how much of it each attempt asks for.
//!
//! A further way of holding is a variant here; what its attempts ask for is said in [`Holding::wish`], what clients do with
//! what they hold in `client.rs`.

use holdfast_history::Mode;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;

/// Until somebody changes it.
const FIRST_LIMIT: u32 = 4;
const LIMITS: [u32; 4] = [2, 3, 4, 6];

/// What the clients use a lock for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// Each wants it alone.
    Alone,
    /// Some read beside others, some write alone.
    ReadersAndWriters,
    /// They count permits.
    Permits,
}

/// How much of a lock an attempt asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) mode: Mode,
    pub(super) limit: Option<u32>,
    pub(super) permits: Option<u32>,
}

impl Holding {
    /// Every other lock is held alone.
    pub(super) fn of_lock(number: u64) -> Self {
        match number % 4 {
            1 => Self::ReadersAndWriters,
            3 => Self::Permits,
            _ => Self::Alone,
        }
    }

    /// `known` is the limit that the client has heard of last.
    pub(super) fn wish(self, known: Option<u32>, chance: &mut SmallRng) -> Wish {
        match self {
            Self::Alone => Wish::default(),
            Self::ReadersAndWriters if chance.random_range(0..3) == 0 => Wish::default(),
            Self::ReadersAndWriters => Wish { mode: Mode::Shared, ..Wish::default() },
            Self::Permits => {
                let limit = known.unwrap_or(FIRST_LIMIT);
                // Now and then one has a limit of its own in mind.
                let limit = if chance.random_range(0..15) == 0 { limit + 1 } else { limit };
                let permits = [1, 1, 2, limit].choose(chance).copied().unwrap_or(1).min(limit);
                Wish { limit: Some(limit), permits: Some(permits), ..Wish::default() }
            }
        }
    }

    /// The limit that an operator sets, if one is about.
    pub(super) fn new_limit(self, chance: &mut SmallRng) -> Option<u32> {
        let is_about = self == Self::Permits && chance.random_range(0..12) == 0;
        LIMITS.choose(chance).copied().filter(|_| is_about)
    }
}
