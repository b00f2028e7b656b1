//! What clients ask for. All spans are integer milliseconds. Unknown fields are refused.

use std::borrow::Cow;

use holdfast_core::{LIMIT_MAX, Limit, Metadata, Owner, Permits, Run, Share, Terms, TermsError, Ttl, Wait};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::answer::Mode;
use crate::body::{Field, FieldKind, Presence, RequestBody};
use crate::token::Token;

/// A field that is not valid: which, and what its limit is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {what}")]
pub struct InvalidArgument {
    /// The field's name, as the client wrote it.
    pub field: Cow<'static, str>,
    /// What is wrong, with the limit and its unit.
    pub what: String,
}

impl InvalidArgument {
    /// What is wrong with a field.
    pub fn new(field: impl Into<Cow<'static, str>>, what: impl ToString) -> Self {
        Self { field: field.into(), what: what.to_string() }
    }
}

/// Body of `POST /v1/locks/{name}/acquire`. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
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
    /// How long to wait if the lock is busy, 0 to 600000. Default 0: try once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 0, maximum = 600_000, nullable = false)]
    pub wait_ms: Option<u64>,
    /// What the holder says about itself, at most 1024 bytes of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub metadata: Option<Map<String, Value>>,
    /// Whether others may hold the lock beside it. Default `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(nullable = false)]
    pub mode: Option<Mode>,
    /// How many permits the lock has; everybody has to name the same. Left out: it counts none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 1, maximum = 1_000_000, nullable = false)]
    pub limit: Option<u64>,
    /// How many of them to take, 1 to `limit`. Default 1.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 1, maximum = 1_000_000, nullable = false)]
    pub permits: Option<u64>,
    /// The id of the session that is to keep the hold, instead of `ttl_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(nullable = false)]
    pub session: Option<String>,
    /// The secret of that session.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$", nullable = false)]
    pub session_token: Option<String>,
    /// For how long nobody is granted the lock after the hold has expired or an operator has ended it, 0 to 300000.
    /// Default 0.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 0, maximum = 300_000, nullable = false)]
    pub delay_ms: Option<u64>,
    /// How long after the grant a release takes effect at the earliest, 0 to 86400000, and at most `max_hold_ms`.
    /// Default 0.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 0, maximum = 86_400_000, nullable = false)]
    pub min_hold_ms: Option<u64>,
    /// How long after the grant the hold is over at the latest, however it is renewed, 100 to 31622400000. Left out: as
    /// long as it is renewed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 31_622_400_000_u64, nullable = false)]
    pub max_hold_ms: Option<u64>,
    /// Only where no such run was completed within the period.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(nullable = false)]
    pub once: Option<Once>,
}

/// Once per period: from the grant of a run that was completed until the period is over there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Once {
    /// How long the period is, 1000 to 31622400000.
    #[serde(deserialize_with = "crate::body::whole")]
    #[schema(minimum = 1_000, maximum = 31_622_400_000_u64)]
    pub period_ms: u64,
}

pub(crate) const OWNER: FieldKind = FieldKind::Text("1 to 256 bytes without control characters");
pub(crate) const MODE: FieldKind = FieldKind::Word(&["exclusive", "shared"]);
pub(crate) const TOKEN: FieldKind = FieldKind::Text("16 to 128 letters, digits, '-' and '_' (A-Z, a-z, 0-9)");
pub(crate) const TTL: FieldKind = FieldKind::Millis { min: Ttl::MIN_MS as u64, max: Ttl::MAX_MS as u64 };
pub(crate) const LIMIT: FieldKind = FieldKind::Count { min: 1, max: LIMIT_MAX as u64 };
pub(crate) const WAIT: FieldKind = FieldKind::Millis { min: 0, max: Wait::MAX_MS as u64 };
const DELAY: FieldKind = FieldKind::Millis { min: 0, max: Terms::DELAY_MS_MAX };
const MIN_HOLD: FieldKind = FieldKind::Millis { min: 0, max: Terms::MIN_HOLD_MS_MAX };
const MAX_HOLD: FieldKind = FieldKind::Millis { min: Terms::MAX_HOLD_MS_MIN, max: Terms::MAX_HOLD_MS_MAX };
const PERIOD: FieldKind = FieldKind::Millis { min: Terms::PERIOD_MS_MIN, max: Terms::PERIOD_MS_MAX };
const ONCE: &[Field] = &[Field { name: "period_ms", presence: Presence::Required, kind: PERIOD }];
pub(crate) const SESSION: FieldKind = FieldKind::Text("the id of a session");

