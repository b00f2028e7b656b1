//! One client: one process of the history.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{AcquireRequest, ForceReleaseRequest, ReleaseRequest, RenewRequest, SetLimitRequest};
use holdfast_client::fresh_token;
use holdfast_history::{Answer, Code, Mode, Outcome, Refusal, Request};
use hyper::Method;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use super::answer::outcome_of;
use super::connection::{Connection, Endpoint};
use super::holding::{Holding, Wish};
use super::recorder::Recorder;
use crate::args::ChaosArgs;

const TTLS_MS: [u64; 4] = [500, 1_000, 2_000, 3_000];
const WAITS_MS: [u64; 5] = [0, 0, 500, 2_000, 6_000];
/// A node answers within the wait and 5 s, whatever happens. Most clients have less patience.
const PATIENCES_MS: [u64; 4] = [700, 1_500, 1_500, 6_000];
/// Between two calls, at most.
const PAUSE_MAX_MS: u64 = 60;
/// How often an acquire whose outcome nobody knows is asked again.
const ASKED_AGAIN: u64 = 4;
/// What a node that cannot be reached costs.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(50);

/// A client with connections of its own.
pub(super) struct Client {
    name: Arc<str>,
    endpoints: Arc<[Endpoint]>,
    /// One for each node, while it is open.
    connections: Vec<Option<Connection>>,
    recorder: Arc<Recorder>,
    chance: SmallRng,
    /// Of this run alone.
    lock_prefix: String,
    locks: u64,
    attempts: u64,
    /// The limits of locks, as it was told last.
    limits: HashMap<Arc<str>, u32>,
}

/// What stays the same in all calls of an attempt.
struct Attempt {
    lock: Arc<str>,
    name: Arc<str>,
    token: String,
    ttl_ms: u64,
    wait_ms: u64,
    wish: Wish,
}

