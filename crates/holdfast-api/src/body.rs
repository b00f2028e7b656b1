//! Reading a request's body strictly, with errors that name the field, its limit and its unit.
//!
//! The quick way is plain deserialisation. Only when that fails is the body read a second time, field by field, to
//! find out what to tell the client. Texts that the client sent are never repeated in an error: they may be secret.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use crate::request::InvalidArgument;

/// Longest name of an unknown field that an error repeats in full, in characters.
const FIELD_SHOWN_MAX: usize = 64;

/// A body that can be read with [`read_body`].
pub trait RequestBody: DeserializeOwned {
    /// Every field that it may have.
    const FIELDS: &'static [Field];
}

/// One field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As it stands in JSON.
    pub name: &'static str,
    /// Whether it may be left out.
    pub presence: Presence,
    /// What it holds.
    pub kind: FieldKind,
}

/// Whether a field may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there.
    Required,
    /// It may be left out, but not be null.
    Optional,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text; the words say which ones.
    Text(&'static str),
    /// A whole number of milliseconds.
    Millis {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A JSON object; the words say how long.
    Object(&'static str),
    /// A whole number.
    Count {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// One of a few words; the text names them.
    Word(&'static [&'static str]),
    /// Anything; the words say how long.
    Json(&'static str),
    /// A list of texts; the words say which ones.
    Texts(&'static str),
    /// A list of JSON objects; the words say of what.
    Objects(&'static str, &'static [Field]),
    /// True or false.
    Flag,
}

impl FieldKind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text(_) => value.is_string(),
            Self::Millis { .. } => Whole::deserialize(value).is_ok(),
            Self::Object(_) => value.is_object(),
            Self::Count { .. } => Whole::deserialize(value).is_ok(),
            Self::Json(_) => true,
            Self::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::Texts(_) => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Objects(..) => value.is_array(),
            Self::Flag => value.is_boolean(),
        }
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(which) => write!(f, "must be a text of {which}"),
            Self::Millis { min, max } => {
                write!(f, "must be a whole number between {min} and {max} milliseconds")
            }
            Self::Object(which) => write!(f, "must be a JSON object of {which}"),
            Self::Count { min, max } => write!(f, "must be a whole number between {min} and {max}"),
            Self::Json(which) => write!(f, "must be {which}"),
            Self::Word(words) => write!(f, "must be one of the texts {}", words.join(", ")),
            Self::Texts(which) => write!(f, "must be a list of {which}"),
            Self::Objects(which, _) => write!(f, "must be a list of {which}"),
            Self::Flag => f.write_str("must be true or false"),
        }
    }
}

/// Reads a body.
///
/// # Errors
/// Anything but one JSON object with known fields, each at most once and of its kind. The field is `body` where the
/// body as a whole is wrong.
pub fn read_body<T: RequestBody>(bytes: &[u8]) -> Result<T, InvalidArgument> {
    if !begins_an_object(bytes) {
        return Err(no_object(bytes));
    }
    serde_json::from_slice(bytes).map_err(|_| explain(bytes, T::FIELDS))
}

/// Derived deserialisation would also take a list, with the fields in order.
fn begins_an_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{')
}

fn no_object(bytes: &[u8]) -> InvalidArgument {
    if bytes.trim_ascii().is_empty() {
        return InvalidArgument::new("body", "is empty; it must be a JSON object");
    }
    match serde_json::from_slice::<IgnoredAny>(bytes) {
        Ok(_) => InvalidArgument::new("body", "must be a JSON object"),
        Err(error) => no_json(&error),
    }
}

fn no_json(error: &serde_json::Error) -> InvalidArgument {
    InvalidArgument::new("body", format_args!("is not valid JSON: {error}"))
}

fn explain(bytes: &[u8], fields: &[Field]) -> InvalidArgument {
    match serde_json::from_slice::<Pairs>(bytes) {
        Ok(Pairs(pairs)) => find_culprit(&pairs, fields).unwrap_or_else(|| {
            let field = fields.iter().find(|field| matches!(field.kind, FieldKind::Objects(..)));
            match field {
                Some(field) => InvalidArgument::new(field.name, "has an object with a field twice"),
                None => InvalidArgument::new("body", "is not what this call takes"),
            }
        }),
        Err(error) => no_json(&error),
    }
}

fn find_culprit(pairs: &[(String, Value)], fields: &[Field]) -> Option<InvalidArgument> {
    for (at, (name, value)) in pairs.iter().enumerate() {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            return Some(unknown(name, fields));
        };
        if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
            return Some(InvalidArgument::new(field.name, "is there twice"));
        }
        if !field.kind.fits(value) {
            let what = format!("{}, got {}", field.kind, shown(field.kind, value));
            return Some(InvalidArgument::new(field.name, what));
        }
        if let FieldKind::Objects(_, fields) = field.kind {
            let objects = value.as_array().into_iter().flatten().enumerate();
            let culprits = objects.map(|(at, object)| find_inside(field.name, at, object, fields));
            if let Some(culprit) = culprits.flatten().next() {
                return Some(culprit);
            }
        }
    }
    let missing = fields.iter().find(|field| {
        field.presence == Presence::Required && pairs.iter().all(|(name, _)| name != field.name)
    });
    missing.map(|field| InvalidArgument::new(field.name, format_args!("is missing; it {}", field.kind)))
}

