//! From what the replica says straight to JSON bytes: the shapes are those of `holdfast_api`, but nothing is copied.

use holdfast_api::{
    Cluster, ClusterHealth, DoneRun, LockState, Member, Mode, Session, SessionEnded, SessionInfo,
    SessionList, SessionSummary, Token,
};
use holdfast_core::{
    DoneView, Fence, Grant, HolderView, LockName, LockPage, LockView, ManyGrant, Metadata, SessionDetail,
    SessionGrant, SessionId, SessionPage, Share, WaiterView,
};
use holdfast_replica::handle::{ClusterStatus, Consistency, HealthStatus, Released, Role};
use serde::Serialize;
use serde_json::value::RawValue;

/// Size that most answers stay under, in bytes.
const USUAL_LEN: usize = 256;

#[derive(Serialize)]
struct GrantBody<'a> {
    name: &'a str,
    owner: &'a str,
    token: &'a str,
    fence: u64,
    ttl_ms: u64,
    expires_in_ms: u64,
    metadata: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_left_ms: Option<u64>,
}

#[derive(Serialize)]
struct GrantManyBody<'a> {
    token: &'a str,
    ttl_ms: u64,
    expires_in_ms: u64,
    grants: Vec<FenceBody<'a, u64>>,
}

#[derive(Serialize)]
struct ReleasedManyBody<'a> {
    released: bool,
    locks: Vec<FenceBody<'a, Option<u64>>>,
}

#[derive(Serialize)]
struct FenceBody<'a, F> {
    name: &'a str,
    fence: F,
}

#[derive(Serialize)]
struct ReleasedBody<'a> {
    name: &'a str,
    fence: Option<u64>,
    released: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

#[derive(Serialize)]
struct HolderBody<'a> {
    owner: &'a str,
    fence: u64,
    ttl_ms: u64,
    expires_in_ms: u64,
    held_ms: u64,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    metadata: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_left_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    releasing: bool,
}

#[derive(Serialize)]
pub(super) struct WaiterBody<'a> {
    owner: &'a str,
    waiting_ms: u64,
}

#[derive(Serialize)]
struct LockBody<'a> {
    name: &'a str,
    state: LockState,
    holders: Vec<HolderBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits_out: Option<u64>,
    queue: Vec<WaiterBody<'a>>,
    queue_length: u64,
    seq: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

#[derive(Serialize)]
struct LockListBody<'a> {
    locks: Vec<LockBody<'a>>,
    next: Option<&'a str>,
    seq: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

/// A grant, for its holder.
pub(crate) fn grant(lock: &LockName, token: &Token, grant: &Grant) -> Vec<u8> {
    bytes(&GrantBody {
        name: lock.as_str(),
        owner: grant.owner.as_str(),
        token: token.expose(),
        fence: grant.fence.0,
        ttl_ms: grant.ttl.ms(),
        expires_in_ms: grant.expires_in_ms,
        metadata: raw(&grant.metadata),
        max_left_ms: grant.max_left_ms,
    })
}

/// The answer to a release.
pub(crate) fn released(lock: &LockName, released: &Released) -> Vec<u8> {
    let Released { fence, effective_in_ms, is_done } = *released;
    bytes(&ReleasedBody {
        name: lock.as_str(),
        fence: fence.map(|fence| fence.0),
        released: true,
        effective_in_ms: Some(effective_in_ms).filter(|ms| *ms > 0),
        done: is_done,
    })
}

/// Many grants, for their holder.
pub(crate) fn grant_many(token: &Token, grant: &ManyGrant) -> Vec<u8> {
    bytes(&GrantManyBody {
        token: token.expose(),
        ttl_ms: grant.ttl.ms(),
        expires_in_ms: grant.expires_in_ms,
        grants: grant
            .fences
            .iter()
            .map(|(lock, fence)| FenceBody { name: lock.as_str(), fence: fence.0 })
            .collect(),
    })
}

/// The answer to a release of many locks.
pub(crate) fn released_many(fences: &[(LockName, Option<Fence>)]) -> Vec<u8> {
    bytes(&ReleasedManyBody {
        released: true,
        locks: fences
            .iter()
            .map(|(lock, fence)| FenceBody { name: lock.as_str(), fence: fence.map(|fence| fence.0) })
            .collect(),
    })
}

/// A lock, for everybody.
pub(crate) fn lock(view: &LockView, consistency: Consistency) -> Vec<u8> {
    bytes(&lock_body(view, consistency))
}