impl Client {
    /// `run` is the same for all clients of a run, and another for each run.
    pub(super) fn new(
        number: u64,
        run: &str,
        args: &ChaosArgs,
        endpoints: Arc<[Endpoint]>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            name: format!("c{number}").into(),
            connections: endpoints.iter().map(|_| None).collect(),
            endpoints,
            recorder,
            chance: SmallRng::seed_from_u64(args.seed.wrapping_mul(1_000).wrapping_add(number)),
            lock_prefix: format!("chaos-{run}"),
            locks: args.locks,
            attempts: 0,
            limits: HashMap::new(),
        }
    }

    /// Goes on until the end of its time.
    pub(super) async fn run(mut self, end: Instant) {
        while Instant::now() < end {
            let (lock, holding) = self.any_lock();
            if self.one_in(4) {
                self.read(&lock).await;
            } else if let Some(limit) = holding.new_limit(&mut self.chance) {
                self.set_limit(lock, limit).await;
            } else {
                self.attempt(lock, holding, end).await;
            }
            self.pause().await;
        }
    }

    /// One attempt from its first call to its end, or until it is forgotten.
    async fn attempt(&mut self, lock: Arc<str>, holding: Holding, end: Instant) {
        self.attempts += 1;
        let wish = holding.wish(self.limits.get(&lock).copied(), &mut self.chance);
        let attempt = Attempt {
            lock,
            name: format!("{}-{}", self.name, self.attempts).into(),
            token: fresh_token().expose().to_owned(),
            ttl_ms: self.pick(&TTLS_MS),
            wait_ms: self.pick(&WAITS_MS),
            wish,
        };
        if !self.acquire(&attempt, end).await {
            return;
        }
        for _ in 0..self.below(6) {
            self.pause().await;
            if !self.use_hold(&attempt).await {
                break;
            }
        }
        if self.one_in(5) {
            let away = attempt.ttl_ms + self.below(400);
            return tokio::time::sleep(Duration::from_millis(away)).await; // It runs out.
        }
        self.release(&attempt, end).await;
    }

    /// Asks again, with the same token and mostly elsewhere, while nobody knows. Whether the lock is held.
    async fn acquire(&mut self, attempt: &Attempt, end: Instant) -> bool {
        for _ in 0..ASKED_AGAIN {
            match self.call(self.acquire_request(attempt), Some(attempt)).await {
                Some(Outcome::Ok(_)) => return true,
                Some(Outcome::Refused(refusal)) if refusal.code != Code::NoLeader => {
                    self.learn(&attempt.lock, &refusal);
                    return false;
                }
                Some(Outcome::Refused(_) | Outcome::Unknown { .. }) | None if Instant::now() > end => {
                    return false;
                }
                Some(Outcome::Refused(_) | Outcome::Unknown { .. }) | None => self.pause().await,
            }
        }
        if self.one_in(2) {
            self.release(attempt, end).await;
        }
        false
    }

    /// Whoever named another limit than the one in force names that one from now on.
    fn learn(&mut self, lock: &Arc<str>, refusal: &Refusal) {
        if let Some(limit) = refusal.limit {
            self.limits.insert(lock.clone(), limit);
        }
    }

    fn acquire_request(&self, attempt: &Attempt) -> Request {
        let Wish { mode, limit, permits } = attempt.wish;
        Request::Acquire {
            lock: attempt.lock.clone(),
            attempt: attempt.name.clone(),
            owner: attempt.name.clone(),
            ttl_ms: attempt.ttl_ms,
            wait_ms: attempt.wait_ms,
            mode,
            limit,
            permits,
        }
    }

    /// Something that a holder may do. Whether it still holds the lock as far as it knows.
    async fn use_hold(&mut self, attempt: &Attempt) -> bool {
        let (lock, name) = (attempt.lock.clone(), attempt.name.clone());
        let request = match self.below(10) {
            0 => self.acquire_request(attempt),
            1..3 => Request::Read { lock },
            3 => Request::Renew { lock, attempt: name, ttl_ms: Some(self.pick(&TTLS_MS)) },
            4 => {
                let idle = self.below(attempt.ttl_ms);
                tokio::time::sleep(Duration::from_millis(idle)).await;
                Request::Renew { lock, attempt: name, ttl_ms: None }
            }
            _ => Request::Renew { lock, attempt: name, ttl_ms: None },
        };
        let is_read = matches!(request, Request::Read { .. });
        match self.call(request, Some(attempt)).await {
            Some(Outcome::Refused(refusal)) => is_read || !refusal.code.denies_hold(),
            Some(Outcome::Ok(_) | Outcome::Unknown { .. }) | None => true,
        }
    }

    /// Until it is known to be done, and one time in six once more.
    async fn release(&mut self, attempt: &Attempt, end: Instant) {
        for _ in 0..ASKED_AGAIN {
            let request = Request::Release { lock: attempt.lock.clone(), attempt: attempt.name.clone() };
            let is_settled = match self.call(request, Some(attempt)).await {
                Some(Outcome::Ok(Answer::Released { .. })) => true,
                Some(Outcome::Refused(refusal)) => refusal.code.denies_hold(),
                _ => false,
            };
            if Instant::now() > end || is_settled && !self.one_in(6) {
                return;
            }
            self.pause().await;
        }
    }

    /// Changes the limit of a lock, as an operator does.
    async fn set_limit(&mut self, lock: Arc<str>, limit: u32) {
        let request = Request::Limit { lock: lock.clone(), limit };
        if let Some(Outcome::Ok(_)) = self.call(request, None).await {
            self.limits.insert(lock, limit);
        }
    }

    async fn read(&mut self, lock: &Arc<str>) {
        // What comes of it is in the history.
        let _ = self.call(Request::Read { lock: lock.clone() }, None).await;
    }

    /// One call through any node. None if nothing was sent.
    async fn call(&mut self, request: Request, attempt: Option<&Attempt>) -> Option<Outcome> {
        let at = usize::try_from(self.below(self.endpoints.len() as u64)).expect("nodes are few");
        let Some(mut connection) = self.connection(at).await else {
            tokio::time::sleep(UNREACHABLE_PAUSE).await;
            return None;
        };
        let (method, path, body) = http_of(&request, attempt);
        let patience = self.patience(&request);
        let id = self.recorder.invoke(&self.name, &self.endpoints[at].url, request.clone());
        let exchange = connection.exchange(method, &path, body);
        let outcome = match tokio::time::timeout(patience, exchange).await {
            Ok(Ok((status, body))) => {
                self.connections[at] = Some(connection);
                outcome_of(&request, status, &body)
            }
            Ok(Err(why)) => Outcome::unknown(why),
            // The connection goes with its last user: the node sees the client hang up.
            Err(_) => Outcome::unknown(format!("hung up after {} ms", patience.as_millis())),
        };
        self.recorder.complete(id, outcome.clone());
        Some(outcome)
    }

    async fn connection(&mut self, at: usize) -> Option<Connection> {
        if let Some(mut connection) = self.connections[at].take()
            && connection.is_open().await
        {
            return Some(connection);
        }
        Connection::open(&self.endpoints[at]).await
    }

    /// One call in twelve is given up early.
    fn patience(&mut self, request: &Request) -> Duration {
        let wait_ms = match request {
            Request::Acquire { wait_ms, .. } => *wait_ms,
            _ => 0,
        };
        let patience_ms = match self.one_in(12) {
            true => self.below(wait_ms + 20),
            false => wait_ms + self.pick(&PATIENCES_MS),
        };
        Duration::from_millis(patience_ms)
    }

    async fn pause(&mut self) {
        let pause = self.below(PAUSE_MAX_MS);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    fn any_lock(&mut self) -> (Arc<str>, Holding) {
        let number = self.below(self.locks);
        (format!("{}-{number}", self.lock_prefix).into(), Holding::of_lock(number))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance.random_range(0..bound.max(1))
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick(&mut self, of: &[u64]) -> u64 {
        *of.choose(&mut self.chance).expect("there are some")
    }
}

/// Names of locks need no encoding here.
fn http_of(request: &Request, attempt: Option<&Attempt>) -> (Method, String, Vec<u8>) {
    let path = |action: &str| format!("/v1/locks/{}{action}", request.lock());
    let token = attempt.map(|attempt| attempt.token.clone()).unwrap_or_default();
    match request {
        Request::Acquire { owner, ttl_ms, wait_ms, mode, limit, permits, .. } => {
            let (owner, token) = (Some(owner.to_string()), Some(token));
            let (ttl_ms, wait_ms) = (Some(*ttl_ms), Some(*wait_ms));
            let mode = (*mode == Mode::Shared).then_some(holdfast_api::Mode::Shared);
            let (limit, permits) = (limit.map(u64::from), permits.map(u64::from));
            let body =
                AcquireRequest { owner, token, ttl_ms, wait_ms, mode, limit, permits, ..Default::default() };
            (Method::POST, path("/acquire"), json(&body))
        }
        Request::Renew { ttl_ms, .. } => {
            (Method::POST, path("/renew"), json(&RenewRequest { token, ttl_ms: *ttl_ms }))
        }
        Request::Release { .. } => {
            (Method::POST, path("/release"), json(&ReleaseRequest { token, done: false }))
        }
        Request::Read { .. } => (Method::GET, path(""), Vec::new()),
        Request::Limit { limit, .. } => {
            (Method::POST, path("/limit"), json(&SetLimitRequest { limit: u64::from(*limit) }))
        }
        Request::Force { fence, .. } => {
            let body = ForceReleaseRequest { fence: *fence, reason: "chaos".into(), by: None };
            (Method::POST, path("/force-release"), json(&body))
        }
    }
}

fn json(body: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("requests of the API have string keys only")
}
