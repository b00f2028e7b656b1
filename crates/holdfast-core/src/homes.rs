//! The calls of one attempt whose clients may still be there.

use serde::{Deserialize, Serialize};

use crate::ids::Home;

/// Of an attempt that is repeated again and again the oldest calls are forgotten.
const HOMES_MAX: usize = 8;

/// Where the calls with an attempt's token have come in, oldest first.
///
/// A client that repeats its call elsewhere has two of them for a while, and the network may bring them in any order. So
/// the newest is no better than the others, and an attempt is given up only when all of them are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Homes(Vec<Home>);

impl Homes {
    pub(crate) fn of(home: Home) -> Self {
        Self(vec![home])
    }

    /// One more call, unless it is known: a node may propose a call twice.
    pub(crate) fn add(&mut self, home: Home) {
        if self.0.contains(&home) {
            return;
        }
        if self.0.len() == HOMES_MAX {
            self.0.remove(0);
        }
        self.0.push(home);
    }

    /// The call's client has gone. True if it was the last one.
    pub(crate) fn remove(&mut self, home: Home) -> bool {
        let before = self.0.len();
        self.0.retain(|known| *known != home);
        self.0.len() < before && self.0.is_empty()
    }

    /// The call, if there is only one.
    pub(crate) fn sole(&self) -> Option<Home> {
        match self.0[..] {
            [home] => Some(home),
            _ => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Home> {
        self.0.iter().copied()
    }
}
