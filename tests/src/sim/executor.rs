//! The scheduler: one thread, virtual time, the next task drawn from the seed, nodes with clocks of their own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Simulated nodes and clients have numbers; the world itself, whose clock is true, is this one.
pub(crate) const WORLD: u64 = u64::MAX;

/// Nanoseconds since the beginning of the run; true time or a node's own.
pub(crate) type Nanos = u64;

/// A millisecond.
pub(crate) const MS: Nanos = 1_000_000;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock that runs at a rate of its own since it was last set.
#[derive(Clone, Copy, Debug)]
struct Clock {
    true_base: Nanos,
    local_base: Nanos,
    parts_per_million: u64,
}

impl Clock {
    const EXACT: Self = Self { true_base: 0, local_base: 0, parts_per_million: 1_000_000 };

    fn local(&self, now: Nanos) -> Nanos {
        let span = u128::from(now - self.true_base) * u128::from(self.parts_per_million) / 1_000_000;
        self.local_base + u64::try_from(span).expect("a run is shorter than centuries")
    }

    /// The true time at which this clock shows `local`, or the present if it has passed.
    fn true_time(&self, local: Nanos) -> Nanos {
        let span = u128::from(local.saturating_sub(self.local_base)) * 1_000_000;
        let span = span.div_ceil(u128::from(self.parts_per_million));
        self.true_base + u64::try_from(span).expect("a run is shorter than centuries")
    }
}

#[derive(Default)]
struct Node {
    clock: Option<Clock>,
    is_paused: bool,
    /// Tasks that became ready while it was paused.
    held: Vec<u64>,
}

impl Node {
    fn clock(&self) -> Clock {
        self.clock.unwrap_or(Clock::EXACT)
    }
}

struct TaskSlot {
    node: u64,
    /// None while it runs.
    task: Option<Task>,
    is_queued: bool,
    waker: Waker,
}

struct Scheduler {
    now: Nanos,
    next_task: u64,
    next_timer: u64,
    running_on: u64,
    tasks: BTreeMap<u64, TaskSlot>,
    ready: Vec<u64>,
    /// By (true time, number): node, local time, whom to wake.
    timers: BTreeMap<(Nanos, u64), (u64, Nanos, Waker)>,
    nodes: BTreeMap<u64, Node>,
    chance: SmallRng,
    /// What happened, for people, a line each.
    lines: String,
    /// A hash of every step.
    hash: u64,
    polls: u64,
    /// The world wants to act before the next step.
    is_interrupted: bool,
}

/// What a run leaves behind: equal, byte for byte, whenever the same plan runs again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What happened, a line each.
    pub lines: String,
    /// A hash of every step of the scheduler.
    pub hash: u64,
    /// How many steps there were.
    pub polls: u64,
}

impl Scheduler {
    fn new(seed: u64) -> Self {
        Self {
            now: 0,
            next_task: 0,
            next_timer: 0,
            running_on: WORLD,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            timers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            chance: SmallRng::seed_from_u64(seed),
            lines: String::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            polls: 0,
            is_interrupted: false,
        }
    }

    fn note(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn clock(&self, node: u64) -> Clock {
        self.nodes.get(&node).map_or(Clock::EXACT, Node::clock)
    }

    /// Draws the next task that may run.
    fn draw(&mut self) -> Option<(u64, Task, Waker)> {
        while !self.ready.is_empty() {
            let at = self.chance.random_range(0..self.ready.len());
            let id = self.ready.swap_remove(at);
            let Some(slot) = self.tasks.get_mut(&id) else { continue };
            let node = self.nodes.entry(slot.node).or_default();
            if node.is_paused {
                node.held.push(id);
                continue;
            }
            slot.is_queued = false;
            self.running_on = slot.node;
            let drawn = (id, slot.task.take().expect("a queued task is not running"), slot.waker.clone());
            self.polls += 1;
            let mark = id ^ self.now.rotate_left(17);
            self.note(mark);
            return Some(drawn);
        }
        None
    }

    /// Moves time to the next timer, not beyond `until`, and takes everybody who is due.
    fn next_due(&mut self, until: Nanos) -> Option<Vec<Waker>> {
        let at = self.timers.first_key_value()?.0.0;
        if at > until {
            return None;
        }
        self.now = self.now.max(at);
        let mut due = Vec::new();
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            due.push(entry.remove().2);
        }
        Some(due)
    }
}

