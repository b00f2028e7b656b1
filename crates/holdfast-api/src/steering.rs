//! Looking an attempt up, checking a fence, and an operator's hand. All spans are integer milliseconds.

use holdfast_core::{Fence, Intervention, Owner, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Field, FieldKind, Presence, RequestBody};
use crate::request::{InvalidArgument, OWNER, TOKEN, parse_owner, parse_token};
use crate::token::Token;

const FENCE: FieldKind = FieldKind::Count { min: 1, max: Fence::MAX.0 };
const REASON: FieldKind = FieldKind::Text("1 to 512 bytes without control characters");

/// Body of `POST /v1/locks/{name}/attempt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptRequest {
    /// The secret of the attempt.
    #[schema(min_length = 16, max_length = 128, pattern = "^[A-Za-z0-9_-]+$")]
    pub token: String,
}

impl RequestBody for AttemptRequest {
    const FIELDS: &'static [Field] = &[Field { name: "token", presence: Presence::Required, kind: TOKEN }];
}

impl AttemptRequest {
    /// The token, checked.
    pub fn token(&self) -> Result<Token, InvalidArgument> {
        parse_token("token", &self.token)
    }
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttemptState {
    /// It waits.
    Queued,
    /// It holds the lock.
    Held,
    /// It is over.
    Ended,
    /// Nothing is known of it: it never came here, has not come here yet, or is so long ago that it is forgotten.
    Unknown,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptStatus {
    /// The lock.
    pub name: String,
    /// How it stands.
    pub state: AttemptState,
    /// Where it stands in the queue: 1 is the next in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub place: Option<u64>,
    /// Of its hold, also of one that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fence: Option<u64>,
    /// What is left of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_in_ms: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ending: Option<String>,
    /// How long ago it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_ms_ago: Option<u64>,
}

/// Body of `POST /v1/locks/{name}/check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The number of a grant.
    #[serde(deserialize_with = "crate::body::whole")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub fence: u64,
}

impl RequestBody for CheckRequest {
    const FIELDS: &'static [Field] = &[Field { name: "fence", presence: Presence::Required, kind: FENCE }];
}

impl CheckRequest {
    /// The fence, checked.
    pub fn fence(&self) -> Result<Fence, InvalidArgument> {
        parse_fence(self.fence)
    }
}

/// Whether a fence is the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FenceCheck {
    /// The lock.
    pub name: String,
    /// The fence that was asked about.
    pub fence: u64,
    /// Whether its hold is in force.
    pub current: bool,
    /// The highest fence of this lock that is known; 0 where none is remembered.
    pub highest: u64,
}

/// Body of `POST /v1/locks/{name}/force-release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceReleaseRequest {
    /// Of the hold that is to end: no other one is ended.
    #[serde(deserialize_with = "crate::body::whole")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub fence: u64,
    /// Why, for those who read of it: 1 to 512 bytes without control characters.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub reason: String,
    /// Who, for those who read of it: 1 to 256 bytes without control characters. Default `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        nullable = false
    )]
    pub by: Option<String>,
}

impl RequestBody for ForceReleaseRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "fence", presence: Presence::Required, kind: FENCE },
        Field { name: "reason", presence: Presence::Required, kind: REASON },
        Field { name: "by", presence: Presence::Optional, kind: OWNER },
    ];
}

impl ForceReleaseRequest {
    /// The fence, checked.
    pub fn fence(&self) -> Result<Fence, InvalidArgument> {
        parse_fence(self.fence)
    }

    /// Who and why, checked.
    pub fn intervention(&self) -> Result<Intervention, InvalidArgument> {
        parse_intervention(self.by.as_deref(), &self.reason)
    }
}

/// A hold that an operator has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForceReleased {
    /// The lock.
    pub name: String,
    /// Of the hold that is over.
    pub fence: u64,
    /// Always true.
    pub forced: bool,
}

/// Body of `POST /v1/locks/{name}/force-leave`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceLeaveRequest {
    /// Label of those who are to wait no more, 1 to 256 bytes without control characters.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub owner: String,
    /// Why, for those who read of it: 1 to 512 bytes without control characters.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub reason: String,
    /// Who, for those who read of it: 1 to 256 bytes without control characters. Default `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::body::present")]
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$",
        nullable = false
    )]
    pub by: Option<String>,
}

impl RequestBody for ForceLeaveRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "owner", presence: Presence::Required, kind: OWNER },
        Field { name: "reason", presence: Presence::Required, kind: REASON },
        Field { name: "by", presence: Presence::Optional, kind: OWNER },
    ];
}

impl ForceLeaveRequest {
    /// Whose waits, checked.
    pub fn owner(&self) -> Result<Owner, InvalidArgument> {
        parse_owner("owner", &self.owner)
    }

    /// Who and why, checked.
    pub fn intervention(&self) -> Result<Intervention, InvalidArgument> {
        parse_intervention(self.by.as_deref(), &self.reason)
    }
}

/// Waits that an operator has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForceLeft {
    /// The lock.
    pub name: String,
    /// Whose waits they were.
    pub owner: String,
    /// How many there were; 0 where this call is a repetition.
    pub left: u64,
}

fn parse_fence(fence: u64) -> Result<Fence, InvalidArgument> {
    match fence {
        1.. if fence <= Fence::MAX.0 => Ok(Fence(fence)),
        _ => Err(InvalidArgument::new("fence", FENCE)),
    }
}

fn parse_intervention(by: Option<&str>, reason: &str) -> Result<Intervention, InvalidArgument> {
    let by = by.map(|by| parse_owner("by", by)).transpose()?.unwrap_or_default();
    let reason = Reason::new(reason).map_err(|error| {
        let rule = "a reason has 1 to 512 bytes of UTF-8 without control characters";
        InvalidArgument::new("reason", format_args!("{error}; {rule}"))
    })?;
    Ok(Intervention { by, reason })
}
