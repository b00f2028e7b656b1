//! Simulated clients: acquire, wait, renew, read, release, hang up, ask again elsewhere; and what they write down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_core::{AttemptKey, LockName, Metadata, Owner, Rejection, Ttl, Wait};
use holdfast_replica::handle::{Acquired, Attempt, CallFailure, Consistency, Unanswered};
use holdfast_replica::replica::Replica;
use holdfast_replica::world::{AsyncRuntime, NodeId};

use super::executor::{self, Nanos, below, local_now, now, one_in};
use super::network::Network;
use super::runtime::SimRuntime;

/// A replica of the simulation.
pub(crate) type SimReplica = Replica<SimRuntime>;

/// The replicas that run at present.
pub(crate) type Replicas = Arc<Mutex<BTreeMap<NodeId, SimReplica>>>;

/// What a client did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Acquire { wait_ms: u64 },
    Renew,
    Release,
    Read,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The attempt holds the lock with this fence.
    Granted(u64),
    Released(Option<u64>),
    /// The fence of whoever holds the lock.
    Seen(Option<u64>),
    Refused(Rejection),
    WaitTimeout,
    /// Nothing was done.
    NotDone,
    /// It may or may not have been done.
    Unknown,
}

/// One line of the history; times are true ones.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) client: u64,
    pub(crate) node: NodeId,
    pub(crate) lock: u64,
    pub(crate) attempt: u128,
    pub(crate) deed: Deed,
    pub(crate) ttl_ms: u64,
    pub(crate) invoked: Nanos,
    pub(crate) returned: Nanos,
    pub(crate) came: Came,
    /// Until when, on its own clock with its safety margin, the client believes that it holds the lock.
    pub(crate) believed_until: Option<Nanos>,
}

/// All that happened.
pub(crate) type History = Arc<Mutex<Vec<Line>>>;

/// One client.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) nodes: u64,
    pub(crate) network: Network,
    pub(crate) replicas: Replicas,
    pub(crate) history: History,
}

/// A client trusts nine tenths of its TTL: clocks may differ by a few in a hundred.
const TRUST_PERCENT: u64 = 90;
/// The longest that a client waits for an answer beyond its wait.
const CALL_PATIENCE: Duration = Duration::from_secs(6);

impl Client {
    fn replica(&self, node: NodeId) -> Option<SimReplica> {
        self.replicas.lock().expect("one thread").get(&node).cloned()
    }

    fn any_node(&self) -> NodeId {
        1 + below(self.nodes)
    }

    fn note(&self, line: Line) {
        executor::note(
            line.returned
                ^ (line.client << 40)
                ^ (line.node << 50)
                ^ line.ttl_ms
                ^ u64::try_from(line.attempt).unwrap_or(0),
        );
        self.history.lock().expect("one thread").push(line);
    }

    /// Runs `ask` on a node and brings its answer back. None if no answer comes; then nobody knows.
    async fn ask<T, F>(
        &self,
        node: NodeId,
        patience: Duration,
        ask: impl FnOnce(SimReplica) -> F + Send,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let me = self.id;
        let network = self.network.clone();
        let call = async {
            if !network.cross(me, node).await {
                std::future::pending::<()>().await;
            }
            let future = ask(self.replica(node)?);
            let (mut tell, told) = tokio::sync::oneshot::channel();
            executor::spawn_on(node, async move {
                // A client that hangs up drops its call.
                tokio::select! {
                    biased;
                    () = tell.closed() => {}
                    answer = future => { let _ = tell.send(answer); }
                }
            });
            let answer = told.await.ok()?;
            if !network.cross(node, me).await {
                std::future::pending::<()>().await;
            }
            Some(answer)
        };
        SimRuntime::timeout(patience, Box::pin(call)).await.ok().flatten()
    }

    /// One attempt to acquire, asked again elsewhere with the same token while nobody knows.
    async fn acquire(&self, lock: u64, attempt: u128, ttl_ms: u64, wait_ms: u64) -> Option<(u64, Nanos)> {
        for _ in 0..4 {
            let node = self.any_node();
            let (invoked, sent) = (now(), local_now());
            let wanted = Attempt {
                lock: name(lock),
                key: AttemptKey(attempt.to_be_bytes()),
                owner: Owner::new(&format!("client-{}", self.id)).expect("a short label"),
                ttl: Ttl::from_ms(ttl_ms).expect("within the limits"),
                wait: Wait::from_ms(wait_ms).expect("within the limits"),
                metadata: Metadata::default(),
                share: holdfast_core::Share::Exclusive,
            };
            let hangs_up_early = wait_ms > 0 && one_in(12);
            let patience = match hangs_up_early {
                true => Duration::from_millis(below(wait_ms)),
                false => Duration::from_millis(wait_ms) + CALL_PATIENCE,
            };
            let answer = self
                .ask(node, patience, |replica| async move {
                    replica.acquire(wanted).await.map(|(acquired, delivery)| {
                        delivery.delivered();
                        acquired
                    })
                })
                .await;
            let came = came_of_acquire(answer);
            let believed_until = match came {
                Came::Granted(_) => Some(self.believed(sent, ttl_ms)),
                _ => None,
            };
            let deed = Deed::Acquire { wait_ms };
            self.note(Line {
                client: self.id,
                node,
                lock,
                attempt,
                deed,
                ttl_ms,
                invoked,
                returned: now(),
                came: came.clone(),
                believed_until,
            });
            match came {
                Came::Granted(fence) => return Some((fence, sent)),
                Came::NotDone | Came::Unknown if !hangs_up_early || one_in(2) => {
                    SimRuntime::sleep(Duration::from_millis(10 + below(200))).await;
                }
                _ => return None,
            }
        }
        None
    }

