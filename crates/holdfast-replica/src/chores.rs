//! What a replica does by itself: ticks, vouches, takes back unclaimed grants, runs errands, keeps the log short.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::planted::{Bug, planted};
use holdfast_core::{Fence, NodeId as CoreNodeId, Op};
use openraft::rt::WatchReceiver;
use openraft_rt::{Instant as _, Select2};
use tokio::sync::mpsc;

use crate::consensus::Raft;
use crate::handle::CALL_TIMEOUT;
use crate::log::Log;
use crate::node_store::SnapshotEntry;
use crate::replica::Inner;
use crate::space::SPACE_BYTES_MIN;
use crate::tasks::Closing;
use crate::world::Runtime;

/// While anything is running, cluster time moves on at least this often, so that a new leader's clock starts near.
const TICK_EVERY_MS: u64 = 500;
/// The same while only periods of completed runs are running, which may be days: what a new leader lacks is little of
/// them, and an idle cluster hardly writes.
const TICK_SLOWLY_EVERY_MS: u64 = 10_000;
/// How often a node speaks for the clients that wait at it: four times within what its word is worth.
const VOUCH_EVERY: Duration = Duration::from_millis(500);
const CLAIM_CHECK_EVERY: Duration = Duration::from_millis(100);
/// A grant from the queue that nobody has asked about for so long is taken back.
///
/// Each node that has died with waiters at the head of a queue costs it this and a little more, one after the other, and
/// together they may cost 2 s. A living node asks within a round trip; if it is slower, its waiter keeps its place.
const CLAIM_PATIENCE: Duration = Duration::from_millis(500);

const WALL_CLOCK_EVERY: Duration = Duration::from_secs(2);
/// So far a leader's clock on the wall may be from what the others expect before it tells them, in milliseconds.
const WALL_CLOCK_DRIFT_MS: u64 = 2_000;

/// Sleeps, unless the replica closes. False if it does.
pub(crate) async fn pause<R: Runtime>(closing: &Closing, span: Duration) -> bool {
    matches!(R::select2(closing.closed(), R::sleep(span)).await, Select2::Second(()))
}

impl<R: Runtime> Inner<R> {
    /// Moves cluster time on while this node leads: at the next deadline, and every half second while one is set.
    pub(crate) async fn tick(&self, closing: Closing) {
        let mut progress = self.effects.progress.watch();
        while !closing.is_closed() {
            let seen = progress.take();
            let next_due = seen.next_due;
            let tick_every_ms = if seen.is_in_no_hurry { TICK_SLOWLY_EVERY_MS } else { TICK_EVERY_MS };
            let wait = match (self.leadership.leading(), next_due) {
                (Some(leading), Some(due)) => {
                    let now = leading.now();
                    if due <= now {
                        if planted(Bug::DeposedLeaderExpires) {
                            self.machine.expire_alone(now);
                        }
                        self.proposals.tick();
                        // The tick shows in the progress; should it get lost, this tries again.
                        Duration::from_millis(20)
                    } else {
                        Duration::from_millis((due.since(now)).min(tick_every_ms))
                    }
                }
                // Leadership shows in the progress: its first entry is applied.
                _ => Duration::from_millis(TICK_EVERY_MS),
            };
            let slept = R::select3(closing.closed(), progress.changed(), R::sleep(wait)).await;
            match slept {
                openraft_rt::Select3::First(()) => return,
                openraft_rt::Select3::Second(()) => {}
                openraft_rt::Select3::Third(()) if next_due.is_some() => self.proposals.tick(),
                openraft_rt::Select3::Third(()) => {}
            }
        }
    }

    /// Speaks for the clients that wait here, all of them at once.
    pub(crate) async fn vouch(&self, closing: Closing) {
        let vouch = Op::Vouch { node: CoreNodeId(self.node_id), boot: self.boot };
        while pause::<R>(&closing, VOUCH_EVERY).await {
            if self.effects.waiters.len() > 0 {
                let _ = self.proposals.propose(&vouch, VOUCH_EVERY * 2).await; // The next one follows anyway.
            }
        }
    }

    /// Tells the others what this node's clock on the wall shows, while it leads, and where they expect something else.
    pub(crate) async fn tell_wall_clock(&self, closing: Closing) {
        while pause::<R>(&closing, WALL_CLOCK_EVERY).await {
            let Some(leading) = self.leadership.leading() else { continue };
            let (now, shows) = (leading.now(), (self.wall_clock)());
            let expected = self.machine.look(|state| state.table.wall_clock(now));
            if expected.is_none_or(|expected| expected.abs_diff(shows) > WALL_CLOCK_DRIFT_MS) {
                let _ = self.proposals.propose(&Op::TellWallClock { unix_ms: shows }, CALL_TIMEOUT).await; // Or later.
            }
        }
    }