/// What is wrong with an object of a list: `locks[3].name` is the name of a field.
fn find_inside(list: &str, at: usize, object: &Value, fields: &[Field]) -> Option<InvalidArgument> {
    let Some(object) = object.as_object() else {
        return Some(InvalidArgument::new(format!("{list}[{at}]"), "must be a JSON object"));
    };
    let pairs: Vec<_> = object.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let inside = find_culprit(&pairs, fields)?;
    Some(InvalidArgument::new(format!("{list}[{at}].{}", inside.field), inside.what))
}

fn unknown(name: &str, fields: &[Field]) -> InvalidArgument {
    let known: Vec<_> = fields.iter().map(|field| field.name).collect();
    let shown: String = name.chars().take(FIELD_SHOWN_MAX).collect();
    InvalidArgument::new(shown, format_args!("is not a field of this call, which takes {}", known.join(", ")))
}

/// A value in an error: numbers where numbers belong, but no text, and nothing that may be meant as one.
fn shown(kind: FieldKind, value: &Value) -> String {
    match value {
        Value::Null => "null (leave the field out instead)".into(),
        Value::Number(_) if matches!(kind, FieldKind::Text(_)) => "a number".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a text".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// The fields of an object, in order, repeated ones included.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// A whole number that is not negative. `1000.0` and `1e3` are whole numbers, as JSON Schema has it.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor;
        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Whole, E> {
                let exact = value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value);
                if exact { Ok(Whole(value as u64)) } else { Err(E::custom("not a whole number")) }
            }
        }
        deserializer.deserialize_u64(WholeVisitor)
    }
}

/// For fields that may be left out but not be null.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The same for a whole number.
pub(crate) fn present_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole(deserializer).map(Some)
}

/// For fields that hold a whole number.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{AcquireRequest, RenewRequest};

    const TOKEN: &str = "0123456789abcdef";

    fn acquire_error(body: &str) -> String {
        read_body::<AcquireRequest>(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_number_that_is_no_span_is_refused_with_field_limits_and_unit() {
        for value in ["-1", "-20", "0.0004", "1e30", "null", "\"\"", "true", "[]", "99999999999999999999999"]
        {
            let error = acquire_error(&format!("{{\"ttl_ms\":{value}}}"));
            for part in ["`ttl_ms`", "100", "86400000", "milliseconds"] {
                assert!(error.contains(part), "{value}: {error}");
            }
        }
    }

    #[test]
    fn a_whole_number_may_be_written_in_any_way() {
        for text in ["1000", "1000.0", "1e3"] {
            let request: AcquireRequest = read_body(format!("{{\"ttl_ms\":{text}}}").as_bytes()).unwrap();
            assert_eq!(request.ttl_ms, Some(1000), "{text}");
        }
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_named() {
        assert!(acquire_error("{\"owner\":5}").starts_with("`owner` must be a text of 1 to 256 bytes"));
        assert!(acquire_error("{\"metadata\":[]}").starts_with("`metadata` must be a JSON object"));
        assert!(acquire_error("{\"wait_ms\":\"5s\"}").starts_with("`wait_ms` must be a whole number"));
    }

    #[test]
    fn null_is_refused_where_a_field_can_be_left_out() {
        for field in ["owner", "token", "ttl_ms", "wait_ms", "metadata"] {
            let error = acquire_error(&format!("{{\"{field}\":null}}"));
            assert!(error.starts_with(&format!("`{field}` must")), "{error}");
        }
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused_by_name() {
        assert!(acquire_error("{\"ttl\":5}").starts_with("`ttl` is not a field of this call"));
        assert!(acquire_error("{\"owner\":\"a\",\"owner\":\"a\"}").starts_with("`owner` is there twice"));
        assert!(acquire_error(&format!("{{\"{}\":5}}", "x".repeat(5_000))).len() < 300);
    }

    #[test]
    fn a_missing_field_is_named_with_its_rule() {
        let error = read_body::<RenewRequest>(b"{}").unwrap_err().to_string();
        assert!(error.starts_with("`token` is missing; it must be a text of 16 to 128"), "{error}");
    }

    #[test]
    fn whatever_is_no_json_object_is_refused_as_a_whole() {
        for body in
            ["", "{", "[]", "5", "null", "\"x\"", "{}x", "{} {}", "{\"owner\":}", "{'owner':1}", "{,}"]
        {
            assert!(acquire_error(body).starts_with("`body` "), "{body}: {}", acquire_error(body));
        }
    }

    #[test]
    fn no_error_repeats_a_text_that_was_sent() {
        let bodies = [
            format!("{{\"ttl_ms\":\"{TOKEN}\"}}"),
            format!("{{\"token\":[\"{TOKEN}\"]}}"),
            format!("{{\"token\":\"{TOKEN}\",\"owner\":1}}"),
            format!("{{\"token\":\"{TOKEN}"),
            format!("{{\"token\":{TOKEN}}}"),
            format!("\"{TOKEN}\""),
        ];
        for body in bodies {
            assert!(!acquire_error(&body).contains(TOKEN), "{body}: {}", acquire_error(&body));
        }
    }
}
