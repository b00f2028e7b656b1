//! One client of Holdfast.

use std::time::Duration;

use holdfast_api::{AcquireRequest, Grant, ReleaseRequest, Released, RenewRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::Connection;
use crate::target::{LockClient, Settings, TargetError};

/// A client with a connection of its own.
#[derive(Debug)]
pub struct HoldfastClient {
    connection: Connection,
    settings: Settings,
    /// The first half of all its tokens.
    secret: u64,
    /// The second half of the last one: attempts so far.
    attempts: u64,
    /// Of the lock that was acquired last.
    name: String,
}

impl HoldfastClient {
    pub(crate) fn new(connection: Connection, settings: Settings) -> Self {
        let secret = getrandom::u64().expect("the system gives random numbers");
        Self { connection, settings, secret, attempts: 0, name: String::new() }
    }

    /// Of the last attempt.
    fn token(&self) -> String {
        format!("{:016x}{:016x}", self.secret, self.attempts)
    }

    /// The load generator's names need no encoding.
    async fn call<T: DeserializeOwned>(
        &mut self,
        call: &str,
        body: &impl Serialize,
    ) -> Result<T, TargetError> {
        let path = format!("/v1/locks/{}/{call}", self.name);
        let body = serde_json::to_vec(body).expect("requests of the API have string keys only");
        let answer = self.connection.post(&path, body).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| TargetError::Refused(format!("unexpected answer: {error}")))
    }
}

impl LockClient for HoldfastClient {
    async fn acquire(&mut self, name: &str, wait: Duration) -> Result<(), TargetError> {
        self.attempts += 1;
        if self.name != name {
            name.clone_into(&mut self.name);
        }
        let request = AcquireRequest {
            owner: Some(self.settings.owner.clone()),
            token: Some(self.token()),
            ttl_ms: Some(millis(self.settings.ttl)),
            wait_ms: Some(millis(wait)),
            ..AcquireRequest::default()
        };
        self.call::<Grant>("acquire", &request).await.map(drop)
    }

    async fn renew(&mut self) -> Result<(), TargetError> {
        let request = RenewRequest { token: self.token(), ttl_ms: None };
        self.call::<Grant>("renew", &request).await.map(drop)
    }

    async fn release(&mut self) -> Result<(), TargetError> {
        let request = ReleaseRequest { token: self.token(), done: false };
        self.call::<Released>("release", &request).await.map(drop)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