thread_local! {
    static SCHEDULER: RefCell<Option<Scheduler>> = const { RefCell::new(None) };
}

fn with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> T {
    SCHEDULER.with(|slot| act(slot.borrow_mut().as_mut().expect("a run is under way on this thread")))
}

/// Like `with`, for destructors, which may run after the run.
fn try_with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> Option<T> {
    SCHEDULER.try_with(|slot| slot.try_borrow_mut().ok()?.as_mut().map(act)).ok().flatten()
}

struct TaskWaker(u64);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let id = self.0;
        try_with(|scheduler| {
            if let Some(slot) = scheduler.tasks.get_mut(&id)
                && !slot.is_queued
            {
                slot.is_queued = true;
                scheduler.ready.push(id);
            }
        });
    }
}

/// Begins a run on this thread; what was left of an earlier one is dropped.
pub(crate) fn begin(seed: u64) {
    let old = SCHEDULER.with(|slot| slot.borrow_mut().replace(Scheduler::new(seed)));
    drop(old);
}

/// Ends the run: all tasks are dropped.
pub(crate) fn end() -> Trace {
    let (tasks, timers, result) = with(|scheduler| {
        let lines = std::mem::take(&mut scheduler.lines);
        let result = Trace { lines, hash: scheduler.hash, polls: scheduler.polls };
        (std::mem::take(&mut scheduler.tasks), std::mem::take(&mut scheduler.timers), result)
    });
    drop((tasks, timers));
    let old = SCHEDULER.with(|slot| slot.borrow_mut().take());
    drop(old);
    result
}

/// Leaves a run whose program has panicked: what it leaves behind is in no state to be dropped.
pub(crate) fn abandon() -> Trace {
    let left = SCHEDULER.with(|slot| slot.borrow_mut().take());
    let trace =
        left.as_ref().map(|left| Trace { lines: left.lines.clone(), hash: left.hash, polls: left.polls });
    std::mem::forget(left);
    trace.unwrap_or_default()
}

/// True time.
pub(crate) fn now() -> Nanos {
    with(|scheduler| scheduler.now)
}

/// The time that the clock of the running node shows.
pub(crate) fn local_now() -> Nanos {
    with(|scheduler| scheduler.clock(scheduler.running_on).local(scheduler.now))
}

/// Which node is running.
pub(crate) fn running_on() -> u64 {
    with(|scheduler| scheduler.running_on)
}

/// A number below `bound`.
pub(crate) fn below(bound: u64) -> u64 {
    with(|scheduler| scheduler.chance.random_range(0..bound))
}

/// True once in `odds` times.
pub(crate) fn one_in(odds: u64) -> bool {
    below(odds) == 0
}

/// A fresh source of chance.
pub(crate) fn fork_chance() -> SmallRng {
    with(|scheduler| SmallRng::seed_from_u64(scheduler.chance.random()))
}

/// Makes a line part of the trace, with the time in front of it. Nothing without a run.
pub(crate) fn tell(line: impl FnOnce() -> String) {
    let line = line();
    let _ = try_with(|scheduler| {
        let now = scheduler.now;
        // A string takes whatever is written to it.
        let _ = writeln!(scheduler.lines, "{:>6}.{:06} {line}", now / MS, now % MS);
    });
}

/// Lets the world act once the running task has yielded.
pub(crate) fn interrupt() {
    with(|scheduler| scheduler.is_interrupted = true);
}

/// Lets others, and above all the world, go first.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Starts a task on a node; nothing if the run is over.
pub(crate) fn spawn_on(node: u64, task: impl Future<Output = ()> + Send + 'static) {
    let _ = try_with(|scheduler| {
        scheduler.next_task += 1;
        let id = scheduler.next_task;
        let waker = Waker::from(Arc::new(TaskWaker(id)));
        let slot = TaskSlot { node, task: Some(Box::pin(task)), is_queued: true, waker };
        scheduler.tasks.insert(id, slot);
        scheduler.ready.push(id);
    });
}

