//! One request from its head to its answer: id, route, limits, handler, log line and numbers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_api::{ErrorCode, InvalidArgument};
use holdfast_core::LockName;
use holdfast_replica::node::NodeReplica;
use http_body::Body;
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::answer::{Answer, AnswerBody, Reply, without_body};
use super::elections;
use super::failure::Failure;
use super::handlers::Handled;
use super::percent::decode_segment;
use super::request_body::check_announced_len;
use super::request_id::{RequestIds, X_REQUEST_ID};
use super::route::{self, Destination, Route};
use super::{handlers, many, membership, session_handlers, steering, watching};
use crate::metrics::{Asked, HttpMetrics, LockMetrics};
use crate::openapi;
use crate::socket::ConnectionState;

/// A request that takes longer than this beyond its own wait is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// What every connection of a node shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) replica: NodeReplica,
    pub(super) metrics: Arc<HttpMetrics>,
    pub(super) locks: Arc<LockMetrics>,
    pub(super) version: &'static str,
    pub(super) description: Bytes,
    ids: RequestIds,
    closing: AtomicBool,
}

/// A request while it is worked on.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) head: &'a Parts,
    /// How long the client itself has asked to wait.
    pub(super) wait: Duration,
}

impl Service {
    pub(crate) fn new(replica: NodeReplica, version: &'static str, id_prefix: u32) -> Self {
        Self {
            locks: Arc::new(LockMetrics::new(replica.lock_groups().clone())),
            replica,
            metrics: Arc::default(),
            version,
            description: openapi::describe().into(),
            ids: RequestIds::new(id_prefix),
            closing: AtomicBool::new(false),
        }
    }

    /// A client has connected; it counts until the value is dropped.
    pub(crate) fn connected(&self) -> impl Drop + use<'_> {
        self.metrics.connected()
    }

    /// From now on this node is not ready.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Answers a request, whatever it is. Dropped before the end, it means that the client has hung up.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let in_flight = connection.begin();
        let begun = Instant::now();
        let id = self.ids.of(&head.headers);
        let destination = route::find(&head.method, head.uri.path());
        let route = match destination {
            Destination::Found(route, _) => Some(route),
            Destination::BelowLocks | Destination::Nowhere => None,
        };
        let observed = self.metrics.begin(route);
        let mut call = Call { head: &head, wait: Duration::ZERO };
        let result = contained(self.dispatch(&mut call, destination, body)).await;
        let code = result.as_ref().err().map(Failure::code);
        let took = begun.elapsed();
        observed.answered(code, took);
        connection.note_unread_body(has_body && code.is_some_and(leaves_body_unread));
        log(&call, route, code, took, &id);
        let mut answer = result.unwrap_or_else(|failure| failure.into_answer(&id));
        answer.headers_mut().insert(X_REQUEST_ID, id);
        answer.body_mut().note_in_flight(in_flight);
        if head.method == Method::HEAD { without_body(answer) } else { answer }
    }

    async fn dispatch(
        &self,
        call: &mut Call<'_>,
        destination: Destination<'_>,
        body: Incoming,
    ) -> Result<Answer, Failure> {
        let (route, name) = match destination {
            Destination::Found(route, name) => (route, name),
            Destination::BelowLocks => return Err(bare_slash()),
            Destination::Nowhere => return Err(nowhere()),
        };
        match (&call.head.method, route.method()) {
            (&Method::OPTIONS, _) => return Ok(options(route)),
            (asked, takes) if *asked == takes => {}
            (&Method::HEAD, Method::GET) => {}
            _ => return Err(Failure::method_not_allowed(route.allow())),
        }
        check_announced_len(&call.head.headers)?;
        let reply = self.handle(call, route, name, body).await?;
        Ok(reply.into_answer())
    }

    async fn handle(
        &self,
        call: &mut Call<'_>,
        route: Route,
        name: &str,
        body: Incoming,
    ) -> Result<Reply, Failure> {
        match route {
            Route::Acquire => {
                let lock = lock_name(name)?;
                let asked = self.locks.asked(lock.as_str());
                counted(asked, handlers::acquire(self, call, lock, body)).await
            }
            Route::Renew => handlers::renew(self, call, lock_name(name)?, body).await,
            Route::Release => handlers::release(self, call, lock_name(name)?, body).await,
            Route::SetLimit => handlers::set_limit(self, call, lock_name(name)?, body).await,
            Route::Get => handlers::get(self, call, lock_name(name)?).await,
            Route::List => handlers::list(self, call).await,
            Route::Cluster => handlers::cluster(self, call).await,
            Route::Livez => handlers::livez(call),
            Route::Readyz => handlers::readyz(self, call),
            Route::Metrics => handlers::metrics(self, call),
            Route::OpenApi => handlers::openapi(self, call),
            Route::Digest => handlers::digest(self, call).await,
            Route::Campaign => {
                let election = lock_name(name)?;
                let asked = self.locks.asked(election.as_str());
                counted(asked, elections::campaign(self, call, election, body)).await
            }
            Route::RenewLead => elections::renew(self, call, lock_name(name)?, body).await,
            Route::Proclaim => elections::proclaim(self, call, lock_name(name)?, body).await,
            Route::Resign => elections::resign(self, call, lock_name(name)?, body).await,
            Route::HandOver => elections::hand_over(self, call, lock_name(name)?, body).await,
            Route::GetElection => elections::get(self, call, lock_name(name)?).await,
            Route::AcquireMany => many::acquire(self, call, body).await,
            Route::RenewMany => many::renew(self, call, body).await,
            Route::ReleaseMany => many::release(self, call, body).await,
            Route::OpenSession => session_handlers::open(self, call, body).await,
            Route::RenewSession => session_handlers::renew(self, call, name, body).await,
            Route::EndSession => session_handlers::end(self, call, name, body).await,
            Route::GetSession => session_handlers::get(self, call, name).await,
            Route::ListSessions => session_handlers::list(self, call).await,
            Route::Events => watching::events(self, call).await,
            Route::LookUp => steering::look_up(self, call, lock_name(name)?, body).await,
            Route::CheckFence => steering::check(self, call, lock_name(name)?, body).await,
            Route::ForceRelease => steering::force_release(self, call, lock_name(name)?, body).await,
            Route::ForceLeave => steering::force_leave(self, call, lock_name(name)?, body).await,
            Route::History => watching::history(self, call, lock_name(name)?).await,
            Route::Why => watching::why(self, call, lock_name(name)?).await,
            Route::Join => membership::join(self, call, body).await,
            Route::RemoveMember => membership::remove(self, call, name, body).await,
            Route::Transfer => membership::transfer(self, call, body).await,
        }
    }
}

