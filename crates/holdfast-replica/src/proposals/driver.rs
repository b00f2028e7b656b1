//! The one task that all commands of a node go through.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft_rt::Instant as _;
use tokio::sync::{Semaphore, mpsc};

use super::{
    BATCHES_IN_FLIGHT_MAX, GROUP_BYTES_MAX, GROUP_LEN_MAX, GROUPS_IN_FLIGHT_MAX, LEADERLESS_PATIENCE,
    Pending, ProposalStats, Proposals, QUEUE_LEN_MAX, Request,
};
use crate::consensus::Raft;
use crate::leadership::{Leader, Leadership, Leading};
use crate::tasks::Closing;
use crate::world::{PeerAddress, Runtime, Transport};

/// How long the driver waits before it looks again for a leader.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const OTHER_TERM: &str = "this node does not lead in that term any more";

/// Groups and forwards commands.
pub(crate) struct Driver<R: Runtime> {
    queue: mpsc::Receiver<Request<R>>,
    /// Commands that come back for another try.
    returned: mpsc::UnboundedReceiver<Vec<Pending<R>>>,
    /// Taken and not yet under way, oldest first.
    backlog: VecDeque<Pending<R>>,
    wants_tick: bool,
    pub(super) paths: Paths<R>,
    groups: Arc<Semaphore>,
    batches: Arc<Semaphore>,
}

/// What the ways out of the driver need.
pub(super) struct Paths<R: Runtime> {
    pub(super) raft: Raft<R>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) leadership: Arc<Leadership<R>>,
    pub(super) give_back: mpsc::UnboundedSender<Vec<Pending<R>>>,
    pub(super) stats: Arc<ProposalStats>,
}

impl<R: Runtime> Clone for Paths<R> {
    fn clone(&self) -> Self {
        Self {
            raft: self.raft.clone(),
            transport: self.transport.clone(),
            leadership: self.leadership.clone(),
            give_back: self.give_back.clone(),
            stats: self.stats.clone(),
        }
    }
}

impl<R: Runtime> Driver<R> {
    /// A driver and the way into it.
    pub(crate) fn new(
        raft: Raft<R>,
        transport: Arc<dyn Transport>,
        leadership: Arc<Leadership<R>>,
    ) -> (Proposals<R>, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_LEN_MAX);
        let (give_back, returned) = mpsc::unbounded_channel();
        let stats = Arc::new(ProposalStats::default());
        let proposals = Proposals { queue: sender, stats: stats.clone() };
        let driver = Self {
            queue,
            returned,
            backlog: VecDeque::new(),
            wants_tick: false,
            paths: Paths { raft, transport, leadership, give_back, stats },
            groups: Arc::new(Semaphore::new(GROUPS_IN_FLIGHT_MAX)),
            batches: Arc::new(Semaphore::new(BATCHES_IN_FLIGHT_MAX)),
        };
        (proposals, driver)
    }

    /// Works until the replica closes; then every command on its way is answered that this node closes.
    pub(crate) async fn run(mut self, closing: Closing) {
        while !closing.is_closed() {
            let step = self.step();
            if let openraft_rt::Select2::First(()) = R::select2(closing.closed(), step).await {
                break;
            }
        }
        self.queue.close();
        for pending in self.backlog.drain(..) {
            pending.fail("this node is shutting down");
        }
    }

    async fn step(&mut self) {
        if self.backlog.is_empty() && !self.wants_tick {
            self.wait_for_work().await;
        }
        self.gather();
        self.give_up_overdue();
        match self.paths.leadership.leader() {
            Leader::Me(leading) => self.propose_group(leading).await,
            Leader::Other(leader) => self.forward_batch(leader).await,
            Leader::Nobody(why) => self.wait_for_leader(why).await,
        }
        self.paths.stats.waiting.store(self.backlog.len() as u64, Ordering::Relaxed);
    }

    async fn wait_for_work(&mut self) {
        tokio::select! {
            biased;
            Some(returned) = self.returned.recv() => self.backlog.extend(returned),
            request = self.queue.recv() => match request {
                Some(request) => self.take(request),
                // Every way in is gone: the replica closes, and the caller of this step sees that.
                None => std::future::pending().await,
            },
        }
    }

    fn take(&mut self, request: Request<R>) {
        match request {
            Request::Command(pending) => self.backlog.push_back(pending),
            Request::Tick => self.wants_tick = true,
        }
    }

    /// Takes whatever has arrived meanwhile, up to a bound.
    fn gather(&mut self) {
        while let Ok(returned) = self.returned.try_recv() {
            for pending in returned.into_iter().rev() {
                self.backlog.push_front(pending);
            }
        }
        while self.backlog.len() < 2 * GROUP_LEN_MAX {
            match self.queue.try_recv() {
                Ok(request) => self.take(request),
                Err(_) => break,
            }
        }
    }

    fn give_up_overdue(&mut self) {
        let now = R::Instant::now();
        self.fail_where(|pending| pending.deadline <= now, "no answer came in time");
    }

    fn fail_where(&mut self, is_hopeless: impl Fn(&Pending<R>) -> bool, why: &str) {
        if !self.backlog.iter().any(&is_hopeless) {
            return;
        }
        for pending in std::mem::take(&mut self.backlog) {
            match is_hopeless(&pending) {
                true => pending.fail(why),
                false => self.backlog.push_back(pending),
            }
        }
    }

    async fn propose_group(&mut self, leading: Leading<R>) {
        let permit = self.groups.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.gather();
        self.fail_where(|pending| pending.only_in.is_some_and(|term| term != leading.term), OTHER_TERM);
        let group = self.take_group();
        let wants_tick = std::mem::take(&mut self.wants_tick);
        if !group.is_empty() || wants_tick {
            self.paths.clone().submit(leading, group, permit).await;
        }
    }

    async fn forward_batch(&mut self, leader: PeerAddress) {
        self.wants_tick = false;
        self.fail_where(|pending| pending.is_forwarded, "this node does not lead");
        if self.backlog.is_empty() {
            return;
        }
        let permit = self.batches.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.gather();
        self.fail_where(|pending| pending.only_in.is_some(), OTHER_TERM);
        self.fail_where(|pending| pending.is_forwarded, "this node does not lead");
        let batch = self.take_group();
        if !batch.is_empty() {
            let paths = self.paths.clone();
            drop(R::spawn(paths.forward(leader, batch, permit)));
        }
    }

    /// The next commands, as many as fit.
    fn take_group(&mut self) -> Vec<Pending<R>> {
        let mut bytes = 0;
        let mut len = 0;
        for pending in &self.backlog {
            if len == GROUP_LEN_MAX || bytes >= GROUP_BYTES_MAX {
                break;
            }
            bytes += pending.op.size();
            len += 1;
        }
        self.backlog.drain(..len).collect()
    }

    /// Nobody leads: forwarded commands go back at once, own ones wait a little.
    async fn wait_for_leader(&mut self, why: &'static str) {
        self.wants_tick = false;
        let now = R::Instant::now();
        let is_hopeless =
            |pending: &Pending<R>| pending.is_forwarded || pending.since + LEADERLESS_PATIENCE <= now;
        self.fail_where(is_hopeless, why);
        if !self.backlog.is_empty() {
            R::sleep(LOOK_AGAIN).await;
        }
    }
}
