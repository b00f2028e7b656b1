//! Whether a grant is the one that was asked for.

use holdfast_api::{Grant, Token};

use crate::judge::Failure;

/// An answer that looks like a grant but is not ours must never be taken for one: a mixed-up proxy or cache.
pub(crate) fn check_grant(grant: &Grant, token: &Token) -> Result<(), Failure> {
    if grant.token != *token {
        return Err(Failure::Strange("a grant of another token".into()));
    }
    if grant.fence == 0 {
        return Err(Failure::Strange("a grant without a fence".into()));
    }
    Ok(())
}