/// A page of locks, for everybody.
pub(crate) fn list(page: &LockPage, consistency: Consistency) -> Vec<u8> {
    bytes(&LockListBody {
        locks: page.locks.iter().map(|view| lock_body(view, consistency)).collect(),
        next: page.next.as_ref().map(LockName::as_str),
        seq: page.seq,
        stale: consistency == Consistency::Stale,
    })
}

/// A session, for its owner.
pub(crate) fn session(token: &Token, session: &SessionGrant) -> Vec<u8> {
    bytes(&Session {
        id: session.id.to_string(),
        owner: session.owner.to_string(),
        token: token.clone(),
        ttl_ms: session.ttl.ms(),
        expires_in_ms: session.expires_in_ms,
    })
}

/// The answer to the end of a session.
pub(crate) fn session_ended(id: SessionId, released: u64) -> Vec<u8> {
    bytes(&SessionEnded { id: id.to_string(), ended: true, released })
}

/// A session, for everybody.
pub(crate) fn session_info(detail: &SessionDetail, consistency: Consistency) -> Vec<u8> {
    let names = |names: &[LockName]| names.iter().map(LockName::to_string).collect();
    bytes(&SessionInfo {
        id: detail.session.id.to_string(),
        owner: detail.session.owner.to_string(),
        ttl_ms: detail.session.ttl.ms(),
        expires_in_ms: detail.session.expires_in_ms,
        holds: names(&detail.holds),
        waits: names(&detail.waits),
        seq: detail.seq,
        stale: consistency == Consistency::Stale,
    })
}

/// A page of sessions, for everybody.
pub(crate) fn session_list(page: &SessionPage, consistency: Consistency) -> Vec<u8> {
    let summaries = page.sessions.iter().map(|session| SessionSummary {
        id: session.id.to_string(),
        owner: session.owner.to_string(),
        ttl_ms: session.ttl.ms(),
        expires_in_ms: session.expires_in_ms,
        held: session.held,
        waiting: session.waiting,
    });
    bytes(&SessionList {
        sessions: summaries.collect(),
        next: page.next.map(|id| id.to_string()),
        seq: page.seq,
        stale: consistency == Consistency::Stale,
    })
}

/// The cluster, for operators.
pub(crate) fn cluster(status: ClusterStatus) -> Vec<u8> {
    let members = status
        .members
        .into_iter()
        .map(|member| Member {
            id: member.id,
            role: member.role.map_or("unknown", role).into(),
            voter: member.voter,
            peer_addr: member.peer_addr,
            client_url: member.client_url,
            version: member.version,
            applied_index: member.applied_index,
            lag: member.lag,
            last_seen_ms: member.last_seen_ms,
        })
        .collect();
    bytes(&Cluster {
        cluster_id: status.cluster_id,
        node_id: status.node_id,
        leader_id: status.leader_id,
        term: status.term,
        members,
        health: ClusterHealth { status: health(status.health.status).into(), reasons: status.health.reasons },
    })
}

fn health(status: HealthStatus) -> &'static str {
    match status {
        HealthStatus::Ok => "ok",
        HealthStatus::Degraded => "degraded",
        HealthStatus::Down => "down",
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Learner => "learner",
        Role::Candidate => "candidate",
    }
}

fn lock_body(view: &LockView, consistency: Consistency) -> LockBody<'_> {
    LockBody {
        name: view.name.as_str(),
        state: if view.holders.is_empty() { LockState::Free } else { LockState::Held },
        holders: view.holders.iter().map(holder_body).collect(),
        limit: view.limit,
        permits_out: view.limit.map(|_| view.permits_out()),
        queue: view.queue.iter().map(waiter_body).collect(),
        queue_length: view.queue_length,
        seq: view.seq,
        stale: consistency == Consistency::Stale,
        delay_ms: view.delay_ms,
    }
}

fn holder_body(holder: &HolderView) -> HolderBody<'_> {
    HolderBody {
        owner: holder.owner.as_str(),
        fence: holder.fence.0,
        ttl_ms: holder.ttl.ms(),
        expires_in_ms: holder.expires_in_ms,
        held_ms: holder.held_ms,
        mode: if holder.share == Share::Shared { Mode::Shared } else { Mode::Exclusive },
        permits: holder.share.limit().map(|_| holder.share.permits()),
        session: holder.session.map(|session| session.to_string()),
        metadata: raw(&holder.metadata),
        max_left_ms: holder.max_left_ms,
        releasing: holder.is_releasing,
    }
}

