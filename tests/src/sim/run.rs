//! A run: nodes, clients, faults for a while, then none, and what must be true of all of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::cluster::{FIRST_CLIENT, World};
use super::executor::{self, MS, Nanos, Trace};
use super::faults::Fault;
use super::holding::Holding;
use super::invariants::{self, Violation, events};
use super::lines::Came;
use super::plan::Plan;
use super::sights;
use super::sometimes::{self, Sightings, saw};
use super::watchers::{self, SharedWatching, Watching};

/// The cluster forms undisturbed within this time.
const FORMING: Nanos = 1_200 * MS;
/// After the faults everything has to be well again within this time: a follower that needs a snapshot may have to wait
/// until TCP gives up a connection (10 s), and then the longest lease (5 s) may still be running.
pub(crate) const HEALING: Nanos = 16_000 * MS;
/// How often it is looked whether everything is well.
const LOOK_AGAIN: Nanos = 250 * MS;
/// Of those who wait for each lock once the faults are over.
const PROBES_PER_LOCK: u64 = 2;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What must not be.
    pub violations: Vec<Violation>,
    /// Everything that happened.
    pub trace: Trace,
    /// What was come across.
    pub sightings: Sightings,
    /// What it amounted to.
    pub extent: Extent,
}

/// What a run, or several, amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// Runs.
    pub runs: u64,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Replicas.
    pub nodes: u64,
    /// Calls that clients made.
    pub calls: u64,
    /// Calls whose outcome the client does not know.
    pub unknown: u64,
    /// Grants that clients were told of.
    pub grants: u64,
    /// Faults that were planned.
    pub faults: u64,
    /// Entries of the log.
    pub entries: u64,
    /// Steps of the scheduler.
    pub polls: u64,
}

impl std::ops::AddAssign for Extent {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.simulated_ms += other.simulated_ms;
        self.nodes += other.nodes;
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.grants += other.grants;
        self.faults += other.faults;
        self.entries += other.entries;
        self.polls += other.polls;
    }
}

/// Those who wait for a lock when the faults are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) lock: u64,
    pub(crate) asked: Nanos,
    pub(crate) granted: Option<Nanos>,
}

/// Runs a plan. Where the program panics, that is the violation.
pub fn simulate(plan: &Plan) -> Report {
    let ran = std::panic::catch_unwind(|| run(plan));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Violation::new("nothing panics", text.unwrap_or_default());
        executor::tell(|| format!("PANIC {violation}"));
        let trace = executor::abandon();
        Report { violations: vec![violation], trace, sightings: sometimes::take(), ..Report::default() }
    })
}

fn run(plan: &Plan) -> Report {
    executor::begin(plan.seed);
    #[cfg(feature = "planted-bugs")]
    holdfast_core::planted::set_wall_clock(wall_clock_ms);
    drop(sometimes::take());
    let mut world = World::new(plan);
    for node in 1..=plan.nodes {
        world.start(node);
    }
    world.advance(FORMING);
    let faults_end = FORMING + plan.faults_ms * MS;
    for (id, habit) in (FIRST_CLIENT..FIRST_CLIENT + plan.clients).zip(&plan.habits) {
        executor::spawn_on(id, world.client(id).run(*habit, plan.holdings(), faults_end));
    }
    let watchers = watchers::spawn(&world);
    for step in &plan.steps {
        world.agenda.insert((FORMING + step.at_ms * MS, world.agenda_number), step.fault.clone());
        world.agenda_number += 1;
    }
    see_plan(plan);
    world.advance(faults_end);
    world.heal();
    let probes = probe(&mut world, plan);
    let (watchers, last) = catch_up(&mut world, &watchers);
    world.note_digests();
    let mut report = judge(&world, plan, &probes, (&watchers, last));
    report.sightings = sometimes::take();
    report.trace = world.end(plan.clients + plan.locks * PROBES_PER_LOCK + PROBES_PER_LOCK);
    report.extent.polls = report.trace.polls;
    report
}

