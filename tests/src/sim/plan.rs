//! What a run is: everything that will go wrong in it, drawn from the seed before it begins.
//!
//! A plan is data, so that a failing run can be tried again with fewer faults, fewer clients and less time.

use std::fmt;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::faults::{Aim, DiskTrouble, Fault, Moment, Who};
use super::habit::Habit;
use super::holding::Holding;

/// What kinds of faults a run draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All of them, mixed.
    Mixed,
    /// Power cuts, disks, snapshots.
    Storage,
    /// Partitions, loss, pauses, clocks.
    Network,
}

impl Profile {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Mixed, Self::Storage, Self::Network].into_iter().find(|profile| profile.to_string() == name)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mixed => "mixed",
            Self::Storage => "storage",
            Self::Network => "network",
        })
    }
}

/// A fault and when it happens, in milliseconds since the faults began.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its place in the plan that the seed draws: stays the same when others are left out.
    pub number: usize,
    /// When.
    pub at_ms: u64,
    /// What.
    pub(crate) fault: Fault,
}

/// Everything that a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of the scheduler, the network, the clients.
    pub seed: u64,
    /// The profile that it was drawn for.
    pub profile: Profile,
    /// Replicas.
    pub nodes: u64,
    /// Clients that use all locks at once.
    pub clients: u64,
    /// Locks.
    pub locks: u64,
    /// How long there are faults, in milliseconds.
    pub faults_ms: u64,
    /// The faults, in their order.
    pub steps: Vec<Step>,
    pub(crate) tuning: Tuning,
    /// Of each lock.
    pub(crate) holdings: Vec<Holding>,
    /// Of each client.
    pub(crate) habits: Vec<Habit>,
}

/// Sizes that are megabytes in service and have to come into play within seconds here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    pub(crate) snapshot_log_bytes: u64,
    pub(crate) log_kept_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) housekeeping_ms: u64,
}

/// What of a plan is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// The numbers of the steps that are kept; all if none are named.
    pub steps: Option<Vec<usize>>,
    /// At most so many clients.
    pub clients: Option<u64>,
    /// At most so many locks.
    pub locks: Option<u64>,
    /// Faults for so long at most, in milliseconds.
    pub faults_ms: Option<u64>,
}

impl fmt::Display for Reduction {
    /// As the command line has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(steps) = &self.steps {
            let numbers: Vec<String> = steps.iter().map(usize::to_string).collect();
            write!(f, " --steps {}", if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") })?;
        }
        if let Some(clients) = self.clients {
            write!(f, " --clients {clients}")?;
        }
        if let Some(locks) = self.locks {
            write!(f, " --locks {locks}")?;
        }
        if let Some(faults_ms) = self.faults_ms {
            write!(f, " --faults-ms {faults_ms}")?;
        }
        Ok(())
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, profile: Profile) -> Self {
        // Another stream than the scheduler's: what is left out of the plan must not change anything else.
        let mut draw =
            Draw { chance: SmallRng::seed_from_u64(seed ^ 0x0070_6c61_6e00), nodes: 3, clients: 0 };
        draw.nodes = if draw.one_in(4) { 5 } else { 3 };
        draw.clients = 3 + draw.below(6);
        let locks = 1 + draw.below(4);
        let is_long = draw.one_in(12);
        let faults_ms = if is_long { 40_000 } else { 6_000 + 1_000 * draw.below(15) };
        let tuning = Tuning {
            snapshot_log_bytes: [1_000, 4_000, 16_000][draw.index(3)],
            log_kept_bytes: [400, 1_500, 6_000][draw.index(3)],
            segment_bytes: [1_500, 6_000, 1 << 20][draw.index(3)],
            housekeeping_ms: 60 + draw.below(700),
        };
        let mut steps = Vec::new();
        let gambit_odds = if profile == Profile::Storage { 12 } else { 60 };
        let mut at_ms = draw.below(400);
        while at_ms < faults_ms {
            let faults = if draw.one_in(gambit_odds) {
                draw.two_candidates()
            } else {
                vec![draw.fault(profile, is_long)]
            };
            for fault in faults {
                steps.push(Step { number: steps.len(), at_ms, fault });
            }
            at_ms += if draw.one_in(6) { 1_500 + draw.below(2_500) } else { 30 + draw.below(900) };
        }
        let holdings = (0..locks).map(|_| Holding::draw(|bound| draw.below(bound))).collect();
        let habits = (0..draw.clients).map(|_| Habit::draw(|bound| draw.below(bound))).collect();
        let (nodes, clients) = (draw.nodes, draw.clients);
        Self { seed, profile, nodes, clients, locks, faults_ms, steps, tuning, holdings, habits }
    }

    /// What its locks are used for.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let locks = usize::try_from(self.locks).expect("locks are few");
        self.holdings.iter().copied().take(locks).collect()
    }

    /// The plan with less in it.
    #[must_use]
    pub fn reduced(&self, reduction: &Reduction) -> Self {
        let mut plan = self.clone();
        plan.clients = reduction.clients.map_or(plan.clients, |clients| clients.min(plan.clients));
        plan.locks = reduction.locks.map_or(plan.locks, |locks| locks.min(plan.locks));
        plan.faults_ms = reduction.faults_ms.map_or(plan.faults_ms, |ms| ms.min(plan.faults_ms));
        let end = plan.faults_ms;
        let is_kept = |step: &Step| reduction.steps.as_ref().is_none_or(|steps| steps.contains(&step.number));
        plan.steps.retain(|step| step.at_ms < end && is_kept(step));
        plan
    }
}

