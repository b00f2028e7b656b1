//! What clients ask for of many locks at once.

use holdfast_core::{LockName, MANY_MAX, Owner, Share, Ttl, Wait};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::answer::Mode;
use crate::body::{Field, FieldKind, Presence, RequestBody};
use crate::request::{
    InvalidArgument, LIMIT, MODE, OWNER, TOKEN, TTL, WAIT, parse_owner_or_default, parse_share, parse_token,
    parse_ttl, parse_wait,
};
use crate::token::Token;

const NAME: FieldKind = FieldKind::Text("1 to 512 bytes without control characters");
const NAMES: FieldKind = FieldKind::Texts("1 to 64 names of locks");
const LOCKS: FieldKind = FieldKind::Objects("1 to 64 objects, each with the `name` of a lock", ITEM);
const ITEM: &[Field] = &[
    Field { name: "name", presence: Presence::Required, kind: NAME },
    Field { name: "mode", presence: Presence::Optional, kind: MODE },
    Field { name: "limit", presence: Presence::Optional, kind: LIMIT },
    Field { name: "permits", presence: Presence::Optional, kind: LIMIT },
];

/// One of many locks, and how much of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LockItem {
    /// The lock, 1 to 512 bytes of UTF-8 without control characters.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub name: String,
    /// Whether others may hold it as well. Default `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(nullable = false)]
    pub mode: Option<Mode>,
    /// How many permits it has; everybody has to name the same. Left out: it counts none.
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
}

/// Body of `POST /v1/acquire`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireManyRequest {
    /// 1 to 64 different locks.
    #[schema(min_items = 1, max_items = 64)]
    pub locks: Vec<LockItem>,
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
    /// Of the leases, 100 to 86400000. Default 30000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 86_400_000, nullable = false)]
    pub ttl_ms: Option<u64>,
    /// How long to wait if any of the locks is busy, 0 to 600000. Default 0: try once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 0, maximum = 600_000, nullable = false)]
    pub wait_ms: Option<u64>,
}

impl RequestBody for AcquireManyRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "locks", presence: Presence::Required, kind: LOCKS },
        Field { name: "owner", presence: Presence::Optional, kind: OWNER },
        Field { name: "token", presence: Presence::Optional, kind: TOKEN },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
        Field { name: "wait_ms", presence: Presence::Optional, kind: WAIT },
    ];
}

impl AcquireManyRequest {
    /// The locks and how much of each, checked; that they are different is not.
    pub fn locks(&self) -> Result<Vec<(LockName, Share)>, InvalidArgument> {
        check_len("locks", self.locks.len())?;
        let item = |(at, item): (usize, &LockItem)| {
            let inside = |error: InvalidArgument| InvalidArgument {
                field: format!("locks[{at}].{}", error.field).into(),
                what: error.what,
            };
            let name = parse_name("name", &item.name).map_err(inside)?;
            Ok((name, parse_share(item.mode, item.limit, item.permits).map_err(inside)?))
        };
        self.locks.iter().enumerate().map(item).collect()
    }

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

    /// The wait, checked.
    pub fn wait(&self) -> Result<Wait, InvalidArgument> {
        parse_wait(self.wait_ms)
    }
}

/// Body of `POST /v1/renew`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewManyRequest {
    /// The secret of the attempt that holds the locks.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// Which locks, 1 to 64. Left out: all that the attempt holds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_items = 1, max_items = 64, nullable = false)]
    pub names: Option<Vec<String>>,
    /// A new TTL, 100 to 86400000. Left out: the one in force.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 100, maximum = 86_400_000, nullable = false)]
    pub ttl_ms: Option<u64>,
}

impl RequestBody for RenewManyRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "names", presence: Presence::Optional, kind: NAMES },
        Field { name: "ttl_ms", presence: Presence::Optional, kind: TTL },
    ];
}

impl RenewManyRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// The names, checked; that they are different is not.
    pub fn names(&self) -> Result<Option<Vec<LockName>>, InvalidArgument> {
        self.names.as_deref().map(parse_names).transpose()
    }

    /// The new TTL, checked.
    pub fn ttl(&self) -> Result<Option<Ttl>, InvalidArgument> {
        parse_ttl(self.ttl_ms)
    }
}

/// Body of `POST /v1/release`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseManyRequest {
    /// The secret of the attempt.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
    /// Which locks, 1 to 64. Left out: all that the attempt holds or waits for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(min_items = 1, max_items = 64, nullable = false)]
    pub names: Option<Vec<String>>,
}

impl RequestBody for ReleaseManyRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "token", presence: Presence::Required, kind: TOKEN },
        Field { name: "names", presence: Presence::Optional, kind: NAMES },
    ];
}

impl ReleaseManyRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }

    /// The names, checked; that they are different is not.
    pub fn names(&self) -> Result<Option<Vec<LockName>>, InvalidArgument> {
        self.names.as_deref().map(parse_names).transpose()
    }
}

fn parse_names(names: &[String]) -> Result<Vec<LockName>, InvalidArgument> {
    check_len("names", names.len())?;
    names.iter().enumerate().map(|(at, name)| parse_name(&format!("names[{at}]"), name)).collect()
}

fn parse_name(field: &str, name: &str) -> Result<LockName, InvalidArgument> {
    LockName::new(name).map_err(|error| {
        let rule = "a lock's name has 1 to 512 bytes of UTF-8 without control characters";
        InvalidArgument::new(field.to_owned(), format_args!("{error}; {rule}"))
    })
}

fn check_len(field: &'static str, len: usize) -> Result<(), InvalidArgument> {
    match (1..=MANY_MAX).contains(&len) {
        true => Ok(()),
        false => {
            let what = format!("must name between 1 and {MANY_MAX} locks, got {len}");
            Err(InvalidArgument::new(field, what))
        }
    }
}
