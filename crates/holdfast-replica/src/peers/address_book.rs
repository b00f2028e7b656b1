//! Two addresses for a peer: the one that the cluster has stored, and one that the operator has listed.
//!
//! After a move of the whole cluster nobody answers where the stored addresses lead, so that nobody can be told the new
//! ones either. Then the listed ones are tried. Whoever answers there has to show that it is the node that was meant: a
//! list that is out of date does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};

use crate::world::{CallError, CallKind, NodeId, PeerAddress, PeerLane, Transport};

/// Calls peers at one of their two addresses: the other one whenever a call did not get through.
pub struct AddressBook {
    transport: Arc<dyn Transport>,
    listed: BTreeMap<NodeId, String>,
    /// Whom not to look for at the stored address now.
    elsewhere: Arc<Mutex<BTreeSet<(PeerAddress, PeerLane)>>>,
}

impl AddressBook {
    /// With the addresses that the operator has listed.
    pub fn new(transport: Arc<dyn Transport>, listed: BTreeMap<NodeId, String>) -> Self {
        Self { transport, listed, elsewhere: Arc::default() }
    }
}

impl Transport for AddressBook {
    fn call(
        &self,
        to: &PeerAddress,
        lane: PeerLane,
        kind: CallKind,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let Some(listed) = self.listed.get(&to.node).filter(|listed| **listed != to.addr) else {
            return self.transport.call(to, lane, kind, body, timeout);
        };
        let key = (to.clone(), lane);
        let is_elsewhere = self.elsewhere.lock().expect("nothing panics with this lock held").contains(&key);
        let call = match is_elsewhere {
            true => {
                let to = PeerAddress { node: to.node, addr: listed.clone() };
                self.transport.call(&to, lane, kind, body, timeout)
            }
            false => self.transport.call(to, lane, kind, body, timeout),
        };
        let elsewhere = self.elsewhere.clone();
        async move {
            let answer = call.await;
            if let Err(CallError::NotSent(_)) = &answer {
                let mut elsewhere = elsewhere.lock().expect("nothing panics with this lock held");
                match is_elsewhere {
                    true => elsewhere.remove(&key),
                    false => elsewhere.insert(key),
                };
            }
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches whoever is at this address.
    struct OnlyAt(&'static str);

    impl Transport for OnlyAt {
        fn call(
            &self,
            to: &PeerAddress,
            _: PeerLane,
            _: CallKind,
            _: Bytes,
            _: Duration,
        ) -> BoxFuture<'static, Result<Bytes, CallError>> {
            let answer = match to.addr == self.0 {
                true => Ok(Bytes::from(to.addr.clone())),
                false => Err(CallError::NotSent("nobody is there".into())),
            };
            std::future::ready(answer).boxed()
        }
    }

    fn tries(reachable: &'static str, stored: &str) -> Vec<bool> {
        let book = AddressBook::new(Arc::new(OnlyAt(reachable)), BTreeMap::from([(2, "listed:1".into())]));
        let to = PeerAddress { node: 2, addr: stored.into() };
        let ask = |_| {
            let call =
                book.call(&to, PeerLane::Forward, CallKind::Status, Bytes::new(), Duration::from_secs(1));
            call.now_or_never().expect("the transport is ready at once").is_ok()
        };
        (0..4).map(ask).collect()
    }

    #[test]
    fn the_listed_address_is_tried_where_the_stored_one_does_not_answer_and_the_other_way_round() {
        assert_eq!(tries("listed:1", "stored:1"), [false, true, true, true]);
        assert_eq!(tries("stored:1", "stored:1"), [true; 4]);
        assert_eq!(tries("nowhere:1", "stored:1"), [false; 4]);
        assert_eq!(tries("listed:1", "listed:1"), [true; 4]);
    }
}
