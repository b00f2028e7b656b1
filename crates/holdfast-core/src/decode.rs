//! Decoding of texts that have limits: what is outside them gets in neither from a peer nor from a file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::name::{LockName, Metadata, NameError, Owner, Reason};

/// Takes a text that its type accepts, without a copy in between.
struct Checked<T>(fn(&str) -> Result<T, NameError>);

impl<T> Visitor<'_> for Checked<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text within its limits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// Takes a text that may be absent.
struct Optional<T>(Checked<T>);

impl<'de, T: Default> Visitor<'de> for Optional<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for LockName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Checked(Self::new))
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Checked(Self::new))
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Checked(Self::new))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Optional(Checked(Self::new)))
    }
}
