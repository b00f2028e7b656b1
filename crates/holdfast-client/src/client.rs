//! The client: endpoints, a pool of connections, and one method for each call of the API.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    Cluster, Grant, GrantMany, LimitSet, Lock, LockList, ReleaseManyRequest, Released, ReleasedMany,
    RenewManyRequest, SetLimitRequest, Token,
};

use holdfast_core::Run;

use crate::acquire::{checked_name, whole_ms};
use crate::call::{Answer, Pace};
use crate::clock::{Clock, Moment};
use crate::endpoint::{EndpointError, Endpoints};
use crate::error::CallError;
use crate::path::{lock_path, query_value};
use crate::request::LockRequest;
use crate::session::SessionRequest;
use crate::target::Target;
use crate::transport::{Outgoing, Transport};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Talks to a cluster. Clones share connections and the memory of which endpoint works.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    endpoints: Endpoints,
    transport: Transport,
    clock: Clock,
    timeout: Duration,
}

/// Makes a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    clock: Clock,
    timeout: Duration,
}

impl ClientBuilder {
    /// The nodes, as base URLs like `http://127.0.0.1:7101`. Any node serves any call: name several.
    #[must_use]
    pub fn endpoints<S: Into<String>>(mut self, endpoints: impl IntoIterator<Item = S>) -> Self {
        self.endpoints = endpoints.into_iter().map(Into::into).collect();
        self
    }

    /// How long a call goes on trying while no endpoint gives a usable answer. Default 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The clock that leases are measured with. For tests of programs; default is the system's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the endpoints. Connects to none yet.
    ///
    /// # Errors
    /// An endpoint that is no `http://` URL, or none at all.
    pub fn build(self) -> Result<Client, EndpointError> {
        let endpoints = Endpoints::parse(&self.endpoints)?;
        let transport = Transport::new();
        let (clock, timeout) = (self.clock, self.timeout);
        Ok(Client { inner: Arc::new(Inner { endpoints, transport, clock, timeout }) })
    }
}

/// Which page of the list of locks.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Only names that begin so.
    pub prefix: Option<String>,
    /// Only names behind this one.
    pub after: Option<String>,
    /// Most locks in the page, 1 to 1000. The service's default is 100.
    pub limit: Option<usize>,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// As of now, for the whole cluster.
    #[default]
    Linearizable,
    /// What the node that answers has, which may be old. It needs no majority.
    Stale,
}

