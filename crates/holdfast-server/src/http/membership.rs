//! Changes of the members and of the leader.

use holdfast_api::{
    InvalidArgument, JoinRequest, Joined, MemberRemoved, RemoveMemberRequest, TransferRequest, Transferred,
};
use holdfast_core::StorageId;
use holdfast_replica::members::{Joiner, Safety};
use hyper::body::Incoming;

use super::answer::Reply;
use super::handlers::{Handled, no_query, query};
use super::json;
use super::request_body::{read, read_optional};
use super::service::{Call, Service};

pub(super) async fn join(service: &Service, call: &Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: JoinRequest = read(&call.head.headers, body).await?;
    let (node, addr) = (request.id()?, request.peer_addr()?.to_owned());
    let storage = StorageId(request.storage()?);
    service.replica.join(Joiner { node, addr, storage }).await?;
    let cluster_id = service.replica.cluster_id().map(|id| id.to_string());
    Ok(Reply::json(json::bytes(&Joined { id: node, joined: true, cluster_id })))
}

pub(super) async fn remove(service: &Service, call: &Call<'_>, id: &str, body: Incoming) -> Handled {
    let query = query(call, &["force"])?;
    let request: RemoveMemberRequest = read_optional(&call.head.headers, body).await?;
    let safety = match request.force || query.flag("force")? {
        true => Safety::Forced,
        false => Safety::Checked,
    };
    let node = member_id(id)?;
    tracing::warn!(node, ?safety, "an operator removes a member");
    service.replica.remove(node, safety).await?;
    Ok(Reply::json(json::bytes(&MemberRemoved { id: node, removed: true })))
}

pub(super) async fn transfer(service: &Service, call: &Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: TransferRequest = read_optional(&call.head.headers, body).await?;
    let leader_id = service.replica.transfer(request.to()?).await?;
    Ok(Reply::json(json::bytes(&Transferred { leader_id })))
}

fn member_id(text: &str) -> Result<u64, InvalidArgument> {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let id = text.parse().ok().filter(|id| is_whole && *id < 1 << 53);
    id.ok_or_else(|| InvalidArgument::new("id", "must be the id of a member: a whole number from 1"))
}