/// An acquire, counted by what comes of it.
async fn counted(asked: Asked<'_>, acquire: impl Future<Output = Handled>) -> Handled {
    let handled = acquire.await;
    asked.answered(handled.as_ref().err().map(Failure::code));
    handled
}

/// A panic is this one request's failure. Nothing of it is used afterwards: what is shared is the replica's, which has
/// no state that a cancelled or panicked call could leave half changed.
async fn contained(work: impl Future<Output = Result<Answer, Failure>>) -> Result<Answer, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(Failure::bug()))
}

/// Whether a request is refused with this code before all of its body was read.
fn leaves_body_unread(code: ErrorCode) -> bool {
    use ErrorCode::{InvalidArgument, MethodNotAllowed, NotFound, RequestTimeout, TooLarge};
    matches!(code, InvalidArgument | MethodNotAllowed | NotFound | RequestTimeout | TooLarge)
}

fn lock_name(raw: &str) -> Result<LockName, InvalidArgument> {
    let text = decode_segment(raw).map_err(|error| InvalidArgument::new("name", error))?;
    LockName::new(&text).map_err(|error| {
        let rule = "a lock's name has 1 to 512 bytes of UTF-8 without control characters";
        InvalidArgument::new("name", format_args!("{error}; {rule}"))
    })
}

fn options(route: Route) -> Answer {
    let mut answer = Response::new(AnswerBody::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(route.allow()));
    answer
}

fn nowhere() -> Failure {
    Failure::new(ErrorCode::NotFound, "There is nothing at this path; GET /openapi.json tells what there is.")
}

fn bare_slash() -> Failure {
    Failure::new(
        ErrorCode::NotFound,
        "There is nothing at this path. If the name of the lock contains a slash, percent-encode it as %2F.",
    )
}

/// The path, which has the lock's name in it, is for the debug level only. No body and no query is ever logged.
fn log(call: &Call<'_>, route: Option<Route>, code: Option<ErrorCode>, took: Duration, id: &HeaderValue) {
    let method = call.head.method.as_str();
    let route = route.map_or("none", Route::label);
    let status = code.map_or(200, ErrorCode::status);
    let code = code.map_or("ok", ErrorCode::as_str);
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let request_id = id.to_str().unwrap_or_default();
    if code == ErrorCode::Internal.as_str() {
        tracing::error!(method, route, status, code, took_ms, request_id, "request failed");
    } else if took > call.wait + SLOW {
        tracing::warn!(method, route, status, code, took_ms, request_id, "slow request");
    } else {
        let path = call.head.uri.path();
        tracing::debug!(method, route, status, code, took_ms, request_id, path, "request");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_problem_and_not_a_cut_connection() {
        let failure = contained(async { panic!("a bug") }).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Internal);
        let answer = failure.into_answer(&HeaderValue::from_static("7"));
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
