//! Simulated clients: acquire, wait, renew, read, release, hang up, vanish, ask again elsewhere, replay what is long over,
//! change limits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_core::{
    AttemptKey, HolderSummary, HolderView, Limit, Metadata, Owner, Rejection, Share, Ttl, Wait,
};
use holdfast_replica::handle::{Acquired, Attempt, CallFailure, Consistency, Unanswered};
use holdfast_replica::replica::Replica;
use holdfast_replica::world::{AsyncRuntime, NodeId};
use tokio::sync::oneshot;

use super::executor::{self, Nanos, WORLD, below, now, one_in, true_sleep};
use super::faults::{Moment, Place};
use super::holding::Holding;
use super::lines::{Came, Deed, History, Line, label, name};
use super::moments::Moments;
use super::network::Network;
use super::runtime::SimRuntime;
use super::sometimes::saw;

/// A replica of the simulation.
pub(crate) type SimReplica = Replica<SimRuntime>;

/// The replicas that run at present.
pub(crate) type Replicas = Arc<Mutex<BTreeMap<NodeId, SimReplica>>>;

/// What an attempt asks for: the same whenever it is repeated.
#[derive(Clone, Copy, Debug)]
struct Wish {
    lock: u64,
    attempt: AttemptKey,
    ttl_ms: u64,
    wait_ms: u64,
    share: Share,
}

impl Wish {
    /// For calls that belong to no attempt.
    fn of_nobody(lock: u64) -> Self {
        Self { lock, attempt: AttemptKey([0; 16]), ttl_ms: 0, wait_ms: 0, share: Share::Exclusive }
    }
}

/// One client.
pub(crate) struct Client {
    id: u64,
    nodes: u64,
    network: Network,
    moments: Moments,
    replicas: Replicas,
    history: History,
    attempts: u16,
    /// A copy of the call that is under way is still on its way.
    is_doubled: AtomicBool,
    /// Wishes that are over, for replays.
    old: Vec<Wish>,
    /// The limits of locks, as it was told last.
    limits: BTreeMap<u64, u32>,
}

/// The longest that a client waits for an answer beyond its wait.
const CALL_PATIENCE: Duration = Duration::from_secs(6);
/// A connection that is closed says so again and again, for a while.
const FIN_TRIES: u64 = 40;
const FIN_AGAIN: Duration = Duration::from_millis(200);

/// The client's end of a connection with a call on it. When it is dropped, word of it travels to the node as a message
/// does: behind a cut the node goes on waiting.
struct Connection {
    network: Network,
    client: u64,
    node: NodeId,
    hang_up: Option<oneshot::Sender<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(hang_up) = self.hang_up.take() else { return };
        let (network, client, node) = (self.network.clone(), self.client, self.node);
        executor::spawn_on(WORLD, async move {
            for _ in 0..FIN_TRIES {
                if network.cross(client, node).await {
                    break;
                }
                true_sleep(FIN_AGAIN).await;
            }
            drop(hang_up);
        });
    }
}

/// Why a call brought no answer.
enum Mute {
    /// Nobody took the connection.
    NotConnected,
    Lost,
}

impl Client {
    pub(crate) fn new(
        id: u64,
        nodes: u64,
        network: Network,
        moments: Moments,
        replicas: Replicas,
        history: History,
    ) -> Self {
        Self {
            id,
            nodes,
            network,
            moments,
            replicas,
            history,
            attempts: 0,
            is_doubled: AtomicBool::new(false),
            old: Vec::new(),
            limits: BTreeMap::new(),
        }
    }

    fn any_node(&self) -> NodeId {
        1 + below(self.nodes)
    }

    /// An attempt of its own. The first four bytes say whose and which it is.
    fn new_attempt(&mut self) -> AttemptKey {
        self.attempts += 1;
        let mut key = [0; 16];
        let id = u16::try_from(self.id).expect("clients have small numbers");
        key[..2].copy_from_slice(&id.to_be_bytes());
        key[2..4].copy_from_slice(&self.attempts.to_be_bytes());
        AttemptKey(key)
    }

