//! The calls of an election, which is the lock of that name: what they do, and what they answer.

use holdfast_api::{CampaignRequest, HandOverRequest, ProclaimRequest, RenewRequest, ResignRequest, Token};
use holdfast_core::{Fence, Grant, HolderView, LockName, LockView, Owner, Run, Share};
use holdfast_replica::handle::Consistency;
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::Reply;
use super::handlers::{Handled, no_query, query, renew_lease, take};
use super::json::{self, WaiterBody};
use super::request_body::{read, read_optional};
use super::service::{Call, Service};
use crate::attempt::attempt_key;

pub(super) async fn campaign(
    service: &Service,
    call: &mut Call<'_>,
    election: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: CampaignRequest = read_optional(&call.head.headers, body).await?;
    let (request, value) = request.into_acquire()?;
    take(service, call, election, &request, value, leadership).await
}

pub(super) async fn renew(service: &Service, call: &Call<'_>, election: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: RenewRequest = read(&call.head.headers, body).await?;
    let (token, ttl) = (request.token()?, request.ttl()?);
    let grant = renew_lease(service, &election, &token, ttl).await?;
    Ok(Reply::json(leadership(&election, &token, &grant)))
}

pub(super) async fn proclaim(
    service: &Service,
    call: &Call<'_>,
    election: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: ProclaimRequest = read(&call.head.headers, body).await?;
    let (token, value) = (request.token()?, request.value()?);
    let grant = service.replica.proclaim(election.clone(), attempt_key(&election, &token), value).await?;
    Ok(Reply::json(leadership(&election, &token, &grant)))
}

pub(super) async fn resign(
    service: &Service,
    call: &Call<'_>,
    election: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: ResignRequest = read(&call.head.headers, body).await?;
    let key = attempt_key(&election, &request.token()?);
    let released = service.replica.release_run(election.clone(), key, Run::Open).await?;
    Ok(Reply::json(json::released(&election, &released)))
}

pub(super) async fn hand_over(
    service: &Service,
    call: &Call<'_>,
    election: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: HandOverRequest = read(&call.head.headers, body).await?;
    let (token, to) = (request.token()?, request.to()?);
    let key = attempt_key(&election, &token);
    let fence = service.replica.hand_over(election.clone(), key, to.clone()).await?;
    Ok(Reply::json(handed_over(&election, fence, &to)))
}

pub(super) async fn get(service: &Service, call: &Call<'_>, election: LockName) -> Handled {
    let consistency = query(call, &["consistency"])?.consistency()?;
    let view = service.replica.read(consistency, move |table, now| table.view(&election, now)).await?;
    Ok(Reply::json(election_of(&view, consistency)))
}

#[derive(Serialize)]
struct LeadershipBody<'a> {
    name: &'a str,
    owner: &'a str,
    token: &'a str,
    fence: u64,
    ttl_ms: u64,
    expires_in_ms: u64,
    value: &'a RawValue,
}

#[derive(Serialize)]
struct HandedOverBody<'a> {
    name: &'a str,
    fence: u64,
    to: &'a str,
    handed_over: bool,
}

#[derive(Serialize)]
struct LeaderBody<'a> {
    owner: &'a str,
    fence: u64,
    value: &'a RawValue,
    expires_in_ms: u64,
}

#[derive(Serialize)]
struct ElectionBody<'a> {
    name: &'a str,
    leader: Option<LeaderBody<'a>>,
    candidates: Vec<WaiterBody<'a>>,
    candidate_count: u64,
    seq: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

/// A lead, for its leader.
fn leadership(election: &LockName, token: &Token, grant: &Grant) -> Vec<u8> {
    json::bytes(&LeadershipBody {
        name: election.as_str(),
        owner: grant.owner.as_str(),
        token: token.expose(),
        fence: grant.fence.0,
        ttl_ms: grant.ttl.ms(),
        expires_in_ms: grant.expires_in_ms,
        value: json::raw(&grant.metadata),
    })
}

fn handed_over(election: &LockName, fence: Fence, to: &Owner) -> Vec<u8> {
    json::bytes(&HandedOverBody {
        name: election.as_str(),
        fence: fence.0,
        to: to.as_str(),
        handed_over: true,
    })
}

/// An election, for everybody. Who holds the lock beside others does not lead.
fn election_of(view: &LockView, consistency: Consistency) -> Vec<u8> {
    let leader = view.holders.iter().find(|holder| holder.share == Share::Exclusive);
    json::bytes(&ElectionBody {
        name: view.name.as_str(),
        leader: leader.map(leader_body),
        candidates: view.queue.iter().map(json::waiter_body).collect(),
        candidate_count: view.queue_length,
        seq: view.seq,
        stale: consistency == Consistency::Stale,
    })
}

fn leader_body(holder: &HolderView) -> LeaderBody<'_> {
    LeaderBody {
        owner: holder.owner.as_str(),
        fence: holder.fence.0,
        value: json::raw(&holder.metadata),
        expires_in_ms: holder.expires_in_ms,
    }
}
