//! What the calls do that are about many locks at once.

use holdfast_api::{AcquireManyRequest, ErrorCode, ReleaseManyRequest, RenewManyRequest, Token};
use holdfast_core::{Item, LockName, Place, Several, SeveralError};
use holdfast_replica::handle::{Acquired, ManyAttempt};
use hyper::body::Incoming;

use super::answer::Reply;
use super::failure::Failure;
use super::handlers::{Handled, new_token, no_query};
use super::json;
use super::request_body::read;
use super::service::{Call, Service};
use crate::attempt::{attempt_key, many_key};

pub(super) async fn acquire(service: &Service, call: &mut Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: AcquireManyRequest = read(&call.head.headers, body).await?;
    let wait = request.wait()?;
    call.wait = std::time::Duration::from_millis(wait.ms());
    let token = match request.token()? {
        Some(token) => token,
        None => new_token()?,
    };
    let item = |(lock, share)| Item { place: place(lock, &token), share };
    let attempt = ManyAttempt {
        key: many_key(&token),
        items: several(request.locks()?.into_iter().map(item), "locks")?,
        owner: request.owner()?,
        ttl: request.ttl()?,
        wait,
    };
    let names: Vec<_> = attempt.items.iter().map(|item| item.place.lock.clone()).collect();
    let asked: Vec<_> = names.iter().map(|lock| service.locks.asked(lock.as_str())).collect();
    let handled = take(service, &token, attempt).await;
    let code = handled.as_ref().err().map(Failure::code);
    asked.into_iter().for_each(|asked| asked.answered(code));
    handled
}

async fn take(service: &Service, token: &Token, attempt: ManyAttempt) -> Handled {
    let (acquired, delivery) = service.replica.acquire_many(attempt).await?;
    match acquired {
        Acquired::Granted(grant) => Ok(Reply::json(json::grant_many(token, &grant)).telling(delivery)),
        Acquired::WaitTimeout => {
            delivery.delivered();
            let detail =
                "The locks did not all become free within the wait. The attempt has left all queues.";
            Err(Failure::new(ErrorCode::WaitTimeout, detail))
        }
        Acquired::Ended(rejection) => {
            delivery.delivered();
            Err(rejection.into())
        }
    }
}

pub(super) async fn renew(service: &Service, call: &Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: RenewManyRequest = read(&call.head.headers, body).await?;
    let (token, ttl) = (request.token()?, request.ttl()?);
    let (key, named) = (many_key(&token), named(request.names()?, &token)?);
    let places = match &named {
        Some(places) => places.iter().cloned().collect(),
        None => service.replica.places_of_many(&key),
    };
    let margins: Vec<_> = places.iter().map(|place| service.replica.lease_margin(place)).collect();
    let grant = service.replica.renew_many(key, named, ttl).await?;
    for (place, margin) in places.iter().zip(margins) {
        service.locks.renewed(place.lock.as_str(), margin);
    }
    Ok(Reply::json(json::grant_many(&token, &grant)))
}

pub(super) async fn release(service: &Service, call: &Call<'_>, body: Incoming) -> Handled {
    no_query(call)?;
    let request: ReleaseManyRequest = read(&call.head.headers, body).await?;
    let token = request.token()?;
    let named = named(request.names()?, &token)?;
    let fences = service.replica.release_many(many_key(&token), named).await?;
    Ok(Reply::json(json::released_many(&fences)))
}

fn named(names: Option<Vec<LockName>>, token: &Token) -> Result<Option<Several<Place>>, Failure> {
    let places = |names: Vec<_>| several(names.into_iter().map(|name| place(name, token)), "names");
    names.map(places).transpose()
}

fn place(lock: LockName, token: &Token) -> Place {
    Place { key: attempt_key(&lock, token), lock }
}

fn several<T: holdfast_core::OfLock>(
    list: impl Iterator<Item = T>,
    field: &'static str,
) -> Result<Several<T>, Failure> {
    Ok(Several::new(list.collect()).map_err(|error| match error {
        SeveralError::Twice(at) => {
            holdfast_api::InvalidArgument::new(format!("{field}[{at}]"), "names a lock that was named before")
        }
        SeveralError::Len(_) => holdfast_api::InvalidArgument::new(field, error),
    })?)
}