impl Client {
    /// Begins to make a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder { endpoints: Vec::new(), clock: Clock::system(), timeout: DEFAULT_TIMEOUT }
    }

    /// Begins to acquire a lock that renews itself and knows when it is lost.
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest::new(self.clone(), name.into())
    }

    /// Begins to acquire many locks, all or none: 1 to 64 different ones.
    pub fn lock_many<S: Into<String>>(&self, names: impl IntoIterator<Item = S>) -> LockRequest {
        LockRequest::many(self.clone(), names.into_iter().map(Into::into).collect())
    }

    /// Begins to open a session: one keep-alive for many locks.
    pub fn session(&self) -> SessionRequest {
        SessionRequest::new(self.clone())
    }

    /// Sets what is left of a lease to its TTL, or to a new one.
    ///
    /// # Errors
    /// `lease_expired`, `lease_released`, `lease_forced` and `not_holder` mean that nothing is held.
    pub async fn renew(
        &self,
        name: &str,
        token: &Token,
        ttl: Option<Duration>,
    ) -> Result<Answer<Grant>, CallError> {
        let outgoing = Target::One(checked_name(name)?).renew(token, ttl);
        self.renew_at_pace(&outgoing, token, self.usual_pace()).await
    }

    /// The same for many locks of one token: those that are named, or all that it holds.
    ///
    /// # Errors
    /// As [`Client::renew`], if any of those that are named is not held: then nothing is renewed.
    pub async fn renew_many(
        &self,
        token: &Token,
        names: Option<&[&str]>,
        ttl: Option<Duration>,
    ) -> Result<Answer<GrantMany>, CallError> {
        let (names, ttl_ms) = (checked_names(names)?, ttl.map(whole_ms));
        let request = RenewManyRequest { token: token.expose().into(), names, ttl_ms };
        self.renew_at_pace(&Outgoing::post("/v1/renew".into(), &request), token, self.usual_pace()).await
    }

    /// Frees a lock that this token holds, or takes the attempt out of the queue. Safe to repeat.
    ///
    /// # Errors
    /// `lease_expired`, `lease_forced` and `not_holder` mean that there was nothing left to release.
    pub async fn release(&self, name: &str, token: &Token) -> Result<Answer<Released>, CallError> {
        let outgoing = Target::One(checked_name(name)?).give_back(token);
        self.call(&outgoing, self.usual_pace()).await
    }

    /// The same, and the run that the lock was taken for is completed: with `once` there is
    /// no other until its period is over.
    ///
    /// # Errors
    /// As [`Client::release`].
    pub async fn release_done(&self, name: &str, token: &Token) -> Result<Answer<Released>, CallError> {
        let outgoing = Target::One(checked_name(name)?).release(token, Run::Done);
        self.call(&outgoing, self.usual_pace()).await
    }

    /// The same for many locks of one token: those that are named, or all that it holds or waits for.
    ///
    /// # Errors
    /// As [`Client::release`], if any of those that are named is not held: then nothing is released.
    pub async fn release_many(
        &self,
        token: &Token,
        names: Option<&[&str]>,
    ) -> Result<Answer<ReleasedMany>, CallError> {
        let request = ReleaseManyRequest { token: token.expose().into(), names: checked_names(names)? };
        self.call(&Outgoing::post("/v1/release".into(), &request), self.usual_pace()).await
    }

    /// Changes how many permits a lock has, while anybody holds some or waits for some. For operators.
    ///
    /// # Errors
    /// `no_limit` means that nobody does.
    pub async fn set_limit(&self, name: &str, limit: u32) -> Result<Answer<LimitSet>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("limit"));
        let request = SetLimitRequest { limit: limit.into() };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// Looks at a lock. A name that was never used is a free lock.
    ///
    /// # Errors
    /// As every call.
    pub async fn get(&self, name: &str, consistency: Consistency) -> Result<Answer<Lock>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), None);
        let query = query([("consistency", consistency.as_query())]);
        self.call(&Outgoing::get(path + &query), self.usual_pace()).await
    }

    /// Lists the locks that somebody holds or waits for, by name.
    ///
    /// # Errors
    /// As every call.
    pub async fn list(&self, page: &Page, consistency: Consistency) -> Result<Answer<LockList>, CallError> {
        let query = query([
            ("prefix", page.prefix.clone()),
            ("after", page.after.clone()),
            ("limit", page.limit.map(|limit| limit.to_string())),
            ("consistency", consistency.as_query()),
        ]);
        self.call(&Outgoing::get(format!("/v1/locks{query}")), self.usual_pace()).await
    }

    /// The cluster, as the node that answers sees it.
    ///
    /// # Errors
    /// As every call.
    pub async fn cluster(&self) -> Result<Answer<Cluster>, CallError> {
        self.call(&Outgoing::get("/v1/cluster".into()), self.usual_pace()).await
    }

    /// Whether the node at an endpoint says that it serves.
    pub(crate) async fn is_ready(&self, at: usize, within: Duration) -> bool {
        let url = self.endpoints().get(at).url("/readyz");
        let answer = self.transport().exchange(url, &Outgoing::get(String::new()), within).await;
        // Whatever else a proxy makes of this path is no reason to leave the node behind it.
        answer.is_ok_and(|incoming| incoming.status < 500)
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.inner.endpoints
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    /// The clock that leases are measured with.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    pub(crate) fn usual_pace(&self) -> Pace {
        Pace::usual(self.after(self.timeout()))
    }

    pub(crate) fn after(&self, span: Duration) -> Moment {
        self.clock().now().after(span)
    }
}

fn checked_names(names: Option<&[&str]>) -> Result<Option<Vec<String>>, CallError> {
    let checked = |name: &&str| checked_name(name).map(|name| name.as_str().to_owned());
    names.map(|names| names.iter().map(checked).collect()).transpose()
}

impl Consistency {
    pub(crate) fn as_query(self) -> Option<String> {
        match self {
            Self::Linearizable => None,
            Self::Stale => Some("stale".into()),
        }
    }
}

/// The query of those parameters that have a value; empty if none has.
pub(crate) fn query<const N: usize>(parameters: [(&str, Option<String>); N]) -> String {
    let given =
        parameters.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", query_value(&value?))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}
