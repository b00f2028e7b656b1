//! The secret of one acquisition attempt.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too short or too long.
    #[error("must be 16 to 128 characters long, has {0}")]
    Length(usize),
    /// A character outside the alphabet. Which one is not said: the text is a secret.
    #[error("must consist of letters, digits, '-' and '_' (A-Z, a-z, 0-9)")]
    Alphabet,
}

/// 16 to 128 characters of `[A-Za-z0-9_-]`. Printing it for debugging shows nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(String);

impl Token {
    /// Fewest characters.
    pub const LEN_MIN: usize = 16;
    /// Most characters.
    pub const LEN_MAX: usize = 128;

    /// Checks length and alphabet.
    pub fn new(text: impl Into<String>) -> Result<Self, TokenError> {
        let text = text.into();
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(TokenError::Alphabet);
        }
        if !(Self::LEN_MIN..=Self::LEN_MAX).contains(&text.len()) {
            return Err(TokenError::Length(text.len()));
        }
        Ok(Self(text))
    }

    /// 32 hexadecimal digits out of 16 bytes that must come from a secure source.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl TryFrom<String> for Token {
    type Error = TokenError;

    fn try_from(text: String) -> Result<Self, TokenError> {
        Self::new(text)
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_16_to_128_characters_of_its_alphabet() {
        assert!(Token::new("Az09_-Az09_-Az09").is_ok());
        assert!(Token::new("a".repeat(128)).is_ok());
        assert_eq!(Token::new("a".repeat(15)), Err(TokenError::Length(15)));
        assert_eq!(Token::new("a".repeat(129)), Err(TokenError::Length(129)));
        assert_eq!(Token::new("aaaaaaaaaaaaaaa aaaa"), Err(TokenError::Alphabet));
    }

    #[test]
    fn a_token_does_not_show_when_it_is_printed_for_debugging() {
        let token = Token::from_random([7; 16]);
        assert!(!format!("{token:?}").contains(token.expose()));
    }
}