    /// Runs `ask` on a node and brings its answer back.
    async fn ask<T, F>(
        &self,
        node: NodeId,
        patience: Duration,
        ask: impl Fn(SimReplica) -> F + Send + Sync + 'static,
    ) -> Result<T, Mute>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (me, network, replicas) = (self.id, self.network.clone(), self.replicas.clone());
        let replica = move || replicas.lock().expect("one thread").get(&node).cloned();
        let call = async {
            if !network.cross(me, node).await {
                std::future::pending::<()>().await;
            }
            let future = ask(replica().ok_or(Mute::NotConnected)?);
            let (tell, told) = oneshot::channel();
            let (hang_up, hung_up) = oneshot::channel::<()>();
            executor::spawn_on(node, async move {
                tokio::select! {
                    biased;
                    _ = hung_up => {}
                    answer = future => { let _ = tell.send(answer); } // The client may have given up.
                }
            });
            let mut connection =
                Connection { network: network.clone(), client: me, node, hang_up: Some(hang_up) };
            let answer = told.await.map_err(|_| Mute::Lost)?;
            if let Some(hang_up) = connection.hang_up.take() {
                let _ = hang_up.send(()); // The answer is on its way: there is nobody to tell.
            }
            if !network.cross(node, me).await {
                std::future::pending::<()>().await;
            }
            if network.doubles() {
                self.is_doubled.store(true, Ordering::Relaxed);
                let late = ask(replica().ok_or(Mute::Lost)?);
                executor::spawn_on(node, async move {
                    true_sleep(Duration::from_millis(below(1_500))).await;
                    drop(late.await); // Its answer goes nowhere.
                });
            }
            Ok(answer)
        };
        SimRuntime::timeout(patience, Box::pin(call)).await.unwrap_or(Err(Mute::Lost))
    }

    /// One attempt to acquire, asked again elsewhere with the same token while nobody knows.
    async fn acquire(&self, wish: Wish) -> Came {
        let mut came = Came::NotDone;
        for _ in 0..4 {
            let hangs_up =
                (wish.wait_ms > 0 && one_in(8)).then(|| Duration::from_millis(below(wish.wait_ms)));
            came = self.acquire_once(wish, hangs_up).await;
            match came {
                // One in five gives up for good.
                Came::NotDone | Came::Unknown if !one_in(5) && (hangs_up.is_none() || one_in(2)) => {
                    // Some come back before word of their hanging up is there.
                    let pause = if one_in(2) { below(10) } else { 10 + below(200) };
                    SimRuntime::sleep(Duration::from_millis(pause)).await;
                }
                _ => break,
            }
        }
        came
    }

    async fn acquire_once(&self, wish: Wish, hangs_up: Option<Duration>) -> Came {
        let Wish { lock, attempt, ttl_ms, wait_ms, share } = wish;
        let node = self.any_node();
        let call = self.begin(node, wish, Deed::Acquire { wait_ms });
        let wanted = Attempt {
            lock: name(lock),
            key: attempt,
            owner: Owner::new(&label(&attempt)).expect("a short label"),
            ttl: Ttl::from_ms(ttl_ms).expect("within the limits"),
            wait: Wait::from_ms(wait_ms).expect("within the limits"),
            metadata: Metadata::default(),
            session: None,
            share,
            terms: holdfast_core::Terms::default(),
        };
        if hangs_up.is_some() {
            saw("a client hung up while it waited");
        }
        let patience = hangs_up.unwrap_or(Duration::from_millis(wait_ms) + CALL_PATIENCE);
        let moments = self.moments.clone();
        let answer = self
            .ask(node, patience, move |replica| {
                let (wanted, moments) = (wanted.clone(), moments.clone());
                async move {
                    let (acquired, delivery) = replica.acquire(wanted).await?;
                    delivery.delivered();
                    if matches!(acquired, Acquired::Granted(_)) {
                        moments.reach(Moment::ClientTold, Place::at(node)); // The answer is as good as gone.
                    }
                    Ok(acquired)
                }
            })
            .await;
        let came = came_of_acquire(answer);
        self.complete(call, came.clone());
        came
    }

    async fn renew(&self, wish: Wish) -> bool {
        let node = self.any_node();
        let call = self.begin(node, wish, Deed::Renew);
        let answer = self
            .ask(node, CALL_PATIENCE, move |replica| async move {
                replica.renew(name(wish.lock), wish.attempt, None).await
            })
            .await;
        let came = came_of(answer, |grant| Came::Granted(grant.fence.0, grant.expires_in_ms));
        let holds = matches!(came, Came::Granted(..));
        self.complete(call, came);
        holds
    }

    async fn release(&self, wish: Wish) {
        for _ in 0..3 {
            let came = self.release_once(wish).await;
            let is_over = !matches!(came, Came::Unknown | Came::NotDone);
            if is_over && !one_in(10) {
                return; // One in ten says it again.
            }
            SimRuntime::sleep(Duration::from_millis(below(300))).await;
        }
    }

    async fn release_once(&self, wish: Wish) -> Came {
        let node = self.any_node();
        let call = self.begin(node, wish, Deed::Release);
        let answer = self
            .ask(node, CALL_PATIENCE, move |replica| async move {
                replica.release(name(wish.lock), wish.attempt).await
            })
            .await;
        let came = came_of(answer, |fence| Came::Released(fence.map(|fence| fence.0)));
        self.complete(call, came.clone());
        came
    }

    async fn read(&self, lock: u64) {
        let node = self.any_node();
        let call = self.begin(node, Wish::of_nobody(lock), Deed::Read);
        let answer = self
            .ask(node, CALL_PATIENCE, move |replica| async move {
                let look = move |table: &holdfast_core::LockTable, now| {
                    let view = table.view(&name(lock), now);
                    let holders = view.holders.into_iter().map(|holder| {
                        let HolderView { owner, fence, expires_in_ms, share, .. } = holder;
                        (HolderSummary { owner, fence, expires_in_ms }, share)
                    });
                    let queue = view.queue.into_iter().map(|waiter| waiter.owner);
                    (holders.collect(), queue.collect())
                };
                replica.read(Consistency::Linearizable, look).await
            })
            .await;
        let came = match answer {
            Ok(Ok((holders, queue))) => Came::Seen(holders, queue),
            Ok(Err(_)) | Err(_) => Came::Unknown,
        };
        self.complete(call, came);
    }

    /// Changes the limit of a lock, as an operator does.
    async fn set_limit(&mut self, lock: u64, limit: u32) {
        let node = self.any_node();
        let call = self.begin(node, Wish::of_nobody(lock), Deed::SetLimit(limit));
        let wanted = Limit::new(limit.into()).expect("within the limits");
        let answer =
            self.ask(node, CALL_PATIENCE, move |replica| async move {
                replica.set_limit(name(lock), wanted).await
            })
            .await;
        let came = came_of(answer, |()| Came::LimitSet);
        if came == Came::LimitSet {
            self.limits.insert(lock, limit);
        }
        self.complete(call, came);
    }

    /// Whoever named another limit than the one in force names that one from now on.
    fn learn(&mut self, lock: u64, came: &Came) {
        if let Came::Refused(Rejection::LimitConflict { limit: Some(limit) }) = came {
            self.limits.insert(lock, *limit);
        }
    }

    /// Notes that a call begins; until it is complete nobody knows what comes of it.
    fn begin(&self, node: NodeId, wish: Wish, deed: Deed) -> usize {
        let Wish { lock, attempt, ttl_ms, share, .. } = wish;
        let line = Line {
            client: self.id,
            node,
            lock,
            attempt,
            share,
            deed,
            ttl_ms,
            invoked: now(),
            returned: Nanos::MAX,
            came: Came::Unknown,
        };
        let mut history = self.history.lock().expect("one thread");
        history.push(line);
        history.len() - 1
    }

    /// Notes what came of a call.
    fn complete(&self, call: usize, came: Came) {
        let mut history = self.history.lock().expect("one thread");
        if self.is_doubled.swap(false, Ordering::Relaxed) {
            // What the copy comes to, nobody will know.
            let copy = history[call].clone();
            history.push(copy);
        }
        let line = &mut history[call];
        (line.returned, line.came) = (now(), came);
        executor::tell(|| {
            let Line { client, node, lock, attempt, deed, invoked, returned, came, .. } = line;
            let took = returned.saturating_sub(*invoked) / 1_000;
            format!("client {client} at node {node}, {took} us: {deed:?} lock-{lock} {attempt:?} => {came:?}")
        });
    }

    fn new_wish(&mut self, lock: u64, holding: Holding) -> Wish {
        let is_patient = one_in(12);
        let wait_ms = if is_patient { 15_000 } else { pick(&[0, 800, 4_000]) };
        let ttl_ms = if one_in(if is_patient { 2 } else { 15 }) { 5_000 } else { pick(&[400, 1_000, 2_500]) };
        let share = holding.wish(self.limits.get(&lock).copied());
        Wish { lock, attempt: self.new_attempt(), ttl_ms, wait_ms, share }
    }

    /// Works on a few locks until this time.
    pub(crate) async fn run(mut self, holdings: Vec<Holding>, until: Nanos) {
        while now() < until {
            let lock = below(holdings.len() as u64);
            let holding = holdings[usize::try_from(lock).expect("few")];
            if let Some(limit) = holding.new_limit() {
                self.set_limit(lock, limit).await;
            }
            let wish = self.new_wish(lock, holding);
            if one_in(4) {
                self.read(wish.lock).await;
            }
            if one_in(6) {
                self.replay().await;
            }
            match self.acquire(wish).await {
                Came::Granted(..) => self.hold(wish, until).await,
                came => {
                    self.learn(lock, &came);
                    SimRuntime::sleep(Duration::from_millis(10 + below(100))).await;
                }
            }
            self.old.push(wish);
        }
    }

    /// What a holder does until it releases, vanishes or lets its lease run out. Once it is late it releases.
    async fn hold(&self, wish: Wish, until: Nanos) {
        if one_in(25) && now() < until {
            return SimRuntime::sleep(Duration::from_millis(1_000 + below(4_000))).await; // Nobody hears of it for a while.
        }
        let mut holds = true;
        for _ in 0..below(4) {
            if now() >= until {
                break;
            }
            // Some renew when it is just too late, or just in time.
            let pause = if one_in(8) { wish.ttl_ms } else { below(wish.ttl_ms / 2) };
            SimRuntime::sleep(Duration::from_millis(pause.min(3_000))).await;
            if holds && one_in(2) {
                holds = self.renew(wish).await;
            }
        }
        if now() >= until || !one_in(4) {
            self.release(wish).await;
        }
    }

    /// Sends an old request once more, as a middlebox or a forgotten process may do.
    async fn replay(&self) {
        let Some(at) = (!self.old.is_empty()).then(|| below(self.old.len() as u64)) else { return };
        let wish = self.old[usize::try_from(at).expect("few")];
        match below(3) {
            0 => drop(self.acquire_once(Wish { wait_ms: 0, ..wish }, None).await),
            1 => drop(self.renew(wish).await),
            _ => drop(self.release_once(wish).await),
        }
    }

    /// Waits in the queue until it gets the lock, holds it for a moment, and says when it got it.
    pub(crate) async fn probe(
        mut self,
        lock: u64,
        holding: Holding,
        wants_all: bool,
        tell: impl FnOnce(Nanos) + Send,
    ) {
        let wish = loop {
            let share = holding.wish_of_probe(self.limits.get(&lock).copied(), wants_all);
            let wish = Wish { lock, attempt: self.new_attempt(), ttl_ms: 1_000, wait_ms: 15_000, share };
            let came = self.acquire_once(wish, None).await;
            if matches!(came, Came::Granted(..)) {
                break wish;
            }
            self.learn(lock, &came);
            SimRuntime::sleep(Duration::from_millis(50)).await;
        };
        tell(now());
        SimRuntime::sleep(Duration::from_millis(50)).await;
        self.release(wish).await;
    }
}

