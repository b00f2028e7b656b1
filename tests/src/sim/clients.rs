//! Simulated clients: how they call, what they write down, and what each of them goes about.
//!
//! What they do with locks is in the files below, one for each [`Habit`].

mod connection;
mod elections;
mod force;
mod many;
mod nested;
mod sessions;
mod singly;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_core::{
    AttemptKey, LockName, Metadata, Owner, Rejection, Run, SessionKey, SessionRef, Share, Terms, Ttl, Wait,
};
use holdfast_replica::handle::{Acquired, Attempt, CallFailure, Unanswered};
use holdfast_replica::replica::Replica;
use holdfast_replica::world::{AsyncRuntime, NodeId};
use tokio::sync::oneshot;

use self::connection::Connection;
use super::executor::{self, Nanos, below, now, one_in, true_sleep};
use super::habit::Habit;
use super::holding::Holding;
use super::lines::{Came, Deed, History, Line, client_label, label, name};
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
    labelled: Labelled,
    ttl_ms: u64,
    wait_ms: u64,
    share: Share,
    /// What is to keep it, if it is to have no lease of its own.
    session: Option<SessionRef>,
    terms: Terms,
    /// What it says as a candidate.
    value: Option<u16>,
}

/// What stands on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labelled {
    /// A label of its own.
    Itself,
    /// That of its client: all attempts so labelled belong together.
    Client,
}

impl Wish {
    /// For calls that belong to no attempt.
    fn of_nobody(lock: u64) -> Self {
        Self {
            lock,
            attempt: AttemptKey([0; 16]),
            labelled: Labelled::Itself,
            ttl_ms: 0,
            wait_ms: 0,
            share: Share::Exclusive,
            session: None,
            terms: Terms::default(),
            value: None,
        }
    }

    fn name(&self) -> LockName {
        name(self.lock)
    }

    fn owner(&self) -> Owner {
        match self.labelled {
            Labelled::Itself => Owner::new(&label(&self.attempt)).expect("a short label"),
            Labelled::Client => {
                let client = u16::from_be_bytes([self.attempt.0[0], self.attempt.0[1]]);
                client_label(client.into())
            }
        }
    }

    fn ttl(&self) -> Ttl {
        Ttl::from_ms(self.ttl_ms).expect("within the limits")
    }

    fn wait(&self) -> Wait {
        Wait::from_ms(self.wait_ms).expect("within the limits")
    }

    /// Three of four who agree on a period complete their run.
    fn run(&self) -> Run {
        let completes = self.terms.period_ms().is_some() && !self.attempt.0[3].is_multiple_of(4);
        if completes { Run::Done } else { Run::Open }
    }

    fn attempt(&self) -> Attempt {
        Attempt {
            lock: self.name(),
            key: self.attempt,
            owner: self.owner(),
            ttl: self.ttl(),
            wait: self.wait(),
            metadata: value(self.value),
            session: self.session,
            share: self.share,
            terms: self.terms,
        }
    }
}

/// What a candidate says.
fn value(number: Option<u16>) -> Metadata {
    number.map_or_else(Metadata::default, |number| Metadata::new(&number.to_string()).expect("a short value"))
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
    /// Wishes that are over, for replays.
    old: Vec<Wish>,
    /// The limits of locks, as it was told last.
    limits: BTreeMap<u64, u32>,
}

/// The longest that a client waits for an answer beyond its wait.
const CALL_PATIENCE: Duration = Duration::from_secs(6);

/// A call that is under way.
struct Call {
    node: NodeId,
    /// Its lines of the history.
    lines: Range<usize>,
    /// A copy of it is still on its way.
    is_doubled: AtomicBool,
}

/// Why a call brought no answer.
enum Mute {
    /// Nobody took the connection.
    NotConnected,
    Lost,
}