    /// True time until which a lease asked for at `sent` (own clock) is trusted.
    fn believed(&self, sent: Nanos, ttl_ms: u64) -> Nanos {
        let trusted = ttl_ms * 1_000_000 * TRUST_PERCENT / 100;
        let left = (sent + trusted).saturating_sub(local_now());
        now() + executor::true_span(Duration::from_nanos(left))
    }

    async fn renew(&self, lock: u64, attempt: u128, ttl_ms: u64) -> bool {
        let node = self.any_node();
        let (invoked, sent) = (now(), local_now());
        let key = AttemptKey(attempt.to_be_bytes());
        let answer = self
            .ask(node, CALL_PATIENCE, |replica| async move { replica.renew(name(lock), key, None).await })
            .await;
        let came = match answer {
            None => Came::Unknown,
            Some(Ok(grant)) => Came::Granted(grant.fence.0),
            Some(Err(failure)) => came_of_failure(failure),
        };
        let holds = matches!(came, Came::Granted(_));
        let believed_until = holds.then(|| self.believed(sent, ttl_ms));
        self.note_simple(lock, attempt, Deed::Renew, (node, invoked), came, believed_until, ttl_ms);
        holds
    }

    async fn release(&self, lock: u64, attempt: u128) {
        for _ in 0..3 {
            let node = self.any_node();
            let invoked = now();
            let key = AttemptKey(attempt.to_be_bytes());
            let answer = self
                .ask(node, CALL_PATIENCE, |replica| async move { replica.release(name(lock), key).await })
                .await;
            let came = match answer {
                None => Came::Unknown,
                Some(Ok(fence)) => Came::Released(fence.map(|fence| fence.0)),
                Some(Err(failure)) => came_of_failure(failure),
            };
            let is_over = !matches!(came, Came::Unknown | Came::NotDone);
            self.note_simple(lock, attempt, Deed::Release, (node, invoked), came, None, 0);
            if is_over && !one_in(10) {
                return; // One in ten says it again.
            }
            SimRuntime::sleep(Duration::from_millis(below(300))).await;
        }
    }

    async fn read(&self, lock: u64) {
        let node = self.any_node();
        let invoked = now();
        let answer = self
            .ask(node, CALL_PATIENCE, |replica| async move {
                let look = move |table: &holdfast_core::LockTable, now| {
                    table.view(&name(lock), now).holders.first().map(|holder| holder.fence.0)
                };
                replica.read(Consistency::Linearizable, look).await
            })
            .await;
        let came = match answer {
            Some(Ok(fence)) => Came::Seen(fence),
            Some(Err(_)) | None => Came::Unknown,
        };
        self.note_simple(lock, 0, Deed::Read, (node, invoked), came, None, 0);
    }

    #[allow(clippy::too_many_arguments, reason = "a line of the history has as many columns")]
    fn note_simple(
        &self,
        lock: u64,
        attempt: u128,
        deed: Deed,
        (node, invoked): (NodeId, Nanos),
        came: Came,
        believed_until: Option<Nanos>,
        ttl_ms: u64,
    ) {
        let (client, returned) = (self.id, now());
        self.note(Line {
            client,
            node,
            lock,
            attempt,
            deed,
            ttl_ms,
            invoked,
            returned,
            came,
            believed_until,
        });
    }

    fn new_attempt(&self) -> u128 {
        (u128::from(self.id) << 64) | u128::from(below(u64::MAX))
    }

    /// Works on a few locks until this time.
    pub(crate) async fn run(self, locks: u64, until: Nanos) {
        while now() < until {
            let lock = below(locks);
            if one_in(4) {
                self.read(lock).await;
            }
            let ttl_ms = [400, 1_000, 2_500][usize::try_from(below(3)).expect("below three")];
            let wait_ms = [0, 0, 800, 4_000][usize::try_from(below(4)).expect("below four")];
            let attempt = self.new_attempt();
            if let Some((_, _)) = self.acquire(lock, attempt, ttl_ms, wait_ms).await {
                let mut holds = true;
                for _ in 0..below(4) {
                    SimRuntime::sleep(Duration::from_millis(below(ttl_ms / 2))).await;
                    if holds && one_in(2) {
                        holds = self.renew(lock, attempt, ttl_ms).await;
                    }
                }
                if !one_in(4) {
                    self.release(lock, attempt).await;
                }
            } else {
                SimRuntime::sleep(Duration::from_millis(10 + below(100))).await;
            }
        }
    }

    /// Tries until it gets the lock; says when.
    pub(crate) async fn probe(self, lock: u64) -> Nanos {
        loop {
            let attempt = self.new_attempt();
            if self.acquire(lock, attempt, 1_000, 2_000).await.is_some() {
                return now();
            }
            SimRuntime::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The name of a numbered lock.
pub(crate) fn name(lock: u64) -> LockName {
    LockName::new(&format!("lock-{lock}")).expect("a short name")
}

fn came_of_acquire(answer: Option<Result<Acquired, CallFailure>>) -> Came {
    match answer {
        None => Came::Unknown,
        Some(Ok(Acquired::Granted(grant))) => Came::Granted(grant.fence.0),
        Some(Ok(Acquired::WaitTimeout)) => Came::WaitTimeout,
        Some(Ok(Acquired::Ended(rejection))) => Came::Refused(rejection),
        Some(Err(failure)) => came_of_failure(failure),
    }
}

fn came_of_failure(failure: CallFailure) -> Came {
    match failure {
        CallFailure::Rejected(rejection) => Came::Refused(rejection),
        CallFailure::Unanswered(Unanswered::UnknownOutcome(_)) => Came::Unknown,
        CallFailure::Unanswered(_) => Came::NotDone,
    }
}
