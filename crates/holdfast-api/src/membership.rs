//! Changes of the members and of the leader.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Field, FieldKind, Presence, RequestBody};
use crate::request::InvalidArgument;

const NODE_ID_MAX: u64 = (1 << 53) - 1;
const NODE_ID: FieldKind = FieldKind::Count { min: 1, max: NODE_ID_MAX };
const ADDR: FieldKind = FieldKind::Text("the form HOST:PORT, at most 261 bytes");
const STORAGE: FieldKind = FieldKind::Text("32 hexadecimal digits");
const ADDR_LEN_MAX: usize = 261;

/// Body of `POST /v1/cluster/members`: what a node that wants to join says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// Its id.
    #[serde(deserialize_with = "crate::body::whole")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub id: u64,
    /// `HOST:PORT` that the members reach it by.
    #[schema(min_length = 3, max_length = 261, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$")]
    pub peer_addr: String,
    /// The random id of its data folder.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub storage: String,
}

impl RequestBody for JoinRequest {
    const FIELDS: &'static [Field] = &[
        Field { name: "id", presence: Presence::Required, kind: NODE_ID },
        Field { name: "peer_addr", presence: Presence::Required, kind: ADDR },
        Field { name: "storage", presence: Presence::Required, kind: STORAGE },
    ];
}

impl JoinRequest {
    /// The id, checked.
    pub fn id(&self) -> Result<u64, InvalidArgument> {
        check_id("id", self.id)
    }

    /// The address, checked for its form.
    pub fn peer_addr(&self) -> Result<&str, InvalidArgument> {
        let port = self.peer_addr.rsplit_once(':').and_then(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains(|c: char| c.is_control() || c == ' ');
            port.parse::<u16>().ok().filter(|port| is_host && *port > 0)
        });
        match port {
            Some(_) if self.peer_addr.len() <= ADDR_LEN_MAX => Ok(&self.peer_addr),
            _ => Err(InvalidArgument::new("peer_addr", ADDR)),
        }
    }

    /// The folder's id.
    pub fn storage(&self) -> Result<u128, InvalidArgument> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_whole = self.storage.len() == 32 && self.storage.bytes().all(is_hex);
        let parsed = u128::from_str_radix(&self.storage, 16).ok().filter(|_| is_whole);
        parsed.ok_or_else(|| InvalidArgument::new("storage", STORAGE))
    }
}

/// That a node has been let in: as a learner, until it has caught up and asks for a vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Joined {
    /// The node.
    pub id: u64,
    /// Always true.
    pub joined: bool,
    /// The cluster's id.
    #[schema(required)]
    pub cluster_id: Option<String>,
}

/// Body of `DELETE /v1/cluster/members/{id}`, which may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveMemberRequest {
    /// Whether to remove it although the cluster would have no majority of nodes that answer. Default false.
    #[serde(default)]
    pub force: bool,
}

impl RequestBody for RemoveMemberRequest {
    const FIELDS: &'static [Field] =
        &[Field { name: "force", presence: Presence::Optional, kind: FieldKind::Flag }];
}

/// That a node is no member any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberRemoved {
    /// The node.
    pub id: u64,
    /// Always true.
    pub removed: bool,
}

/// Body of `POST /v1/cluster/transfer`, which may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// The voter that is to lead; left out: whichever is best.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::body::present_whole"
    )]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64, nullable = false)]
    pub to: Option<u64>,
}

impl RequestBody for TransferRequest {
    const FIELDS: &'static [Field] = &[Field { name: "to", presence: Presence::Optional, kind: NODE_ID }];
}

impl TransferRequest {
    /// The id, checked.
    pub fn to(&self) -> Result<Option<u64>, InvalidArgument> {
        self.to.map(|id| check_id("to", id)).transpose()
    }
}

/// That a node leads, and serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transferred {
    /// The node.
    pub leader_id: u64,
}

fn check_id(field: &'static str, id: u64) -> Result<u64, InvalidArgument> {
    match (1..=NODE_ID_MAX).contains(&id) {
        true => Ok(id),
        false => Err(InvalidArgument::new(field, NODE_ID)),
    }
}
