//! Lists of different locks that one token stands for.

use serde::{Deserialize, Serialize};

use crate::ids::AttemptKey;
use crate::name::LockName;
use crate::share::Share;

/// Most locks that one attempt can take.
pub const MANY_MAX: usize = 64;

/// Why a list is none that one attempt can take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeveralError {
    /// None at all, or more than [`MANY_MAX`].
    #[error("must name between 1 and {MANY_MAX} locks, got {0}")]
    Len(usize),
    /// The same lock twice; where it stands for the second time, from 0.
    #[error("names a lock twice")]
    Twice(usize),
}

/// Something that is about one lock.
pub trait OfLock {
    /// The lock.
    fn lock(&self) -> &LockName;
}

/// One lock of an attempt at many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The lock, and which attempt it is there.
    pub place: Place,
    /// How much of it.
    pub share: Share,
}

/// A lock, and which attempt at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The lock.
    pub lock: LockName,
    /// The attempt, as it would be alone.
    pub key: AttemptKey,
}

impl OfLock for Item {
    fn lock(&self) -> &LockName {
        &self.place.lock
    }
}

impl OfLock for Place {
    fn lock(&self) -> &LockName {
        &self.lock
    }
}

/// 1 to [`MANY_MAX`] different locks, in the order in which they were named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", into = "Vec<T>")]
#[serde(bound(serialize = "T: Clone + Serialize", deserialize = "T: OfLock + Deserialize<'de>"))]
pub struct Several<T>(Vec<T>);

impl<T: OfLock> Several<T> {
    /// Checks number and names.
    ///
    /// # Errors
    /// Too few, too many, or one of them twice.
    pub fn new(list: Vec<T>) -> Result<Self, SeveralError> {
        if !(1..=MANY_MAX).contains(&list.len()) {
            return Err(SeveralError::Len(list.len()));
        }
        let is_repeated = |at: &usize| list[..*at].iter().any(|other| other.lock() == list[*at].lock());
        match (0..list.len()).find(is_repeated) {
            Some(at) => Err(SeveralError::Twice(at)),
            None => Ok(Self(list)),
        }
    }

    /// The first of them: there is one.
    pub fn first(&self) -> &T {
        &self.0[0]
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T: OfLock> TryFrom<Vec<T>> for Several<T> {
    type Error = SeveralError;

    fn try_from(list: Vec<T>) -> Result<Self, SeveralError> {
        Self::new(list)
    }
}

impl<T> From<Several<T>> for Vec<T> {
    fn from(several: Several<T>) -> Self {
        several.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: impl IntoIterator<Item = String>) -> Result<Several<Place>, SeveralError> {
        let place = |name: String| Place { lock: LockName::new(&name).unwrap(), key: AttemptKey([0; 16]) };
        Several::new(names.into_iter().map(place).collect())
    }

    #[test]
    fn a_list_has_1_to_64_different_locks() {
        assert_eq!(places([]), Err(SeveralError::Len(0)));
        assert_eq!(places((0..65).map(|n| n.to_string())), Err(SeveralError::Len(65)));
        assert_eq!(places(["a", "b", "a", "b"].map(String::from)), Err(SeveralError::Twice(2)));
        assert!(places((0..64).map(|n| n.to_string())).is_ok());
    }
}
