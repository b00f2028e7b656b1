//! A connection with a lease, on which everything hangs that its client acquires.

use std::time::Duration;

use holdfast_bench::TargetError;

use super::duplex::Duplex;
use super::proto::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use super::rpc::Rpc;

/// One client's.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) rpc: Rpc,
    pub(crate) lease: i64,
    /// Opened by the first renewal.
    keep_alive: Option<Duplex<LeaseKeepAliveRequest, LeaseKeepAliveResponse>>,
}

impl Session {
    pub(crate) async fn grant(rpc: Rpc, ttl: Duration) -> Result<Self, TargetError> {
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        let lease = rpc.grant_lease(LeaseGrantRequest { ttl }).await?.id;
        Ok(Self { rpc, lease, keep_alive: None })
    }

    /// Keeps the lease alive once.
    pub(crate) async fn renew(&mut self) -> Result<(), TargetError> {
        let question = LeaseKeepAliveRequest { id: self.lease };
        let answer = match &mut self.keep_alive {
            Some(stream) => {
                stream.ask(question).await?;
                stream.answer().await?
            }
            None => self.keep_alive.insert(self.rpc.keep_alive(question).await?).answer().await?,
        };
        if answer.ttl > 0 { Ok(()) } else { Err(TargetError::Refused("the lease is over".into())) }
    }
}