/// What a call came to.
type Heard<T> = Result<Result<T, CallFailure>, Mute>;

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
            old: Vec::new(),
            limits: BTreeMap::new(),
        }
    }

    /// Does what it is used to until this time.
    pub(crate) async fn run(mut self, habit: Habit, holdings: Vec<Holding>, until: Nanos) {
        while now() < until {
            let habit = if one_in(4) { Habit::Singly } else { habit };
            match habit {
                Habit::Singly => self.use_one(&holdings, until).await,
                Habit::InSessions => self.use_session(&holdings, until).await,
                Habit::ManyAtOnce => self.use_many(&holdings, until).await,
                Habit::OneByOne => self.use_nested(&holdings, until).await,
            }
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

    fn new_wish(&mut self, lock: u64, holding: Holding) -> Wish {
        let is_patient = one_in(12);
        let wait_ms = if is_patient { 15_000 } else { pick(&[0, 800, 4_000]) };
        let ttl_ms = if one_in(if is_patient { 2 } else { 15 }) { 5_000 } else { pick(&[400, 1_000, 2_500]) };
        let share = holding.wish(self.limits.get(&lock).copied());
        let attempt = self.new_attempt();
        let (labelled, value) = match holding {
            Holding::Election => (Labelled::Client, Some(self.attempts)),
            Holding::Alone | Holding::ReadersAndWriters | Holding::Permits { .. } => (Labelled::Itself, None),
        };
        let (session, terms) = (None, Terms::default());
        Wish { lock, attempt, labelled, ttl_ms, wait_ms, share, session, terms, value }
    }

    /// Runs `ask` on the node of a call and brings its answer back.
    async fn ask<T, F>(
        &self,
        call: &Call,
        patience: Duration,
        ask: impl Fn(SimReplica) -> F + Send + Sync + 'static,
    ) -> Result<T, Mute>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (me, node, network) = (self.id, call.node, self.network.clone());
        let replicas = self.replicas.clone();
        let replica = move || replicas.lock().expect("one thread").get(&node).cloned();
        let asked = async {
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
                call.is_doubled.store(true, Ordering::Relaxed);
                let late = ask(replica().ok_or(Mute::Lost)?);
                executor::spawn_on(node, async move {
                    true_sleep(Duration::from_millis(below(1_500))).await;
                    drop(late.await); // Its answer goes nowhere.
                });
            }
            Ok(answer)
        };
        SimRuntime::timeout(patience, Box::pin(asked)).await.unwrap_or(Err(Mute::Lost))
    }

    /// Notes that a call begins; until it is complete nobody knows what comes of it.
    fn begin(&self, wish: Wish, deed: Deed) -> Call {
        self.begin_all(&[wish], &deed)
    }

    /// The same of a call that is about several locks.
    fn begin_all(&self, wishes: &[Wish], deed: &Deed) -> Call {
        let node = self.any_node();
        let mut history = self.history.lock().expect("one thread");
        let first = history.len();
        history.extend(wishes.iter().map(|wish| Line {
            client: self.id,
            node,
            lock: wish.lock,
            attempt: wish.attempt,
            owner: wish.owner(),
            session: wish.session,
            share: wish.share,
            deed: deed.clone(),
            ttl_ms: wish.ttl_ms,
            terms: wish.terms,
            invoked: now(),
            returned: Nanos::MAX,
            came: Came::Unknown,
        }));
        Call { node, lines: first..history.len(), is_doubled: AtomicBool::new(false) }
    }

    /// Notes what came of a call.
    fn complete(&self, call: &Call, came: &Came) {
        self.complete_each(call, |_| came.clone());
    }

    /// The same where it is told of each lock.
    fn complete_each(&self, call: &Call, came: impl Fn(&Line) -> Came) {
        let mut history = self.history.lock().expect("one thread");
        let is_doubled = call.is_doubled.load(Ordering::Relaxed);
        for at in call.lines.clone() {
            if is_doubled {
                // What the copy comes to, nobody will know.
                let copy = history[at].clone();
                history.push(copy);
            }
            let line = &mut history[at];
            (line.returned, line.came) = (now(), came(line));
            executor::tell(|| {
                let Line { client, node, lock, attempt, deed, invoked, returned, came, .. } = line;
                let took = returned.saturating_sub(*invoked) / 1_000;
                format!(
                    "client {client} at node {node}, {took} us: {deed:?} lock-{lock} {attempt:?} => {came:?}"
                )
            });
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
            let attempt = self.new_attempt();
            let wish = Wish { attempt, ttl_ms: 1_000, wait_ms: 15_000, share, ..Wish::of_nobody(lock) };
            let came = self.acquire_once(wish, None).await;
            if matches!(came, Came::Granted(..)) {
                break wish;
            }
            self.learn(lock, &came);
            pause_ms(50).await;
        };
        tell(now());
        pause_ms(50).await;
        self.release(wish).await;
    }
}

/// A lock of those that there are, and what it is used for.
fn any_lock(holdings: &[Holding]) -> (u64, Holding) {
    let lock = below(holdings.len() as u64);
    (lock, holdings[usize::try_from(lock).expect("few")])
}

/// The key of the session that an attempt's token would open.
fn session_key(attempt: AttemptKey) -> SessionKey {
    SessionKey(attempt.0)
}

fn pick(choices: &[u64]) -> u64 {
    choices[usize::try_from(below(choices.len() as u64)).expect("few")]
}

async fn pause_ms(ms: u64) {
    SimRuntime::sleep(Duration::from_millis(ms)).await;
}

fn came_of_acquire<G>(answer: Heard<Acquired<G>>, told: impl FnOnce(G) -> Came) -> Came {
    came_of(answer, |acquired| match acquired {
        Acquired::Granted(grant) => told(grant),
        Acquired::WaitTimeout => Came::WaitTimeout,
        Acquired::Ended(rejection) => Came::Refused(rejection),
    })
}

fn came_of<T>(answer: Heard<T>, told: impl FnOnce(T) -> Came) -> Came {
    match answer {
        Err(Mute::Lost) => Came::Unknown,
        Err(Mute::NotConnected) => Came::NotDone,
        Ok(Ok(answer)) => told(answer),
        Ok(Err(CallFailure::Rejected(rejection))) => {
            if rejection == Rejection::LeaseForced {
                saw("a forced holder was told so");
            }
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