/// What the wall clock of the running node shows, for a planted bug that asks for it: no two are set alike.
#[cfg(feature = "planted-bugs")]
fn wall_clock_ms() -> u64 {
    executor::local_now() / MS + executor::running_on() * 1_700 % 4_000
}

fn see_plan(plan: &Plan) {
    if plan.nodes == 5 {
        saw("five nodes");
    }
    if plan.steps.iter().any(|step| matches!(step.fault, Fault::Pause { ms: 2_600.., .. })) {
        saw("a pause longer than a lease");
    }
}

/// Lets some wait for every lock, and for one that nobody has used, until all have had it or it takes too long.
fn probe(world: &mut World, plan: &Plan) -> Vec<Probe> {
    let begin = executor::now();
    let probes: Arc<Mutex<BTreeMap<u64, Probe>>> = Arc::default();
    let mut id = FIRST_CLIENT + plan.clients;
    let new_one = [Holding::Alone];
    for (lock, holding) in (0..).zip(plan.holdings().into_iter().chain(new_one)) {
        for number in 0..PROBES_PER_LOCK {
            let (me, probes) = (id, probes.clone());
            probes.lock().expect("one thread").insert(me, Probe { lock, asked: begin, granted: None });
            let granted = move |at| {
                if let Some(probe) = probes.lock().expect("one thread").get_mut(&me) {
                    probe.granted = Some(at);
                }
            };
            executor::spawn_on(me, world.client(me).probe(lock, holding, number == 0, granted));
            id += 1;
        }
    }
    while executor::now() < begin + HEALING {
        world.advance(executor::now() + LOOK_AGAIN);
        let is_well = probes.lock().expect("one thread").values().all(|probe| probe.granted.is_some());
        if is_well {
            break;
        }
    }
    // The last ones release, and followers catch up.
    world.advance(executor::now() + LOOK_AGAIN);
    let probes = probes.lock().expect("one thread");
    probes.values().cloned().collect()
}

/// Lets those who watch be told of all that has happened, until they have been or it takes too long. Gives the number of
/// the last event that they should have been told of.
fn catch_up(world: &mut World, watchers: &[SharedWatching]) -> (Vec<Watching>, u64) {
    let begin = executor::now();
    let last = world.journal.lock().events().last().map_or(0, |(_, event)| event.seq);
    loop {
        let watchers: Vec<Watching> =
            watchers.iter().map(|watching| watching.lock().expect("one thread").clone()).collect();
        let is_told = |watching: &Watching| events::is_caught_up(&world.journal.lock(), watching, last);
        if executor::now() >= begin + HEALING || watchers.iter().all(is_told) {
            return (watchers, last);
        }
        world.advance(executor::now() + LOOK_AGAIN);
    }
}

fn judge(world: &World, plan: &Plan, probes: &[Probe], (watchers, last): (&[Watching], u64)) -> Report {
    let (journal, lines) = (world.journal.lock(), world.history.lock().expect("one thread"));
    let mut report = Report::default();
    let failures = world.failures.lock().expect("one thread");
    report.violations.extend(failures.iter().map(|why| Violation::new("nodes stay up", why.clone())));
    let doubled = world.network.with(|links| links.doubled.clone());
    report.violations.extend(invariants::check(&journal, &lines, probes, &doubled, (watchers, last)));
    sights::note(&journal, watchers);
    report.extent = Extent {
        runs: 1,
        simulated_ms: executor::now() / MS,
        nodes: plan.nodes,
        calls: lines.len() as u64,
        unknown: lines.iter().filter(|line| line.came == Came::Unknown).count() as u64,
        grants: lines.iter().filter(|line| matches!(line.came, Came::Granted(..))).count() as u64,
        faults: plan.steps.len() as u64,
        entries: journal.entries.len() as u64,
        polls: 0,
    };
    report
}
