//! Lock names, owner labels and metadata: text that users choose, within limits.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Why a text is no valid name, label or metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes at all.
    #[error("must not be empty")]
    Empty,
    /// Too many bytes.
    #[error("is {len} bytes long; at most {max} bytes are allowed")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A control character (U+0000 to U+001F, U+007F to U+009F).
    #[error("must not contain control characters (found U+{0:04X})")]
    Control(u32),
}

fn check(text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > max {
        return Err(NameError::TooLong { len: text.len(), max });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(NameError::Control(u32::from(c))),
        None => Ok(()),
    }
}

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters, compared byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Longest name, in bytes.
    pub const LEN_MAX: usize = 512;

    /// Checks the limits; the text is not normalised in any way.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Self::LEN_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for LockName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The public label of a holder: 1 to 256 bytes of UTF-8 without control characters. It gives no rights.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Longest label, in bytes.
    pub const LEN_MAX: usize = 256;
    /// The label of those who give none.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Checks the limits.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Self::LEN_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self(Self::ANONYMOUS.into())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an operator did something: 1 to 512 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Reason(Arc<str>);

impl Reason {
    /// Longest text, in bytes.
    pub const LEN_MAX: usize = 512;

    /// Checks the limits.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Self::LEN_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a holder says about itself: compact JSON text, at most 1 KiB. Opaque to the rules.
///
/// The empty object is no metadata at all and takes no memory. Few have any: it is as small as can be for those without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Metadata(Option<Arc<Box<str>>>);

impl Metadata {
    /// Longest text, in bytes.
    pub const LEN_MAX: usize = 1024;

    /// Takes compact JSON text.
    pub fn new(json: &str) -> Result<Self, NameError> {
        if json == "{}" {
            return Ok(Self(None));
        }
        if json.len() > Self::LEN_MAX {
            return Err(NameError::TooLong { len: json.len(), max: Self::LEN_MAX });
        }
        Ok(Self(Some(Arc::new(json.into()))))
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        self.0.as_deref().map_or("{}", |json| json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_slashes_percent_signs_spaces_and_dots_as_they_are() {
        for text in ["/a", "a//b", "a%2Fb", "..", "a b", "ß", "a+b@c:d?e#f", &"x".repeat(512)] {
            assert_eq!(LockName::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_name_outside_the_limits_is_refused_with_the_limit() {
        assert_eq!(LockName::new(""), Err(NameError::Empty));
        assert_eq!(LockName::new(&"x".repeat(513)), Err(NameError::TooLong { len: 513, max: 512 }));
        assert_eq!(LockName::new("a\nb"), Err(NameError::Control(10)));
        assert_eq!(LockName::new("a\u{85}b"), Err(NameError::Control(0x85)));
    }

    #[test]
    fn names_that_look_alike_stay_different() {
        let composed = LockName::new("é").unwrap();
        let decomposed = LockName::new("e\u{301}").unwrap();
        assert_ne!(composed, decomposed);
    }

    #[test]
    fn an_empty_object_is_no_metadata() {
        assert_eq!(Metadata::new("{}").unwrap(), Metadata::default());
        assert_eq!(Metadata::default().as_json(), "{}");
    }
}