impl RequestBody for AcquireRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "owner", presence: Presence::Optional, kind: OWNER },
        Field { name: "token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
        Field { name: "wait_ms", presence: Presence::Optional, kind: WAIT },
        Field {
            name: "metadata",
            presence: Presence::Optional,
            kind: FieldKind::Object("at most 1024 bytes"),
        },
        Field { name: "mode", presence: Presence::Optional, kind: MODE },
        Field { name: "limit", presence: Presence::Optional, kind: LIMIT },
        Field { name: "permits", presence: Presence::Optional, kind: LIMIT },
        Field { name: "session", presence: Presence::Optional, kind: SESSION },
        Field { name: "session_token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "delay_ms", presence: Presence::Optional, kind: DELAY },
        Field { name: "min_hold_ms", presence: Presence::Optional, kind: MIN_HOLD },
        Field { name: "max_hold_ms", presence: Presence::Optional, kind: MAX_HOLD },
        Field {
            name: "once",
            presence: Presence::Optional,
            kind: FieldKind::Nested("the period, as {\"period_ms\":3600000}", ONCE),
        },
    ];
}

impl AcquireRequest {
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

    /// The id of the session that is to keep the hold, and its token, checked; none if its lease is its own.
    pub fn session(&self) -> Result<Option<(&str, Token)>, InvalidArgument> {
        match (&self.session, &self.session_token) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(InvalidArgument::new("session_token", "needs `session`: whose token it is"))
            }
            (Some(_), None) => {
                Err(InvalidArgument::new("session", "needs `session_token`: the secret of the session"))
            }
            (Some(_), Some(_)) if self.ttl_ms.is_some() => Err(InvalidArgument::new(
                "ttl_ms",
                "cannot stand beside `session`: the hold lives as long as the session, whose TTL counts",
            )),
            (Some(id), Some(token)) => Ok(Some((id, parse_token("session_token", token)?))),
        }
    }

    /// The wait, checked.
    pub fn wait(&self) -> Result<Wait, InvalidArgument> {
        parse_wait(self.wait_ms)
    }

    /// The metadata, checked.
    pub fn metadata(&self) -> Result<Metadata, InvalidArgument> {
        match &self.metadata {
            Some(map) => {
                let text = Value::Object(map.clone()).to_string();
                Metadata::new(&text).map_err(|error| InvalidArgument::new("metadata", error))
            }
            None => Ok(Metadata::default()),
        }
    }

    /// How much of the lock, checked.
    pub fn share(&self) -> Result<Share, InvalidArgument> {
        parse_share(self.mode, self.limit, self.permits)
    }

    /// What it asks for beside the TTL, checked.
    pub fn terms(&self) -> Result<Terms, InvalidArgument> {
        let (delay_ms, min_hold_ms) = (self.delay_ms.unwrap_or(0), self.min_hold_ms.unwrap_or(0));
        let period_ms = self.once.map(|once| once.period_ms);
        Terms::new(delay_ms, min_hold_ms, self.max_hold_ms, period_ms).map_err(|error| match error {
            TermsError::Delay(_) => InvalidArgument::new("delay_ms", error),
            TermsError::MinHold(_) => InvalidArgument::new("min_hold_ms", error),
            TermsError::MaxHold(_) => InvalidArgument::new("max_hold_ms", error),
            TermsError::Period(_) => InvalidArgument::new("once.period_ms", error),
            TermsError::MinBeyondMax { given, max } => {
                let what = format!("must be at most `max_hold_ms`, {max} milliseconds, got {given}");
                InvalidArgument::new("min_hold_ms", what)
            }
        })
    }
}