fn pick(choices: &[u64]) -> u64 {
    choices[usize::try_from(below(choices.len() as u64)).expect("few")]
}

fn came_of_acquire(answer: Result<Result<Acquired, CallFailure>, Mute>) -> Came {
    came_of(answer, |acquired| match acquired {
        Acquired::Granted(grant) => Came::Granted(grant.fence.0, grant.expires_in_ms),
        Acquired::WaitTimeout => Came::WaitTimeout,
        Acquired::Ended(rejection) => Came::Refused(rejection),
    })
}

fn came_of<T>(answer: Result<Result<T, CallFailure>, Mute>, told: impl FnOnce(T) -> Came) -> Came {
    match answer {
        Err(Mute::Lost) => Came::Unknown,
        Err(Mute::NotConnected) => Came::NotDone,
        Ok(Ok(answer)) => told(answer),
        Ok(Err(CallFailure::Rejected(rejection))) => {
            if matches!(rejection, Rejection::LeaseExpired | Rejection::LeaseReleased) {
                saw("an old request was refused");
            }
            Came::Refused(rejection)
        }
        Ok(Err(CallFailure::Unanswered(Unanswered::UnknownOutcome(_)))) => Came::Unknown,
        Ok(Err(CallFailure::Unanswered(why))) => {
            if matches!(why, Unanswered::NoSpace(_)) {
                saw("a node refused new attempts for want of space");
            }
            Came::NotDone
        }
    }
}
