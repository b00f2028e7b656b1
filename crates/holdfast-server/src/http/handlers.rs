//! What each call does.

use holdfast_api::{
    AcquireRequest, Digest, ErrorCode, Health, LimitSet, ReleaseRequest, RenewRequest, SetLimitRequest, Token,
};
use holdfast_core::{Grant, LockName, Metadata, Place, Ttl};
use holdfast_replica::handle::{Acquired, Attempt};
use hyper::body::Incoming;

use super::answer::Reply;
use super::failure::Failure;
use super::json;
use super::query::Query;
use super::request_body::{read, read_optional};
use super::service::{Call, Service};
use super::session_handlers::{session_id, shown};
use crate::attempt::attempt_key;
use crate::metrics;

pub(super) type Handled = Result<Reply, Failure>;

pub(super) async fn acquire(
    service: &Service,
    call: &mut Call<'_>,
    lock: LockName,
    body: Incoming,
) -> Handled {
    no_query(call)?;
    let request: AcquireRequest = read_optional(&call.head.headers, body).await?;
    let metadata = request.metadata()?;
    take(service, call, lock, &request, metadata, json::grant).await
}

/// Takes the lock, or waits for it. `tell` makes the answer of a grant.
pub(super) async fn take(
    service: &Service,
    call: &mut Call<'_>,
    lock: LockName,
    request: &AcquireRequest,
    metadata: Metadata,
    tell: fn(&LockName, &Token, &Grant) -> Vec<u8>,
) -> Handled {
    let wait = request.wait()?;
    call.wait = std::time::Duration::from_millis(wait.ms());
    let token = match request.token()? {
        Some(token) => token,
        None => new_token()?,
    };
    let session = match request.session()? {
        Some((id, token)) => Some(shown(session_id(id)?, &token)),
        None => None,
    };
    let attempt = Attempt {
        key: attempt_key(&lock, &token),
        lock: lock.clone(),
        owner: request.owner()?,
        ttl: request.ttl()?,
        session,
        wait,
        metadata,
        share: request.share()?,
        terms: request.terms()?,
    };
    let (acquired, delivery) = service.replica.acquire(attempt).await?;
    match acquired {
        Acquired::Granted(grant) => Ok(Reply::json(tell(&lock, &token, &grant)).telling(delivery)),
        Acquired::WaitTimeout => {
            delivery.delivered();
            let detail = "The lock did not become free within the wait. The attempt has left the queue.";
            Err(Failure::new(ErrorCode::WaitTimeout, detail))
        }
        Acquired::Ended(rejection) => {
            delivery.delivered();
            Err(rejection.into())
        }
    }
}

pub(super) async fn renew(service: &Service, call: &Call<'_>, lock: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: RenewRequest = read(&call.head.headers, body).await?;
    let (token, ttl) = (request.token()?, request.ttl()?);
    let grant = renew_lease(service, &lock, &token, ttl).await?;
    Ok(Reply::json(json::grant(&lock, &token, &grant)))
}

/// Renews a lease, and counts how much was left of it.
pub(super) async fn renew_lease(
    service: &Service,
    lock: &LockName,
    token: &Token,
    ttl: Option<Ttl>,
) -> Result<Grant, Failure> {
    let place = Place { lock: lock.clone(), key: attempt_key(lock, token) };
    let margin = service.replica.lease_margin(&place);
    let grant = service.replica.renew(place.lock, place.key, ttl).await?;
    service.locks.renewed(lock.as_str(), margin);
    Ok(grant)
}

pub(super) async fn release(service: &Service, call: &Call<'_>, lock: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: ReleaseRequest = read(&call.head.headers, body).await?;
    let key = attempt_key(&lock, &request.token()?);
    let released = service.replica.release_run(lock.clone(), key, request.run()).await?;
    Ok(Reply::json(json::released(&lock, &released)))
}

