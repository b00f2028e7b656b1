//! JSON on the wire: requests, answers, error codes. Pure: shared by server, client and command line.

mod answer;
mod body;
mod code;
mod election;
mod limits;
mod many;
mod membership;
mod problem;
mod request;
mod session;
mod steering;
mod token;
mod watching;

pub use answer::{
    Cluster, ClusterHealth, Digest, Fenced, Grant, GrantMany, Health, HeldBy, Holder, LimitSet, Lock,
    LockList, LockState, Member, Mode, Released, ReleasedLock, ReleasedMany, Waiter,
};
pub use body::{Field, FieldKind, Presence, RequestBody, read_body};
pub use code::ErrorCode;
pub use election::{
    CampaignRequest, Election, HandOverRequest, HandedOver, Leader, Leadership, ProclaimRequest,
    ResignRequest,
};
pub use limits::{BODY_LEN_MAX, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
pub use many::{AcquireManyRequest, LockItem, ReleaseManyRequest, RenewManyRequest};
pub use membership::{JoinRequest, Joined, MemberRemoved, RemoveMemberRequest, TransferRequest, Transferred};
pub use problem::Problem;
pub use request::{AcquireRequest, InvalidArgument, Once, ReleaseRequest, RenewRequest, SetLimitRequest};
pub use session::{
    OpenSessionRequest, Session, SessionEnded, SessionInfo, SessionList, SessionSummary, SessionTokenRequest,
    parse_session_id,
};
pub use steering::{
    AttemptRequest, AttemptState, AttemptStatus, CheckRequest, FenceCheck, ForceLeaveRequest, ForceLeft,
    ForceReleaseRequest, ForceReleased,
};
pub use token::{Token, TokenError};
pub use watching::{DoneRun, EventReset, LockEvent, PastHold, PastHolds, Why};