    /// Takes back grants from the queue that no node has asked about.
    pub(crate) async fn check_claims(&self, closing: Closing) {
        let mut first_seen: BTreeMap<Fence, R::Instant> = BTreeMap::new();
        while pause::<R>(&closing, CLAIM_CHECK_EVERY).await {
            let term = self.effects.progress.get().position.term;
            if planted(Bug::UnclaimedNeverTakenBack) {
                continue;
            }
            let open = self.effects.claims.open_in(term);
            let now = R::Instant::now();
            first_seen.retain(|fence, _| open.contains(fence));
            let Some(leading) = self.leadership.leading().filter(|leading| leading.term == term) else {
                continue;
            };
            for fence in open {
                let since = *first_seen.entry(fence).or_insert(now);
                if since + CLAIM_PATIENCE > now {
                    continue;
                }
                if let Some(lock) = self.effects.claims.revoke(fence, leading.term) {
                    tracing::info!(
                        fence = fence.0,
                        "nobody claimed a grant from the queue: it is taken back"
                    );
                    // In this term or never: a later leader knows nothing of it, and may confirm the grant. Without an
                    // answer nobody knows: it stays revoked here.
                    let (proposals, term) = (self.proposals.clone(), leading.term);
                    drop(R::spawn(async move {
                        proposals.propose_in(term, &Op::Unclaim { lock, fence }, CALL_TIMEOUT).await;
                    }));
                }
            }
        }
    }

    /// Proposes commands that nobody waits for.
    pub(crate) async fn run_errands(&self, mut errands: mpsc::UnboundedReceiver<Op>, closing: Closing) {
        loop {
            let op = match R::select2(closing.closed(), errands.recv()).await {
                Select2::Second(Some(op)) => op,
                _ => return,
            };
            let proposals = self.proposals.clone();
            // Each on its own: they go into one group. It ends with its deadline.
            drop(R::spawn(async move {
                let _ = proposals.propose(&op, CALL_TIMEOUT).await;
            }));
        }
    }

    /// Keeps the log short: a snapshot when it outgrows the last one, then a purge behind it.
    pub(crate) async fn keep_house(&self, closing: Closing) {
        while pause::<R>(&closing, self.housekeeping.every).await {
            let (index, bytes) = self.snapshots.newest();
            if self.log.bytes_since(index) > bytes.max(self.housekeeping.snapshot_log_bytes_min) {
                let _ = self.raft.trigger().snapshot().await; // Fails only when openraft has stopped.
            }
            if let Some(upto) = purge_point(&self.log, index, self.housekeeping.log_kept_bytes) {
                let _ = self.raft.trigger().purge_log(upto).await;
            }
            self.watch_space().await;
            self.finish_change().await;
            self.witness(index, bytes);
        }
    }

    /// Notes off the safety path what is durable here: a log that has lost it must not start.
    fn witness(&self, snapshot_index: u64, snapshot_bytes: u64) {
        let progress = self.effects.progress.get();
        match self.log.witness_point(progress.position.index) {
            Ok(Some(point)) => self.node_store.set_witness(point),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the log's witness is not told"),
        }
        let known = self.node_store.snapshots();
        let Some(file) = self.snapshots.newest_file() else { return };
        if known.first().is_some_and(|entry| entry.file == file) {
            return;
        }
        for stale in known.iter().skip(1) {
            self.node_store.remove_snapshot(&stale.file);
        }
        self.node_store.add_snapshot(SnapshotEntry {
            file,
            index: snapshot_index,
            bytes: snapshot_bytes,
            created_ms: progress.now.0,
        });
    }

    /// Below the mark nothing new is taken, and a leader lets another node lead.
    async fn watch_space(&self) {
        let Ok(free) = self.disk.free_bytes() else { return };
        let was_short = self.space.is_short();
        self.space.set_free(free);
        let is_short = self.space.is_short();
        if is_short && !was_short {
            tracing::error!(free, needed = SPACE_BYTES_MIN, "short of disk space: no new acquires are taken");
            // Once: the others may be no better off, and leadership must not go round.
            self.hand_over().await;
        } else if was_short && !is_short {
            tracing::info!(free, "there is disk space again");
        }
    }
}

/// The last entry that may go: covered by the snapshot, and enough is left behind it.
fn purge_point(log: &Log, snapshot_index: u64, kept_bytes: u64) -> Option<u64> {
    let first = log.first_index();
    if snapshot_index <= first || log.bytes_since(first) < 2 * kept_bytes {
        return None;
    }
    let (mut low, mut high) = (first, snapshot_index);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match log.bytes_since(middle) >= kept_bytes {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    (low > first).then_some(low)
}

/// Whether openraft still runs; its last words if not.
pub(crate) fn core_failure<R: Runtime>(raft: &Raft<R>) -> Option<String> {
    raft.metrics().borrow_watched().running_state.as_ref().err().map(ToString::to_string)
}