/// Body of `POST /v1/locks/{name}/limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimitRequest {
    /// How many permits the lock has from now on, 1 to 1000000.
    #[serde(deserialize_with = "crate::body::whole")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub limit: u64,
}

impl RequestBody for SetLimitRequest {
    const FIELDS: &'static [Field] = &[Field { name: "limit", presence: Presence::Required, kind: LIMIT }];
}

impl SetLimitRequest {
    /// The limit, checked.
    pub fn limit(&self) -> Result<Limit, InvalidArgument> {
        parse_limit(self.limit)
    }
}

/// What is wrong with a share stands under the fields' plain names.
pub(crate) fn parse_share(
    mode: Option<Mode>,
    limit: Option<u64>,
    permits: Option<u64>,
) -> Result<Share, InvalidArgument> {
    let Some(limit) = limit else {
        return match (mode.unwrap_or_default(), permits) {
            (_, Some(_)) => {
                Err(InvalidArgument::new("permits", "needs `limit`: how many permits the lock has"))
            }
            (Mode::Shared, None) => Ok(Share::Shared),
            (Mode::Exclusive, None) => Ok(Share::Exclusive),
        };
    };
    if mode == Some(Mode::Shared) {
        return Err(InvalidArgument::new(
            "mode",
            "cannot be shared beside `limit`: a lock counts permits or has readers and writers",
        ));
    }
    let limit = parse_limit(limit)?;
    let permits = Permits::new(limit.get().into(), permits.unwrap_or(1));
    permits
        .map(Share::Permits)
        .map_err(|error| InvalidArgument::new("permits", format_args!("{error}; it is at most the `limit`")))
}

pub(crate) fn parse_wait(ms: Option<u64>) -> Result<Wait, InvalidArgument> {
    Wait::from_ms(ms.unwrap_or(0)).map_err(|error| InvalidArgument::new("wait_ms", error))
}

fn parse_limit(limit: u64) -> Result<Limit, InvalidArgument> {
    Limit::new(limit).map_err(|error| InvalidArgument::new("limit", error))
}

/// Body of `POST /v1/locks/{name}/renew`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The secret of the attempt that holds the lock.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// A new TTL, 100 to 86400000. Left out: the one in force.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 86_400_000, nullable = false)]
    pub ttl_ms: Option<u64>,
}

impl RequestBody for RenewRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
    ];
}

impl RenewRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// The new TTL, checked.
    pub fn ttl(&self) -> Result<Option<Ttl>, InvalidArgument> {
        parse_ttl(self.ttl_ms)
    }
}

/// Body of `POST /v1/locks/{name}/release`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The secret of the attempt.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// The run that the lock was taken for is completed: with `once`, there is no other until its period is over. Of any
    /// other attempt it says nothing. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
}

impl RequestBody for ReleaseRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "done", presence: Presence::Optional, kind: FieldKind::Flag },
    ];
}

impl ReleaseRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// Whether the run is completed.
    pub fn run(&self) -> Run {
        if self.done { Run::Done } else { Run::Open }
    }
}

pub(crate) fn parse_owner_or_default(owner: Option<&str>) -> Result<Owner, InvalidArgument> {
    Ok(owner.map(|text| parse_owner("owner", text)).transpose()?.unwrap_or_default())
}

pub(crate) fn parse_owner(field: &'static str, text: &str) -> Result<Owner, InvalidArgument> {
    Owner::new(text).map_err(|error| {
        let rule = "a label has 1 to 256 bytes of UTF-8 without control characters";
        InvalidArgument::new(field, format_args!("{error}; {rule}"))
    })
}

pub(crate) fn parse_token(field: &'static str, text: &str) -> Result<Token, InvalidArgument> {
    Token::new(text).map_err(|error| InvalidArgument::new(field, error))
}

pub(crate) fn parse_ttl(ms: Option<u64>) -> Result<Option<Ttl>, InvalidArgument> {
    ms.map(|ms| Ttl::from_ms(ms).map_err(|error| InvalidArgument::new("ttl_ms", error))).transpose()
}