/// Ends all tasks of a node between two polls, as `kill -9` does.
pub(crate) fn kill(node: u64) {
    let dead = with(|scheduler| {
        let ids: Vec<u64> =
            scheduler.tasks.iter().filter(|(_, slot)| slot.node == node).map(|(id, _)| *id).collect();
        scheduler.ready.retain(|id| !ids.contains(id));
        let state = scheduler.nodes.entry(node).or_default();
        state.held.clear();
        state.is_paused = false;
        ids.iter().filter_map(|id| scheduler.tasks.remove(id)).collect::<Vec<_>>()
    });
    let before = with(|scheduler| std::mem::replace(&mut scheduler.running_on, node));
    drop(dead);
    with(|scheduler| scheduler.running_on = before);
}

/// Stops a node's tasks; its clock goes on.
pub(crate) fn pause(node: u64) {
    with(|scheduler| scheduler.nodes.entry(node).or_default().is_paused = true);
}

/// Lets a node's tasks go on.
pub(crate) fn resume(node: u64) {
    with(|scheduler| {
        let state = scheduler.nodes.entry(node).or_default();
        state.is_paused = false;
        let held = std::mem::take(&mut state.held);
        scheduler.ready.extend(held);
    });
}

/// Sets the rate of a node's clock, in millionths of true time.
pub(crate) fn set_rate(node: u64, parts_per_million: u64) {
    with(|scheduler| {
        let now = scheduler.now;
        let state = scheduler.nodes.entry(node).or_default();
        let local_base = state.clock().local(now);
        let clock = Clock { true_base: now, local_base, parts_per_million };
        state.clock = Some(clock);
        let moved: Vec<_> =
            scheduler.timers.iter().filter(|(_, timer)| timer.0 == node).map(|(key, _)| *key).collect();
        for key in moved {
            let timer = scheduler.timers.remove(&key).expect("it was listed a moment ago");
            scheduler.timers.insert((clock.true_time(timer.1).max(now), key.1), timer);
        }
    });
}

/// Runs until this true time; false if it stops before, because somebody has interrupted it.
pub(crate) fn run_until(until: Nanos) -> bool {
    loop {
        if with(|scheduler| std::mem::take(&mut scheduler.is_interrupted)) {
            return false;
        }
        if let Some((id, mut task, waker)) = with(Scheduler::draw) {
            match task.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(()) => {
                    let slot = with(|scheduler| scheduler.tasks.remove(&id));
                    drop((task, slot));
                }
                Poll::Pending => {
                    // A task may have been killed while it ran.
                    let orphan = with(|scheduler| match scheduler.tasks.get_mut(&id) {
                        Some(slot) => {
                            slot.task = Some(task);
                            None
                        }
                        None => Some(task),
                    });
                    drop(orphan);
                }
            }
            with(|scheduler| scheduler.running_on = WORLD);
            continue;
        }
        match with(|scheduler| scheduler.next_due(until)) {
            Some(due) => due.into_iter().for_each(Waker::wake),
            None => {
                with(|scheduler| scheduler.now = scheduler.now.max(until));
                return true;
            }
        }
    }
}

/// A sleep on the clock of the node that began it.
pub(crate) struct Sleep {
    node: u64,
    local: Nanos,
    number: u64,
    at: Option<Nanos>,
}

impl Sleep {
    pub(crate) fn until(local: Nanos) -> Self {
        with(|scheduler| {
            scheduler.next_timer += 1;
            Self { node: scheduler.running_on, local, number: scheduler.next_timer, at: None }
        })
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with(|scheduler| {
            let clock = scheduler.clock(self.node);
            if clock.local(scheduler.now) >= self.local {
                return Poll::Ready(());
            }
            if let Some(at) = self.at {
                scheduler.timers.remove(&(at, self.number));
            }
            let at = clock.true_time(self.local).max(scheduler.now + 1);
            self.at = Some(at);
            scheduler.timers.insert((at, self.number), (self.node, self.local, cx.waker().clone()));
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(at) = self.at else { return };
        let timer = try_with(|scheduler| scheduler.timers.remove(&(at, self.number)));
        drop(timer);
    }
}

/// A cell that the one thread of a run shares among its tasks.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

/// A sleep of this true length, whoever asks.
pub(crate) fn true_sleep(span: Duration) -> Sleep {
    let span = u64::try_from(span.as_nanos()).expect("a run is shorter than centuries");
    with(|scheduler| {
        scheduler.next_timer += 1;
        Sleep { node: WORLD, local: scheduler.now + span, number: scheduler.next_timer, at: None }
    })
}