/// Draws the parts of a plan.
struct Draw {
    chance: SmallRng,
    nodes: u64,
    clients: u64,
}

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.chance.random_range(0..bound)
    }

    fn index(&mut self, bound: usize) -> usize {
        self.chance.random_range(0..bound)
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    fn node(&mut self) -> u64 {
        1 + self.below(self.nodes)
    }

    /// Often the leader: most of what is rare happens to it.
    fn who(&mut self) -> Who {
        match self.below(5) {
            0 | 1 => Who::Leader,
            2 => Who::AFollower,
            _ => Who::Node(self.node()),
        }
    }

    /// One, a few, or all at once.
    fn several(&mut self) -> Who {
        match self.below(8) {
            0 => Who::All,
            1 | 2 => {
                let nodes = self.nodes;
                Who::These((1..=nodes).filter(|_| self.one_in(2)).collect())
            }
            _ => self.who(),
        }
    }

    fn fault(&mut self, profile: Profile, is_long: bool) -> Fault {
        // Out of a hundred: links, weather, crashes, pauses, clocks, disks, hand-overs; the rest is aimed.
        let weights = match profile {
            Profile::Mixed => [22, 10, 14, 8, 5, 9, 6],
            Profile::Storage => [8, 3, 26, 3, 2, 16, 4],
            Profile::Network => [40, 14, 6, 14, 10, 0, 6],
        };
        let mut dice = self.below(100);
        for (kind, weight) in weights.into_iter().enumerate() {
            if dice < weight {
                return match kind {
                    0 => self.links(),
                    1 => self.weather(),
                    2 => self.crash(),
                    3 => self.pause(is_long),
                    4 => self.clock(),
                    5 => self.disk(),
                    _ => self.hand_over(),
                };
            }
            dice -= weight;
        }
        self.aimed()
    }

    /// Both neighbours of a node ask it for its vote in the same term, and each time it gives it its power goes.
    fn two_candidates(&mut self) -> Vec<Fault> {
        let middle = self.node();
        let others = (1..=self.nodes).filter(|node| *node != middle);
        let side = others.clone().take(self.nodes as usize / 2).collect();
        let ms = Some(2_500 + self.below(2_000));
        let down = Fault::Crash { who: Who::Node(middle), power: true, back_ms: 500 + self.below(500) };
        // And the one that got it, and knows so, is not heard by the voter for a while.
        let vote = |back_ms| {
            let down = Fault::Crash { who: Who::There, power: true, back_ms };
            let who = Who::ThePeer;
            let mute = Fault::Isolate { who, outgoing: true, incoming: false, ms: Some(900) };
            Fault::Aimed(Aim { moment: Moment::VoteGiven, skip: 0, then: vec![down, mute] })
        };
        let apart = Fault::Parted { side, over: middle, ms };
        vec![apart, down, vote(self.below(30))]
    }

    fn links(&mut self) -> Fault {
        let ms = Some(100 + self.below(4_000)).filter(|_| self.one_in(2));
        match self.below(9) {
            0 | 1 => Fault::Mend,
            2 => Fault::Isolate { who: self.who(), outgoing: true, incoming: true, ms },
            3 => Fault::Isolate { who: self.who(), outgoing: true, incoming: false, ms },
            4 => Fault::Isolate { who: self.who(), outgoing: false, incoming: true, ms },
            5 => {
                let nodes = self.nodes;
                Fault::Halves { side: (1..=nodes).filter(|_| self.one_in(2)).collect(), ms }
            }
            6 => Fault::Bridge { over: self.who(), ms },
            7 if self.nodes > 3 => Fault::Ring { ms },
            7 => Fault::Flap { who: self.who(), times: 2 + self.below(6), every_ms: 50 + self.below(600) },
            _ => Fault::CutClient { client: self.below(self.clients), node: self.node(), ms },
        }
    }

    fn weather(&mut self) -> Fault {
        Fault::Weather {
            loss_percent: [0, 2, 15][self.index(3)],
            double_percent: [0, 5, 30][self.index(3)],
            delay_micros_max: [1_500, 10_000, 100_000][self.index(3)],
        }
    }

    fn crash(&mut self) -> Fault {
        let back_ms = match self.below(3) {
            0 => self.below(60),
            1 => self.below(1_500),
            _ => self.below(5_000),
        };
        Fault::Crash { who: self.several(), power: !self.one_in(4), back_ms }
    }

    fn pause(&mut self, is_long: bool) -> Fault {
        let ms = match self.below(4) {
            0 if is_long => 5_000 + self.below(25_000),
            0 | 1 => 500 + self.below(3_500),
            _ => 20 + self.below(800),
        };
        Fault::Pause { who: self.several(), ms }
    }

    fn clock(&mut self) -> Fault {
        // Within 5 % of each other.
        let parts_per_million = 975_000 + self.below(50_001);
        match self.one_in(3) {
            true => Fault::ClientRate { client: self.below(self.clients), parts_per_million },
            false => Fault::Rate { who: self.who(), parts_per_million },
        }
    }

    fn disk(&mut self) -> Fault {
        let how = match self.below(5) {
            0 => DiskTrouble::Slow,
            4 => DiskTrouble::BulkStalled,
            1 | 2 => DiskTrouble::Stalled,
            _ => DiskTrouble::Full,
        };
        Fault::Disk { who: self.several(), how, ms: 100 + self.below(3_000) }
    }

    fn hand_over(&mut self) -> Fault {
        let who = if self.one_in(3) { self.who() } else { Who::Leader };
        Fault::Stop { who, back_ms: self.below(2_000) }
    }

    /// Blind faults miss the rare orders: these happen at an event.
    fn aimed(&mut self) -> Fault {
        let down = Fault::Crash { who: Who::There, power: true, back_ms: self.below(80) };
        let all_down = Fault::Crash { who: Who::All, power: true, back_ms: self.below(80) };
        let cut_off = Fault::Isolate {
            who: Who::There,
            outgoing: true,
            incoming: true,
            ms: Some(400 + self.below(2_500)),
        };
        let deaf = Fault::Isolate {
            who: Who::There,
            outgoing: false,
            incoming: true,
            ms: Some(400 + self.below(2_500)),
        };
        let paused = Fault::Pause { who: Who::There, ms: 300 + self.below(2_500) };
        let few = self.below(6);
        let many = self.below(40);
        let (moment, skip, then) = match self.below(16) {
            0 => (Moment::Written, many, down),
            1 => (Moment::Synced, many, down),
            2 => (Moment::SnapshotNamed, self.below(3), down),
            3 => (Moment::SegmentRemoved, self.below(3), down),
            4 | 5 => (Moment::VoteGiven, few, down),
            6 => (Moment::EntriesAcknowledged, many, down),
            7 => (Moment::ClientTold, many / 2, all_down),
            8 => (Moment::EntriesSent, many, cut_off),
            9 => (Moment::EntriesSent, many, deaf),
            10 => (Moment::TransferArrived, 0, [paused, down, cut_off][self.index(3)].clone()),
            11 => (Moment::SnapshotChunkArrived, self.below(3), [paused, down][self.index(2)].clone()),
            12 => (Moment::ClaimSent, few, [paused, cut_off, down][self.index(3)].clone()),
            13 => (Moment::ForwardSent, many, [cut_off, paused][self.index(2)].clone()),
            14 => (Moment::ClientTold, many / 2, cut_off),
            _ => (Moment::EntriesAcknowledged, many, paused),
        };
        Fault::Aimed(Aim { moment, skip, then: vec![then] })
    }
}
