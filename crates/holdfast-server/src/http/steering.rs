//! Looking an attempt up, checking a fence, and an operator's hand.

use holdfast_api::{
    AttemptRequest, AttemptState, AttemptStatus, CheckRequest, FenceCheck, ForceLeaveRequest, ForceLeft,
    ForceReleaseRequest, ForceReleased,
};
use holdfast_core::{Fence, LockName, LockTable, Lookup};
use holdfast_replica::handle::Consistency;
use hyper::body::Incoming;

use super::answer::Reply;
use super::handlers::{Handled, no_query};
use super::json;
use super::request_body::read;
use super::service::{Call, Service};
use crate::attempt::attempt_key;

pub(super) async fn look_up(service: &Service, call: &Call<'_>, lock: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: AttemptRequest = read(&call.head.headers, body).await?;
    let key = attempt_key(&lock, &request.token()?);
    let found =
        service.replica.read(Consistency::Linearizable, |table, now| table.look_up(&lock, &key, now)).await?;
    Ok(Reply::json(json::bytes(&status(&lock, found))))
}

fn status(lock: &LockName, found: Lookup) -> AttemptStatus {
    let mut status = AttemptStatus {
        name: lock.as_str().into(),
        state: AttemptState::Unknown,
        place: None,
        fence: None,
        expires_in_ms: None,
        ending: None,
        ended_ms_ago: None,
    };
    match found {
        Lookup::Queued { place } => (status.state, status.place) = (AttemptState::Queued, Some(place)),
        Lookup::Held { fence, expires_in_ms } => {
            status.state = AttemptState::Held;
            (status.fence, status.expires_in_ms) = (Some(fence.0), Some(expires_in_ms));
        }
        Lookup::Ended { cause, fence, ago_ms } => {
            (status.state, status.ending) = (AttemptState::Ended, Some(cause.as_str().into()));
            (status.fence, status.ended_ms_ago) = (fence.map(|fence| fence.0), Some(ago_ms));
        }
        Lookup::Unknown => {}
    }
    status
}

pub(super) async fn check(service: &Service, call: &Call<'_>, lock: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: CheckRequest = read(&call.head.headers, body).await?;
    let fence = request.fence()?;
    let look = |table: &LockTable, _| {
        // Whoever holds all of the lock has its highest fence; else its past has to tell.
        let sole = table.sole_holder(&lock);
        (table.is_held_by(&lock, fence), sole, sole.is_none().then(|| table.event_history()))
    };
    let (current, sole, history) = service.replica.read(Consistency::Linearizable, look).await?;
    let of_past = history.and_then(|history| history.highest_fence(&lock));
    let highest = sole.or(of_past).or(current.then_some(fence)).map_or(0, |Fence(fence)| fence);
    Ok(Reply::json(json::bytes(&FenceCheck { name: lock.as_str().into(), fence: fence.0, current, highest })))
}

pub(super) async fn force_release(
    service: &Service,
    call: &Call<'_>,
    lock: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: ForceReleaseRequest = read(&call.head.headers, body).await?;
    let (fence, by) = (request.fence()?, request.intervention()?);
    tracing::warn!(lock = lock.as_str(), fence = fence.0, by = by.by.as_str(), "a hold is ended by force");
    service.replica.force_release(lock.clone(), fence, by).await?;
    Ok(Reply::json(json::bytes(&ForceReleased { name: lock.as_str().into(), fence: fence.0, forced: true })))
}

pub(super) async fn force_leave(
    service: &Service,
    call: &Call<'_>,
    lock: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: ForceLeaveRequest = read(&call.head.headers, body).await?;
    let (owner, by) = (request.owner()?, request.intervention()?);
    tracing::warn!(
        lock = lock.as_str(),
        owner = owner.as_str(),
        by = by.by.as_str(),
        "waits are ended by force"
    );
    let left = service.replica.force_leave(lock.clone(), owner.clone(), by).await?;
    Ok(Reply::json(json::bytes(&ForceLeft {
        name: lock.as_str().into(),
        owner: owner.as_str().into(),
        left,
    })))
}