#[derive(Serialize)]
struct WhyBody<'a> {
    name: &'a str,
    state: LockState,
    why: &'a str,
    holders: Vec<HolderBody<'a>>,
    ahead: Vec<WaiterBody<'a>>,
    queue_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<DoneRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits_out: Option<u64>,
    seq: u64,
}

/// What is in the way at a lock, for everybody.
pub(crate) fn why(view: &LockView, done: Option<&DoneView>, why: &str) -> Vec<u8> {
    let lock = lock_body(view, Consistency::Linearizable);
    bytes(&WhyBody {
        name: lock.name,
        state: lock.state,
        why,
        holders: lock.holders,
        ahead: lock.queue,
        queue_length: lock.queue_length,
        delay_ms: lock.delay_ms,
        done: done.map(|done| DoneRun {
            owner: done.owner.to_string(),
            fence: done.fence.0,
            next_in_ms: done.next_in_ms,
            done_ms_ago: done.done_ms_ago,
        }),
        limit: lock.limit,
        permits_out: lock.permits_out,
        seq: lock.seq,
    })
}

pub(super) fn waiter_body(waiter: &WaiterView) -> WaiterBody<'_> {
    WaiterBody { owner: waiter.owner.as_str(), waiting_ms: waiter.waiting_ms }
}

pub(super) fn raw(metadata: &Metadata) -> &RawValue {
    serde_json::from_str(metadata.as_json()).expect("metadata was written by serde_json when it came in")
}

/// Any of these as JSON.
pub(crate) fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_LEN);
    serde_json::to_writer(&mut bytes, value)
        .expect("answers have text keys only, and memory takes all bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Owner, Ttl};

    use super::*;

    fn metadata() -> Metadata {
        Metadata::new("{\"pid\":7}").unwrap()
    }

    #[test]
    fn a_grant_reads_back_as_the_wire_type() {
        let lock = LockName::new("a\"b/ß").unwrap();
        let token = Token::from_random([9; 16]);
        let inner = Grant {
            fence: Fence(5),
            owner: Owner::new("me").unwrap(),
            ttl: Ttl::default(),
            expires_in_ms: 29_999,
            metadata: metadata(),
            max_left_ms: Some(59_999),
        };
        let read: holdfast_api::Grant = serde_json::from_slice(&grant(&lock, &token, &inner)).unwrap();
        assert_eq!((read.name.as_str(), read.owner.as_str(), read.fence), ("a\"b/ß", "me", 5));
        assert_eq!((read.token, read.ttl_ms, read.expires_in_ms), (token, 30_000, 29_999));
        assert_eq!((read.metadata["pid"].as_u64(), read.max_left_ms), (Some(7), Some(59_999)));
    }

    #[test]
    fn a_page_of_locks_reads_back_as_the_wire_type() {
        let holder = HolderView {
            owner: Owner::default(),
            fence: Fence(3),
            ttl: Ttl::default(),
            expires_in_ms: 10,
            held_ms: 20,
            share: Share::Exclusive,
            session: Some(SessionId(12)),
            metadata: metadata(),
            max_left_ms: Some(30),
            is_releasing: true,
        };
        let view = LockView {
            name: LockName::new("x").unwrap(),
            holders: vec![holder],
            limit: None,
            queue: vec![WaiterView { owner: Owner::default(), waiting_ms: 4 }],
            queue_length: 1,
            seq: 8,
            delay_ms: Some(2),
        };
        let page = LockPage { next: Some(view.name.clone()), locks: vec![view], seq: 8 };
        let read: holdfast_api::LockList = serde_json::from_slice(&list(&page, Consistency::Stale)).unwrap();
        assert!(read.stale && read.locks[0].stale);
        assert_eq!(read.next.as_deref(), Some("x"));
        assert_eq!((read.locks[0].state, read.locks[0].delay_ms), (LockState::Held, Some(2)));
        let holder = &read.locks[0].holders[0];
        assert_eq!((holder.max_left_ms, holder.releasing), (Some(30), true));
        assert_eq!(read.locks[0].holders[0].session.as_deref(), Some("12"));
        assert_eq!((read.locks[0].holders[0].held_ms, read.locks[0].queue[0].waiting_ms), (20, 4));
    }

    #[test]
    fn a_fresh_answer_does_not_speak_of_staleness() {
        let page = LockPage { locks: vec![], next: None, seq: 0 };
        let text = String::from_utf8(list(&page, Consistency::Linearizable)).unwrap();
        assert_eq!(text, "{\"locks\":[],\"next\":null,\"seq\":0}");
    }
}
