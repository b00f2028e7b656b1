//! Waiting with transactions, as the recipe of etcd's own client library has it: each waiter puts a key of its own
//! under the lock's name, and waits until the key before its own is deleted.

use holdfast_bench::TargetError;

use super::duplex::Duplex;
use super::proto::{
    Compare, KeyValue, PutRequest, RangeRequest, Request, SortOrder, SortTarget, TxnRequest,
    WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use super::rpc::Rpc;
use super::session::Session;
use super::transactions::Held;

/// One client's place in a queue, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Opened by the first wait; all later ones share it.
    watch: Option<Duplex<WatchRequest, WatchResponse>>,
}

impl Queue {
    /// Takes a place and waits for the turn.
    pub(crate) async fn turn(
        &mut self,
        session: &Session,
        name: &str,
        owner: &str,
    ) -> Result<Held, TargetError> {
        let (own, first) = enter(session, name, owner).await?;
        if first == Some(own.revision) {
            return Ok(own);
        }
        while let Some((before, seen_at)) = before(&session.rpc, name, own.revision).await? {
            self.deletion(&session.rpc, before.key, seen_at + 1).await?;
        }
        Ok(own)
    }

    /// Waits until a key is deleted, from a revision on.
    async fn deletion(&mut self, rpc: &Rpc, key: Vec<u8>, start_revision: i64) -> Result<(), TargetError> {
        let create = WatchRequest { create: Some(WatchCreateRequest { key, start_revision }), cancel: None };
        let stream = match &mut self.watch {
            Some(stream) => {
                stream.ask(create).await?;
                stream
            }
            None => self.watch.insert(rpc.watch(create).await?),
        };
        loop {
            let answer = stream.answer().await?;
            if answer.events.iter().any(super::proto::Event::is_deletion) {
                let cancel = Some(WatchCancelRequest { watch_id: answer.watch_id });
                return stream.ask(WatchRequest { create: None, cancel }).await;
            }
        }
    }
}

/// Puts a key of this attempt's own. Returns it, and when the first key of the queue was created.
async fn enter(session: &Session, name: &str, owner: &str) -> Result<(Held, Option<i64>), TargetError> {
    let key = format!("{name}/{:x}", session.lease).into_bytes();
    let put = PutRequest { key: key.clone(), value: owner.into(), lease: session.lease };
    let answer = session.rpc.transact(TxnRequest {
        compare: vec![Compare::created_at(key.clone(), 0)],
        success: vec![Request::Put(put).into(), Request::Range(first_of(name)).into()],
        failure: Vec::new(),
    });
    let answer = answer.await?;
    if !answer.succeeded {
        return Err(TargetError::Refused("this client is in the queue already".into()));
    }
    let revision = answer.header.map_or(0, |header| header.revision);
    let ranges = answer.responses.into_iter().filter_map(|response| response.range);
    let first = ranges.flat_map(|range| range.kvs).next().map(|first| first.create_revision);
    Ok((Held { key, revision }, first))
}

fn first_of(name: &str) -> RangeRequest {
    RangeRequest { sort_order: SortOrder::Ascend.into(), ..all_of(name) }
}

/// The last key that was created before a revision, and the revision at which it was seen.
async fn before(rpc: &Rpc, name: &str, revision: i64) -> Result<Option<(KeyValue, i64)>, TargetError> {
    let last = RangeRequest {
        sort_order: SortOrder::Descend.into(),
        max_create_revision: revision - 1,
        ..all_of(name)
    };
    let answer = rpc.range(last).await?;
    let seen_at = answer.header.map_or(0, |header| header.revision);
    Ok(answer.kvs.into_iter().next().map(|key| (key, seen_at)))
}

/// One key of all that begin with the lock's name and a slash.
fn all_of(name: &str) -> RangeRequest {
    RangeRequest {
        key: format!("{name}/").into_bytes(),
        // The first key behind the prefix: a slash is followed by a zero.
        range_end: format!("{name}0").into_bytes(),
        limit: 1,
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}
