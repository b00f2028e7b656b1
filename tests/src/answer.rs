//! What came back from a node, as it was.

use std::time::Duration;

use hyper::HeaderMap;
use serde_json::Value;

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// HTTP headers.
    pub headers: HeaderMap,
    /// The body, if it is JSON; a text of it otherwise.
    pub body: Value,
    /// From before the request was sent until all of the answer was there.
    pub took: Duration,
}

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody listens, or the connection broke.
    Broken(String),
    /// The service owed an answer by now.
    Silent(Duration),
}

/// An answer, or why there was none.
pub type Reply = Result<Answer, NoAnswer>;

impl Answer {
    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// The stable error code; empty for a success.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// What the error says to people.
    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap_or_default()
    }

    /// Whether the client is asked to come back: nobody leads, or nobody knows.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.status, 503 | 504)
    }

    /// A success.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.is_ok(), "not a success: {} {}", self.status, self.body);
        self
    }

    /// The fence of a grant.
    ///
    /// # Panics
    /// If it is not a grant.
    #[track_caller]
    pub fn fence(&self) -> u64 {
        let fence = self.body["fence"].as_u64();
        fence.unwrap_or_else(|| panic!("not a grant: {} {}", self.status, self.body))
    }

    /// A number of milliseconds in it.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn millis(&self, field: &str) -> Duration {
        let ms = self.body[field].as_u64();
        Duration::from_millis(ms.unwrap_or_else(|| panic!("no {field}: {} {}", self.status, self.body)))
    }

    /// The fence of the holder of a lock; none if it is free.
    pub fn held_fence(&self) -> Option<u64> {
        self.body["holders"][0]["fence"].as_u64()
    }

    /// Owners in the queue of a lock, first come first.
    pub fn queue(&self) -> Vec<String> {
        let waiters = self.body["queue"].as_array().into_iter().flatten();
        waiters.filter_map(|waiter| waiter["owner"].as_str().map(str::to_owned)).collect()
    }
}
