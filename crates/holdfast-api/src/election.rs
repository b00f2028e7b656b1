//! What elections take and answer. An election is the lock of that name, and its value is the hold's metadata.

use holdfast_core::{Metadata, Owner};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::answer::{Grant, Waiter};
use crate::body::{Field, FieldKind, Presence, RequestBody};
use crate::request::{
    AcquireRequest, InvalidArgument, OWNER, SESSION, TOKEN, TTL, WAIT, parse_owner, parse_token,
};
use crate::token::Token;

const VALUE: FieldKind = FieldKind::Json("any JSON of at most 1024 bytes");

/// Body of `POST /v1/elections/{name}/campaign`. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignRequest {
    /// Public label, 1 to 256 bytes without control characters. Default `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        nullable = false
    )]
    pub owner: Option<String>,
    /// The secret of this attempt, 16 to 128 characters of `[A-Za-z0-9_-]`. Left out: the service makes one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$", nullable = false)]
    pub token: Option<String>,
    /// Of the lease, 100 to 86400000. Default 30000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 86_400_000, nullable = false)]
    pub ttl_ms: Option<u64>,
    /// How long to wait if there is a leader, 0 to 600000. Default 0: try once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 0, maximum = 600_000, nullable = false)]
    pub wait_ms: Option<u64>,
    /// The id of the session that is to keep the lead, instead of `ttl_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(nullable = false)]
    pub session: Option<String>,
    /// The secret of that session.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$", nullable = false)]
    pub session_token: Option<String>,
    /// What the leader says, for everybody: any JSON of at most 1024 bytes. Default null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Value, required = false)]
    pub value: Value,
}

impl RequestBody for CampaignRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "owner", presence: Presence::Optional, kind: OWNER },
        Field { name: "token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
        Field { name: "wait_ms", presence: Presence::Optional, kind: WAIT },
        Field { name: "session", presence: Presence::Optional, kind: SESSION },
        Field { name: "session_token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "value", presence: Presence::Optional, kind: VALUE },
    ];
}

impl CampaignRequest {
    /// The same as a request for the lock, and the value, checked, in place of its metadata.
    pub fn into_acquire(self) -> Result<(AcquireRequest, Metadata), InvalidArgument> {
        let Self { owner, token, ttl_ms, wait_ms, session, session_token, value } = self;
        let value = parse_value(&value)?;
        let rest = AcquireRequest::default();
        Ok((AcquireRequest { owner, token, ttl_ms, wait_ms, session, session_token, ..rest }, value))
    }
}

/// Body of `POST /v1/elections/{name}/resign`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResignRequest {
    /// The secret of the attempt.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
}

impl RequestBody for ResignRequest {
    const FIELDS: &'static [Field] = &[Field { name: "token", presence: Presence::Required, kind: TOKEN }];
}

impl ResignRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }
}

/// Body of `POST /v1/elections/{name}/proclaim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProclaimRequest {
    /// The secret of the attempt that leads.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// What the leader says from now on: any JSON of at most 1024 bytes.
    #[schema(value_type = Value)]
    pub value: Value,
}

impl RequestBody for ProclaimRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "value", presence: Presence::Required, kind: VALUE },
    ];
}

impl ProclaimRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// The value, checked.
    pub fn value(&self) -> Result<Metadata, InvalidArgument> {
        parse_value(&self.value)
    }
}

/// Body of `POST /v1/elections/{name}/hand-over`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandOverRequest {
    /// The secret of the attempt that leads.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// The label of the candidate that is to lead, 1 to 256 bytes without control characters.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub to: String,
}

impl RequestBody for HandOverRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "to", presence: Presence::Required, kind: OWNER },
    ];
}

impl HandOverRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// The candidate's label, checked.
    pub fn to(&self) -> Result<Owner, InvalidArgument> {
        parse_owner("to", &self.to)
    }
}

fn parse_value(value: &Value) -> Result<Metadata, InvalidArgument> {
    Metadata::new(&value.to_string()).map_err(|error| InvalidArgument::new("value", error))
}

/// A lead, as its leader is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leadership {
    /// The election.
    pub name: String,
    /// Public label of the leader.
    pub owner: String,
    /// The leader's own secret.
    #[schema(value_type = String, min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: Token,
    /// The number to send along with everything that the leader does.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub fence: u64,
    /// In force.
    pub ttl_ms: u64,
    /// What is left of the lease, as the cluster's leader counts.
    pub expires_in_ms: u64,
    /// What the leader says; null if it says nothing.
    #[schema(value_type = Value)]
    pub value: Value,
}

/// The same, of the lock of that name.
impl From<Leadership> for Grant {
    fn from(leadership: Leadership) -> Self {
        let Leadership { name, owner, token, fence, ttl_ms, expires_in_ms, value: metadata } = leadership;
        Self { name, owner, token, fence, ttl_ms, expires_in_ms, metadata, max_left_ms: None }
    }
}

/// Who leads, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leader {
    /// Public label.
    pub owner: String,
    /// The number of its grant: another leader has another one, and a later one a higher one.
    pub fence: u64,
    /// What it says; null if it says nothing.
    #[schema(value_type = Value)]
    pub value: Value,
    /// What is left of the lease.
    pub expires_in_ms: u64,
}

/// An election, as everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Election {
    /// Its name.
    pub name: String,
    /// Who leads; null if nobody does.
    #[schema(required)]
    pub leader: Option<Leader>,
    /// The first 100 of those who wait to lead.
    pub candidates: Vec<Waiter>,
    /// How many wait.
    pub candidate_count: u64,
    /// The event counter that this is true at.
    pub seq: u64,
    /// True where a stale answer was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A lead that its leader has handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandedOver {
    /// The election.
    pub name: String,
    /// The number of the lead that has ended.
    pub fence: u64,
    /// The label of the candidate that it went to.
    pub to: String,
    /// Always true.
    pub handed_over: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::read_body;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_value_is_any_json_and_null_where_it_is_left_out() {
        for (field, text) in [
            ("", "null"),
            (r#""value":null"#, "null"),
            (r#""value":{}"#, "{}"),
            (r#""value": [1, "x"]"#, r#"[1,"x"]"#),
            (r#""value":"http://node/""#, r#""http://node/""#),
        ] {
            let request: CampaignRequest = read_body(format!("{{{field}}}").as_bytes()).unwrap();
            assert_eq!(request.into_acquire().unwrap().1.as_json(), text);
        }
    }

    #[test]
    fn a_value_has_at_most_1024_bytes() {
        let request = |len| ProclaimRequest { token: TOKEN.into(), value: "x".repeat(len).into() };
        assert_eq!(request(1_022).value().unwrap().as_json().len(), 1_024);
        let error = request(1_023).value().unwrap_err().to_string();
        assert!(error.starts_with("`value` is 1025 bytes long; at most 1024"), "{error}");
    }

    #[test]
    fn what_a_proclamation_or_a_hand_over_lacks_is_named() {
        let body = format!(r#"{{"token":"{TOKEN}"}}"#);
        let error = read_body::<ProclaimRequest>(body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("`value` is missing; it must be any JSON"), "{error}");
        let error = read_body::<HandOverRequest>(body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("`to` is missing; it must be a text of 1 to 256 bytes"), "{error}");
        let empty = HandOverRequest { token: TOKEN.into(), to: String::new() };
        assert!(empty.to().unwrap_err().to_string().starts_with("`to` must not be empty"));
    }
}
