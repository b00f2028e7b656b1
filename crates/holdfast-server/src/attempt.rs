//! What identifies an acquisition attempt in the replicated state: a hash over the lock's name and the token. And a
//! session: a hash over its token.
//!
//! The key lies in logs, snapshots and backups, so its definition never changes:
//! the first 16 bytes of SHA-256 over the domain `holdfast attempt 1` and a line feed, the length of the lock's name
//! in bytes (u32, big endian), the name, and the token.
//! An attempt at many locks has that key at each of them, and one for all of them: the same over the domain
//! `holdfast many 1`, a line feed and the token. That of a session: the same over the domain `holdfast session 1`, a line
//! feed and the token.

use holdfast_api::Token;
use holdfast_core::{AttemptKey, LockName, SessionKey};
use sha2::{Digest, Sha256};

const DOMAIN: &[u8] = b"holdfast attempt 1\n";
const DOMAIN_MANY: &[u8] = b"holdfast many 1\n";
const SESSION_DOMAIN: &[u8] = b"holdfast session 1\n";

/// The key of the attempt that this token makes at this lock.
pub(crate) fn attempt_key(lock: &LockName, token: &Token) -> AttemptKey {
    let name = lock.as_str().as_bytes();
    let len = u32::try_from(name.len()).expect("a lock's name has at most 512 bytes");
    let hash = Sha256::new()
        .chain_update(DOMAIN)
        .chain_update(len.to_be_bytes())
        .chain_update(name)
        .chain_update(token.expose().as_bytes())
        .finalize();
    first_half(&hash)
}

/// The key of the attempt that this token makes at many locks.
pub(crate) fn many_key(token: &Token) -> AttemptKey {
    let hash = Sha256::new().chain_update(DOMAIN_MANY).chain_update(token.expose().as_bytes()).finalize();
    first_half(&hash)
}

fn first_half(hash: &[u8]) -> AttemptKey {
    let mut key = [0; 16];
    key.copy_from_slice(&hash[..16]);
    AttemptKey(key)
}

/// The key of the session that this token opens.
pub(crate) fn session_key(token: &Token) -> SessionKey {
    let hash = Sha256::new().chain_update(SESSION_DOMAIN).chain_update(token.expose().as_bytes()).finalize();
    let mut key = [0; 16];
    key.copy_from_slice(&hash[..16]);
    SessionKey(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `sha256sum`; logs and snapshots depend on it.
    #[test]
    fn the_key_of_a_session_never_changes() {
        let key = session_key(&Token::new("0123456789abcdef").unwrap()).0;
        assert_eq!(key, 0x117419df25cb4d7389eda627b39119fc_u128.to_be_bytes());
    }

    fn key(lock: &str, token: &str) -> [u8; 16] {
        attempt_key(&LockName::new(lock).unwrap(), &Token::new(token).unwrap()).0
    }

    /// Computed with `sha256sum`; logs and snapshots depend on it.
    #[test]
    fn the_key_of_an_attempt_never_changes() {
        assert_eq!(
            key("invoices/2024", "0123456789abcdef"),
            0x354272652165e30b0d937048f8b5dcb7_u128.to_be_bytes()
        );
    }

    #[test]
    fn the_key_of_an_attempt_at_many_locks_never_changes() {
        let key = many_key(&Token::new("0123456789abcdef").unwrap()).0;
        assert_eq!(key, 0xbd2d97dab7ee21b6df2e01d315b6e75d_u128.to_be_bytes());
    }

    #[test]
    fn a_byte_that_moves_between_name_and_token_makes_another_key() {
        assert_ne!(key("ab", "c123456789abcdef"), key("a", "bc123456789abcdef"));
    }

    #[test]
    fn one_token_makes_different_keys_at_different_locks() {
        assert_ne!(key("a", "0123456789abcdef"), key("b", "0123456789abcdef"));
    }
}
