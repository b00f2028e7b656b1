//! Limits of the HTTP API that are not limits of the rules.

/// Longest request body, in bytes.
pub const BODY_LEN_MAX: usize = 64 * 1024;
/// Most locks in one page of a list.
pub const LIST_LIMIT_MAX: usize = 1000;
/// Locks in one page if the request does not say.
pub const LIST_LIMIT_DEFAULT: usize = 100;
