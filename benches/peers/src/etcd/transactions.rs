//! Transactions: a key that is put if it is absent, and deleted if it is still the same.

use std::time::Duration;

use holdfast_bench::{LockClient, Settings, Target, TargetError};

use super::proto::{Compare, DeleteRangeRequest, PutRequest, Request, TxnRequest};
use super::queue::Queue;
use super::{Members, Session};

/// An etcd cluster whose clients use transactions, and watches where they wait.
#[derive(Clone, Debug)]
pub(crate) struct EtcdTransactions(pub(crate) Members);

impl Target for EtcdTransactions {
    type Client = TransactionClient;

    fn name(&self) -> &str {
        "etcd, transactions"
    }

    async fn connect(&self, settings: Settings) -> Result<TransactionClient, TargetError> {
        let session = self.0.session(&settings).await?;
        Ok(TransactionClient { session, queue: Queue::default(), owner: settings.owner, held: None })
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct TransactionClient {
    session: Session,
    queue: Queue,
    owner: String,
    held: Option<Held>,
}

/// The key that stands for a hold, and the revision at which it was created: etcd's fence.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) key: Vec<u8>,
    pub(crate) revision: i64,
}

impl TransactionClient {
    async fn put_if_absent(&self, name: &str) -> Result<Held, TargetError> {
        let key = name.as_bytes().to_vec();
        let put =
            PutRequest { key: key.clone(), value: self.owner.clone().into(), lease: self.session.lease };
        let answer = self.session.rpc.transact(TxnRequest {
            compare: vec![Compare::created_at(key.clone(), 0)],
            success: vec![Request::Put(put).into()],
            failure: Vec::new(),
        });
        let answer = answer.await?;
        if !answer.succeeded {
            return Err(TargetError::Refused("the lock is held".into()));
        }
        Ok(Held { key, revision: answer.header.map_or(0, |header| header.revision) })
    }
}

impl LockClient for TransactionClient {
    async fn acquire(&mut self, name: &str, wait: Duration) -> Result<(), TargetError> {
        let held = if wait.is_zero() {
            self.put_if_absent(name).await?
        } else {
            let turn = self.queue.turn(&self.session, name, &self.owner);
            let late = |_| TargetError::Refused("the wait is over".into());
            tokio::time::timeout(wait, turn).await.map_err(late)??
        };
        self.held = Some(held);
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), TargetError> {
        self.session.renew().await
    }

    async fn release(&mut self) -> Result<(), TargetError> {
        let held = self.held.take().ok_or_else(|| TargetError::Refused("nothing is held".into()))?;
        let delete = DeleteRangeRequest { key: held.key.clone() };
        let answer = self.session.rpc.transact(TxnRequest {
            compare: vec![Compare::created_at(held.key, held.revision)],
            success: vec![Request::Delete(delete).into()],
            failure: Vec::new(),
        });
        if answer.await?.succeeded { Ok(()) } else { Err(TargetError::Refused("the lock was lost".into())) }
    }
}
