//! Cluster time and the spans that users ask for.

use serde::{Deserialize, Serialize};

/// Milliseconds since the cluster was born, as its leaders counted them. It stands still without a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterTime(pub u64);

impl ClusterTime {
    /// The time `ms` later.
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` until now; 0 where that is in the future.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be between {min} and {max} milliseconds, got {given}")]
pub struct RangeError {
    /// What was asked for, in milliseconds.
    pub given: u64,
    /// Smallest allowed, in milliseconds.
    pub min: u64,
    /// Largest allowed, in milliseconds.
    pub max: u64,
}

/// For spans that may be longer than those of leases and waits.
pub(crate) fn in_range_long(given: u64, min: u64, max: u64) -> Result<u64, RangeError> {
    if (min..=max).contains(&given) { Ok(given) } else { Err(RangeError { given, min, max }) }
}

fn in_range(given: u64, min: u32, max: u32) -> Result<u32, RangeError> {
    match u32::try_from(given) {
        Ok(ms) if (min..=max).contains(&ms) => Ok(ms),
        _ => Err(RangeError { given, min: min.into(), max: max.into() }),
    }
}

/// How long a lease lasts without renewal: 100 ms to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Ttl(u32);

impl Ttl {
    /// Shortest, in milliseconds.
    pub const MIN_MS: u32 = 100;
    /// Longest, in milliseconds.
    pub const MAX_MS: u32 = 24 * 60 * 60 * 1000;
    /// Of those who name none, in milliseconds.
    pub const DEFAULT_MS: u32 = 30_000;

    /// Checks the range.
    pub fn from_ms(ms: u64) -> Result<Self, RangeError> {
        in_range(ms, Self::MIN_MS, Self::MAX_MS).map(Self)
    }

    /// In milliseconds.
    pub fn ms(self) -> u64 {
        self.0.into()
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(Self::DEFAULT_MS)
    }
}

impl TryFrom<u32> for Ttl {
    type Error = RangeError;

    fn try_from(ms: u32) -> Result<Self, RangeError> {
        Self::from_ms(ms.into())
    }
}

/// How long an attempt may wait in the queue: 0 (try once) to 10 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Wait(u32);

impl Wait {
    /// Longest, in milliseconds.
    pub const MAX_MS: u32 = 600_000;
    /// Try once.
    pub const NONE: Self = Self(0);

    /// Checks the range.
    pub fn from_ms(ms: u64) -> Result<Self, RangeError> {
        in_range(ms, 0, Self::MAX_MS).map(Self)
    }

    /// In milliseconds.
    pub fn ms(self) -> u64 {
        self.0.into()
    }
}

impl TryFrom<u32> for Wait {
    type Error = RangeError;

    fn try_from(ms: u32) -> Result<Self, RangeError> {
        Self::from_ms(ms.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_outside_their_range_are_refused_with_the_range() {
        assert_eq!(Ttl::from_ms(99), Err(RangeError { given: 99, min: 100, max: 86_400_000 }));
        assert_eq!(Ttl::from_ms(86_400_001).unwrap_err().given, 86_400_001);
        assert_eq!(Ttl::from_ms(u64::MAX).unwrap_err().given, u64::MAX);
        assert_eq!(Ttl::from_ms(100).unwrap().ms(), 100);
        assert_eq!(Wait::from_ms(600_001).unwrap_err().max, 600_000);
        assert_eq!(Wait::from_ms(0).unwrap(), Wait::NONE);
    }
}
