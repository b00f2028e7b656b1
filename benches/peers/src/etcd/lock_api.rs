//! The lock API: the members queue and watch on the client's behalf.

use std::time::Duration;

use holdfast_bench::{LockClient, Settings, Target, TargetError};

use super::proto::{LockRequest, UnlockRequest};
use super::{Members, Session};

/// An etcd cluster whose clients call `Lock` and `Unlock`.
#[derive(Clone, Debug)]
pub(crate) struct EtcdLockApi(pub(crate) Members);

impl Target for EtcdLockApi {
    type Client = LockApiClient;

    fn name(&self) -> &str {
        "etcd, lock API"
    }

    async fn connect(&self, settings: Settings) -> Result<LockApiClient, TargetError> {
        Ok(LockApiClient { session: self.0.session(&settings).await?, key: Vec::new() })
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct LockApiClient {
    session: Session,
    /// What the last lock is given back by.
    key: Vec<u8>,
}

impl LockClient for LockApiClient {
    /// `Lock` always waits; the deadline is the client's.
    async fn acquire(&mut self, name: &str, wait: Duration) -> Result<(), TargetError> {
        let lock = self.session.rpc.lock(LockRequest { name: name.into(), lease: self.session.lease });
        let answer = if wait.is_zero() {
            lock.await?
        } else {
            let late = |_| TargetError::Refused("the wait is over".into());
            tokio::time::timeout(wait, lock).await.map_err(late)??
        };
        self.key = answer.key;
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), TargetError> {
        self.session.renew().await
    }

    async fn release(&mut self) -> Result<(), TargetError> {
        let key = std::mem::take(&mut self.key);
        self.session.rpc.unlock(UnlockRequest { key }).await.map(drop)
    }
}