pub(super) async fn set_limit(service: &Service, call: &Call<'_>, lock: LockName, body: Incoming) -> Handled {
    no_query(call)?;
    let request: SetLimitRequest = read(&call.head.headers, body).await?;
    let limit = request.limit()?;
    service.replica.set_limit(lock.clone(), limit).await?;
    Ok(Reply::json(json::bytes(&LimitSet { name: lock.as_str().into(), limit: limit.get() })))
}

pub(super) async fn get(service: &Service, call: &mut Call<'_>, lock: LockName) -> Handled {
    let query = query(call, &["consistency", "since", "wait_ms"])?;
    let (consistency, since, wait) = (query.consistency()?, query.seq("since")?, query.wait()?);
    if let Some(wait) = wait {
        call.wait = std::time::Duration::from_millis(wait.ms());
        service.replica.wait_for_event(&lock, since, wait).await?;
    }
    let view = service.replica.read(consistency, move |table, now| table.view(&lock, now)).await?;
    Ok(Reply::json(json::lock(&view, consistency)))
}

pub(super) async fn list(service: &Service, call: &Call<'_>) -> Handled {
    let query = query(call, &["prefix", "limit", "after", "consistency"])?;
    let (consistency, limit) = (query.consistency()?, query.limit()?);
    let prefix = query.name("prefix")?.unwrap_or_default();
    let after = query.name("after")?;
    let page = service.replica.read(consistency, |table, now| table.list(prefix, after, limit, now)).await?;
    Ok(Reply::json(json::list(&page, consistency)))
}

pub(super) async fn cluster(service: &Service, call: &Call<'_>) -> Handled {
    no_query(call)?;
    Ok(Reply::json(json::cluster(service.replica.cluster().await)))
}

/// A node whose replica has failed exits, so whoever gets an answer gets this one.
pub(super) fn livez(call: &Call<'_>) -> Handled {
    no_query(call)?;
    Ok(Reply::json(json::bytes(&Health { status: "alive".into() })))
}

pub(super) fn readyz(service: &Service, call: &Call<'_>) -> Handled {
    no_query(call)?;
    if service.is_closing() {
        return Err(Failure::new(ErrorCode::NoLeader, "This node is shutting down."));
    }
    match service.replica.status().not_ready {
        None => Ok(Reply::json(json::bytes(&Health { status: "ready".into() }))),
        Some(reason) => Err(Failure::new(ErrorCode::NoLeader, format!("This node is not ready: {reason}."))),
    }
}

pub(super) fn metrics(service: &Service, call: &Call<'_>) -> Handled {
    no_query(call)?;
    let text = metrics::encode(metrics::Numbers {
        status: service.replica.status(),
        version: service.version,
        groups: service.replica.lock_numbers(),
        locks: &service.locks,
        http: &service.metrics,
    });
    Ok(Reply::new(metrics::CONTENT_TYPE, text))
}

pub(super) fn openapi(service: &Service, call: &Call<'_>) -> Handled {
    no_query(call)?;
    Ok(Reply::json(service.description.clone()))
}

pub(super) async fn digest(service: &Service, call: &Call<'_>) -> Handled {
    no_query(call)?;
    let (applied_index, state) = service.replica.state();
    let hashed = tokio::task::spawn_blocking(|| state.digest()).await;
    let digest = hashed.map_err(|_| Failure::bug())?;
    Ok(Reply::json(json::bytes(&Digest { applied_index, digest: format!("{digest:016x}") })))
}

pub(super) fn query<'a>(call: &Call<'a>, known: &'static [&'static str]) -> Result<Query<'a>, Failure> {
    Ok(Query::parse(call.head.uri.query(), known)?)
}

pub(super) fn no_query(call: &Call<'_>) -> Result<(), Failure> {
    query(call, &[]).map(|_| ())
}

pub(super) fn new_token() -> Result<Token, Failure> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(Token::from_random(bytes)),
        Err(error) => {
            tracing::error!(%error, "the operating system gives no random numbers");
            Err(Failure::bug())
        }
    }
}
