//! etcd as a target, over gRPC, in the two ways in which it is used for locks.
//!
//! Each client has a lease of its own, as etcd's own sessions have; all that it acquires hangs on it, and renewing
//! means keeping that lease alive. The lease is granted when the client connects, before anything is measured.

mod duplex;
mod lock_api;
mod proto;
mod queue;
mod rpc;
mod session;
mod transactions;

use std::sync::Arc;

use holdfast_bench::{Placement, Settings, TargetError};

pub(crate) use self::lock_api::EtcdLockApi;
use self::rpc::Rpc;
use self::session::Session;
pub(crate) use self::transactions::EtcdTransactions;

/// The members that clients talk to. Each client has a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Members(Arc<[String]>);

impl Members {
    /// Takes the cluster with these client URLs, such as `http://127.0.0.1:2379`.
    pub(crate) async fn open(urls: &[String], placement: Placement) -> Result<Self, TargetError> {
        let members = match placement {
            Placement::All => urls.to_vec(),
            Placement::Leader => vec![leader(urls).await?],
        };
        if members.is_empty() {
            return Err(TargetError::Refused("at least one etcd endpoint is needed".into()));
        }
        Ok(Self(members.into()))
    }

    async fn session(&self, settings: &Settings) -> Result<Session, TargetError> {
        let rpc = Rpc::connect(&self.0[settings.number % self.0.len()]).await?;
        Session::grant(rpc, settings.ttl).await
    }
}

/// Asks every member whether it leads.
async fn leader(urls: &[String]) -> Result<String, TargetError> {
    for url in urls {
        if Rpc::connect(url).await?.leads().await? {
            return Ok(url.clone());
        }
    }
    Err(TargetError::Refused("none of the etcd endpoints leads".into()))
}
