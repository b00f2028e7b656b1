//! Sessions on the wire: what clients ask for, and what they are told.

use holdfast_core::{Owner, SessionId, Ttl};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Field, Presence, RequestBody};
use crate::request::{InvalidArgument, OWNER, TOKEN, TTL, parse_owner_or_default, parse_token, parse_ttl};
use crate::token::Token;

/// Body of `POST /v1/sessions`. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenSessionRequest {
    /// Public label, 1 to 256 bytes without control characters. Default `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        nullable = false
    )]
    pub owner: Option<String>,
    /// The session's secret, 16 to 128 characters of `[A-Za-z0-9_-]`. Left out: the service makes one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$", nullable = false)]
    pub token: Option<String>,
    /// How long the session lives without renewal, 100 to 86400000. Default 30000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 86_400_000, nullable = false)]
    pub ttl_ms: Option<u64>,
}

impl RequestBody for OpenSessionRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "owner", presence: Presence::Optional, kind: OWNER },
        Field { name: "token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
    ];
}

impl OpenSessionRequest {
    /// The owner, checked.
    pub fn owner(&self) -> Result<Owner, InvalidArgument> {
        parse_owner_or_default(self.owner.as_deref())
    }

    /// The token, checked; none if it was left out.
    pub fn token(&self) -> Result<Option<Token>, InvalidArgument> {
        self.token.as_deref().map(|text| parse_token("token", text)).transpose()
    }

    /// The TTL, checked.
    pub fn ttl(&self) -> Result<Ttl, InvalidArgument> {
        Ok(parse_ttl(self.ttl_ms)?.unwrap_or_default())
    }
}

/// Body of `POST /v1/sessions/{id}/renew` and of `POST /v1/sessions/{id}/end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionTokenRequest {
    /// The session's secret.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
}

impl RequestBody for SessionTokenRequest {
    const FIELDS: &'static [Field] = &[Field { name: "token", presence: Presence::Required, kind: TOKEN }];
}

impl SessionTokenRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }
}

/// The id that a text is; none if no session can have it.
pub fn parse_session_id(text: &str) -> Option<SessionId> {
    // As the service writes it, and in no other way: no sign, no leading zero.
    text.parse().ok().map(SessionId).filter(|id| id.to_string() == text)
}

/// A session, as its owner is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Names the session. It is no secret.
    pub id: String,
    /// Public label.
    pub owner: String,
    /// The owner's own secret.
    #[schema(value_type = String, min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: Token,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of it, as the leader counts.
    pub expires_in_ms: u64,
}

/// A session that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEnded {
    /// The session.
    pub id: String,
    /// Always true.
    pub ended: bool,
    /// How many locks it held.
    pub released: u64,
}

/// A session and what it keeps, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Names the session.
    pub id: String,
    /// Public label.
    pub owner: String,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of it.
    pub expires_in_ms: u64,
    /// The locks that it holds, in the order in which they were asked for.
    pub holds: Vec<String>,
    /// The locks that it waits for, likewise.
    pub waits: Vec<String>,
    /// The event counter that this is true at.
    pub seq: u64,
    /// True where a stale answer was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionSummary {
    /// Names the session.
    pub id: String,
    /// Public label.
    pub owner: String,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of it.
    pub expires_in_ms: u64,
    /// How many locks it holds.
    pub held: u64,
    /// How many locks it waits for.
    pub waiting: u64,
}

/// One page of sessions, in the order in which they were opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// Sessions that live.
    pub sessions: Vec<SessionSummary>,
    /// Give this as `after` to get the next page; null on the last one.
    #[schema(required)]
    pub next: Option<String>,
    /// The event counter that this is true at.
    pub seq: u64,
    /// True where a stale answer was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!(parse_session_id("17"), Some(SessionId(17)));
        for text in ["", "017", "+17", "-1", "17 ", "x", "18446744073709551616"] {
            assert_eq!(parse_session_id(text), None, "{text}");
        }
    }
}
