//! Whether a grant is the one that was asked for.

use holdfast_api::{Grant, GrantMany, Leadership, Token};
use serde::de::DeserializeOwned;

use crate::judge::Failure;

/// The answer to an acquire or a renewal: of one lock, or of many.
pub(crate) trait Granted: DeserializeOwned + Send + 'static {
    /// The secret that it was granted to.
    fn token(&self) -> &Token;

    /// The numbers of the grants.
    fn fences(&self) -> impl Iterator<Item = u64>;

    /// In force.
    fn ttl_ms(&self) -> u64;

    /// What is left of the longest hold; none if it has no end.
    fn max_left_ms(&self) -> Option<u64> {
        None
    }
}

impl Granted for Grant {
    fn token(&self) -> &Token {
        &self.token
    }

    fn fences(&self) -> impl Iterator<Item = u64> {
        [self.fence].into_iter()
    }

    fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    fn max_left_ms(&self) -> Option<u64> {
        self.max_left_ms
    }
}

impl Granted for Leadership {
    fn token(&self) -> &Token {
        &self.token
    }

    fn fences(&self) -> impl Iterator<Item = u64> {
        [self.fence].into_iter()
    }

    fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }
}

impl Granted for GrantMany {
    fn token(&self) -> &Token {
        &self.token
    }

    fn fences(&self) -> impl Iterator<Item = u64> {
        self.grants.iter().map(|grant| grant.fence)
    }

    fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }
}

/// An answer that looks like a grant but is not ours must never be taken for one: a mixed-up proxy or cache.
pub(crate) fn check_grant(grant: &impl Granted, token: &Token) -> Result<(), Failure> {
    if grant.token() != token {
        return Err(Failure::Strange("a grant of another token".into()));
    }
    if grant.fences().next().is_none() || grant.fences().any(|fence| fence == 0) {
        return Err(Failure::Strange("a grant without a fence".into()));
    }
    Ok(())
}
