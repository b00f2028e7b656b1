//! One client's attempt to get a lock.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// One attempt: everything that stays the same when it is repeated.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The lock.
    pub lock: String,
    /// Its secret.
    pub token: String,
    fields: Map<String, Value>,
}

impl Attempt {
    /// An attempt with a token of its own, and the service's defaults otherwise.
    pub fn at(lock: impl Into<String>) -> Self {
        Self { lock: lock.into(), token: new_token(), fields: Map::new() }
    }

    /// Takes this token instead of one of its own.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = token.into();
        self
    }

    /// Says who it is.
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.with("owner", owner.into().into())
    }

    /// How long the lease lasts.
    #[must_use]
    pub fn ttl_ms(self, ttl_ms: u64) -> Self {
        self.with("ttl_ms", ttl_ms.into())
    }

    /// How long to wait for the lock.
    #[must_use]
    pub fn wait_ms(self, wait_ms: u64) -> Self {
        self.with("wait_ms", wait_ms.into())
    }

    /// The holder's own words.
    #[must_use]
    pub fn metadata(self, metadata: Value) -> Self {
        self.with("metadata", metadata)
    }

    /// Beside others that share the lock.
    #[must_use]
    pub fn shared(self) -> Self {
        self.with("mode", "shared".into())
    }

    /// Some of the lock's permits.
    #[must_use]
    pub fn permits(self, permits: u64, limit: u64) -> Self {
        self.with("permits", permits.into()).with("limit", limit.into())
    }

    /// Kept by a session.
    #[must_use]
    pub fn in_session(self, id: &str, token: &str) -> Self {
        self.with("session", id.into()).with("session_token", token.into())
    }

    /// Nobody is granted the lock for so long after a loss.
    #[must_use]
    pub fn delay_ms(self, delay_ms: u64) -> Self {
        self.with("delay_ms", delay_ms.into())
    }

    /// A release takes effect no earlier.
    #[must_use]
    pub fn min_hold_ms(self, min_hold_ms: u64) -> Self {
        self.with("min_hold_ms", min_hold_ms.into())
    }

    /// The hold is over then at the latest.
    #[must_use]
    pub fn max_hold_ms(self, max_hold_ms: u64) -> Self {
        self.with("max_hold_ms", max_hold_ms.into())
    }

    /// Only where it was not done within the period.
    #[must_use]
    pub fn once_ms(self, period_ms: u64) -> Self {
        self.with("once", json!({"period_ms": period_ms}))
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.fields.insert(field.into(), value);
        self
    }

    /// How long it waits.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.fields.get("wait_ms").and_then(Value::as_u64).unwrap_or(0))
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = self.fields.clone();
        body.insert("token".into(), json!(self.token));
        Value::Object(body)
    }
}

/// A new secret: 128 bits of randomness in hexadecimal.
///
/// # Panics
/// Without randomness.
pub fn new_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    format!("{:032x}", u128::from_le_bytes(bytes))
}
