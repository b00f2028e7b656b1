//! A client as it should be: it tries all nodes, and repeats what got no answer, with the same token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::answer::{Answer, Reply};
use crate::attempt::Attempt;
use crate::client::{Client, encode_segment};
use crate::eventually::PATIENCE;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Hides node failures and leader changes from its user. Clones share the node that was good last.
#[derive(Clone, Debug)]
pub struct Roamer {
    clients: Vec<Client>,
    at: Arc<AtomicUsize>,
}

impl Roamer {
    /// Tries the clients in turn, beginning with the one at `first`.
    pub fn new(clients: Vec<Client>, first: usize) -> Self {
        Self { at: Arc::new(AtomicUsize::new(first % clients.len())), clients }
    }

    /// Acquires or is told why not.
    pub async fn acquire(&self, attempt: &Attempt) -> Answer {
        self.insist(Ask::Acquire(attempt)).await
    }

    /// Renews or is told why not.
    pub async fn renew(&self, attempt: &Attempt) -> Answer {
        self.insist(Ask::Renew(attempt)).await
    }

    /// Releases or is told why not.
    pub async fn release(&self, attempt: &Attempt) -> Answer {
        self.insist(Ask::Release(attempt)).await
    }

    /// Looks at a lock, linearizably.
    pub async fn lock(&self, name: &str) -> Answer {
        self.insist(Ask::Lock(name)).await
    }

    /// Posts JSON that is safe to repeat.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.insist(Ask::Post(path, body)).await
    }

    /// Reads what is behind a path.
    pub async fn get(&self, path: &str) -> Answer {
        self.insist(Ask::Get(path)).await
    }

    /// Everything whose name begins with `prefix`, page by page.
    pub async fn list(&self, prefix: &str) -> Vec<Value> {
        let (mut locks, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/locks?prefix={}&limit=1000{after}", encode_segment(prefix));
            let page = self.insist(Ask::Get(&path)).await.ok();
            locks.extend(page.body["locks"].as_array().into_iter().flatten().cloned());
            match page.body["next"].as_str() {
                Some(next) => after = format!("&after={}", encode_segment(next)),
                None => return locks,
            }
        }
    }

    /// Asks node after node until one has an answer.
    async fn insist(&self, ask: Ask<'_>) -> Answer {
        let deadline = Instant::now() + ask.wait() + PATIENCE;
        loop {
            let at = self.at.load(Ordering::Relaxed);
            let reply = ask.of(&self.clients[at]).await;
            match reply {
                Ok(answer) if !answer.is_unanswered() => return answer,
                _ => self.at.store((at + 1) % self.clients.len(), Ordering::Relaxed),
            }
            assert!(Instant::now() < deadline, "no node has an answer to {ask:?}; the last one: {reply:?}");
            sleep(PAUSE).await;
        }
    }
}

/// Everything that is safe to repeat.
#[derive(Clone, Copy, Debug)]
enum Ask<'a> {
    Acquire(&'a Attempt),
    Renew(&'a Attempt),
    Release(&'a Attempt),
    Lock(&'a str),
    Get(&'a str),
    Post(&'a str, &'a Value),
}

impl Ask<'_> {
    async fn of(self, client: &Client) -> Reply {
        match self {
            Self::Acquire(attempt) => client.acquire(attempt).await,
            Self::Renew(attempt) => client.renew(attempt).await,
            Self::Release(attempt) => client.release(attempt).await,
            Self::Lock(name) => client.lock(name).await,
            Self::Get(path) => client.get(path).await,
            Self::Post(path, body) => client.post(path, body, Duration::ZERO).await,
        }
    }

    fn wait(self) -> Duration {
        match self {
            Self::Acquire(attempt) => attempt.wait(),
            _ => Duration::ZERO,
        }
    }
}
