//! How much of a lock an attempt takes, and who fits beside whom.

use serde::{Deserialize, Serialize};

/// Most permits that a lock can have.
pub const LIMIT_MAX: u32 = 1_000_000;

/// A number outside 1 to [`LIMIT_MAX`], or more permits than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be between 1 and {most}, got {given}")]
pub struct PermitsError {
    /// What was asked for.
    pub given: u64,
    /// Largest allowed.
    pub most: u32,
}

/// Some permits of a lock that has a limit: 1 to the limit, which is at most [`LIMIT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct Permits {
    limit: u32,
    taken: u32,
}

impl Permits {
    /// Checks the ranges, the limit's first.
    ///
    /// # Errors
    /// [`PermitsError`] with `most` = [`LIMIT_MAX`] for the limit, and with the limit for the permits.
    pub fn new(limit: u64, taken: u64) -> Result<Self, PermitsError> {
        let limit = limit_in_range(limit)?;
        match u32::try_from(taken) {
            Ok(taken) if (1..=limit).contains(&taken) => Ok(Self { limit, taken }),
            _ => Err(PermitsError { given: taken, most: limit }),
        }
    }

    /// How many the lock has, as the attempt named it.
    pub fn limit(self) -> u32 {
        self.limit
    }

    /// How many of them the attempt takes.
    pub fn taken(self) -> u32 {
        self.taken
    }
}

fn limit_in_range(limit: u64) -> Result<u32, PermitsError> {
    let in_range = u32::try_from(limit).ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    in_range.ok_or(PermitsError { given: limit, most: LIMIT_MAX })
}

impl TryFrom<(u32, u32)> for Permits {
    type Error = PermitsError;

    fn try_from((limit, taken): (u32, u32)) -> Result<Self, PermitsError> {
        Self::new(limit.into(), taken.into())
    }
}

impl From<Permits> for (u32, u32) {
    fn from(permits: Permits) -> Self {
        (permits.limit, permits.taken)
    }
}

/// The limit of a lock, for whoever changes it: 1 to [`LIMIT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Limit(u32);

impl Limit {
    /// Checks the range.
    ///
    /// # Errors
    /// A number outside it.
    pub fn new(limit: u64) -> Result<Self, PermitsError> {
        limit_in_range(limit).map(Self)
    }

    /// How many permits there are.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Limit {
    type Error = PermitsError;

    fn try_from(limit: u32) -> Result<Self, PermitsError> {
        Self::new(limit.into())
    }
}

/// How much of a lock an attempt takes. The order of the variants is the encoding: append, never insert or reorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// All of it: nobody else holds it.
    #[default]
    Exclusive,
    /// Beside others that share it.
    Shared,
    /// Some of its permits.
    Permits(Permits),
}

impl Share {
    /// The limit that it names; none if it counts no permits.
    pub fn limit(self) -> Option<u32> {
        match self {
            Self::Permits(permits) => Some(permits.limit),
            Self::Exclusive | Self::Shared => None,
        }
    }

    /// How many permits it takes; 0 if it counts none.
    pub fn permits(self) -> u32 {
        match self {
            Self::Permits(permits) => permits.taken,
            Self::Exclusive | Self::Shared => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_at_least_one_and_at_most_the_limit() {
        for (limit, taken) in [(1, 1), (5, 5), (u64::from(LIMIT_MAX), 1)] {
            assert!(Permits::new(limit, taken).is_ok());
        }
        for (limit, taken, most) in [(5, 0, 5), (5, 6, 5), (0, 1, LIMIT_MAX), (1_000_001, 1, LIMIT_MAX)] {
            assert_eq!(Permits::new(limit, taken).unwrap_err().most, most, "{taken} of {limit}");
        }
    }
}
