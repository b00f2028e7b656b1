//! How much of a lock an attempt takes, and what fits beside what.

use serde::{Deserialize, Serialize};

/// Alone, or beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nobody else holds the lock.
    #[default]
    Exclusive,
    /// Beside others that share it.
    Shared,
}

impl Mode {
    /// Whether it is what is meant where nothing is said.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_exclusive(&self) -> bool {
        *self == Self::Exclusive
    }
}

/// How much of a lock somebody takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    All,
    Shared,
    Permits(u32),
}

impl Share {
    pub(crate) fn of(mode: Mode, permits: Option<u32>) -> Self {
        match (permits, mode) {
            (Some(taken), _) => Self::Permits(taken),
            (None, Mode::Shared) => Self::Shared,
            (None, Mode::Exclusive) => Self::All,
        }
    }

    /// Whether two may hold the lock at once, as far as they two are concerned.
    pub(crate) fn fits_beside(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) | (Self::Permits(_), Self::Permits(_)) => true,
            (Self::All | Self::Shared | Self::Permits(_), _) => false,
        }
    }

    /// How many permits it takes; 0 if it counts none.
    pub(crate) fn permits(self) -> u64 {
        match self {
            Self::Permits(taken) => taken.into(),
            Self::All | Self::Shared => 0,
        }
    }
}
