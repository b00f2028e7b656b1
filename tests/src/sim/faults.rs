//! What goes wrong, and how the world does it.

use std::collections::BTreeSet;
use std::fmt;

use super::cluster::{FIRST_CLIENT, World};
use super::executor::{self, MS};
pub(crate) use super::moments::{Moment, Place};
use super::sometimes::saw;

/// Whom a fault hits; settled when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Node(u64),
    /// Whoever leads, or node 1.
    Leader,
    /// The first that does not lead.
    AFollower,
    These(BTreeSet<u64>),
    All,
    /// The node where the moment came that the fault was aimed at.
    There,
    /// Who was at the other end then.
    ThePeer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskTrouble {
    /// Every sync takes twenty times as long.
    Slow,
    /// Nothing is written or synced until it is over.
    Stalled,
    /// There is no room: what needs some waits.
    Full,
    /// Snapshots are neither written nor synced; the log is.
    BulkStalled,
}

/// A fault that waits for its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    pub(crate) moment: Moment,
    /// So many such moments pass first.
    pub(crate) skip: u64,
    pub(crate) then: Vec<Fault>,
}

/// What goes wrong. Where there is an `ms` the trouble ends by itself after so long, otherwise with a later fault or with
/// the phase of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All links work again.
    Mend,
    Isolate {
        who: Who,
        outgoing: bool,
        incoming: bool,
        ms: Option<u64>,
    },
    Halves {
        side: BTreeSet<u64>,
        ms: Option<u64>,
    },
    /// Two halves that both reach one node.
    Bridge {
        over: Who,
        ms: Option<u64>,
    },
    /// One side and the rest, which both reach one node.
    Parted {
        side: BTreeSet<u64>,
        over: u64,
        ms: Option<u64>,
    },
    /// Everybody reaches a majority, and no two the same one.
    Ring {
        ms: Option<u64>,
    },
    Flap {
        who: Who,
        times: u64,
        every_ms: u64,
    },
    CutClient {
        client: u64,
        node: u64,
        ms: Option<u64>,
    },
    Weather {
        loss_percent: u64,
        double_percent: u64,
        delay_micros_max: u64,
    },
    /// With `power`, disks lose what they had not synced.
    Crash {
        who: Who,
        power: bool,
        back_ms: u64,
    },
    /// As SIGTERM does: hand leadership over, end.
    Stop {
        who: Who,
        back_ms: u64,
    },
    Start {
        who: Who,
    },
    Pause {
        who: Who,
        ms: u64,
    },
    Resume {
        who: Who,
    },
    Rate {
        who: Who,
        parts_per_million: u64,
    },
    ClientRate {
        client: u64,
        parts_per_million: u64,
    },
    Disk {
        who: Who,
        how: DiskTrouble,
        ms: u64,
    },
    DiskWell {
        who: Who,
        how: DiskTrouble,
    },
    Uncut {
        links: Vec<(u64, u64)>,
    },
    Aimed(Aim),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl World {
    /// Does what a fault says; `there` is where its moment came.
    pub(super) fn strike(&mut self, fault: Fault, there: Place) {
        executor::tell(|| format!("FAULT {fault} (there: {})", there.node));
        match fault {
            Fault::Mend => self.network.with(|links| links.cut.clear()),
            Fault::Isolate { who, outgoing, incoming, ms } => {
                let nodes = self.resolve(&who, there);
                for node in &nodes {
                    if self.note_leader(*node) {
                        saw("a node cut off while it led");
                    }
                }
                let links = nodes.into_iter().flat_map(|node| {
                    let others = (1..=self.nodes).filter(move |other| *other != node);
                    let out = others.clone().filter(move |_| outgoing).map(move |other| (node, other));
                    out.chain(others.filter(move |_| incoming).map(move |other| (other, node)))
                });
                let links = links.collect();
                self.cut(links, ms);
            }
            Fault::Halves { side, ms } => {
                let links = self.links_where(|a, b| side.contains(&a) != side.contains(&b));
                self.cut(links, ms);
            }
            Fault::Bridge { over, ms } => {
                let over = self.resolve(&over, there);
                let left = |node: u64| node.is_multiple_of(2);
                let links =
                    self.links_where(|a, b| left(a) != left(b) && !over.contains(&a) && !over.contains(&b));
                self.cut(links, ms);
            }
            Fault::Parted { side, over, ms } => {
                let is_cut =
                    |a: u64, b: u64| side.contains(&a) != side.contains(&b) && a != over && b != over;
                let links = self.links_where(is_cut);
                self.cut(links, ms);
            }
            Fault::Ring { ms } => {
                let nodes = self.nodes;
                let links = self.links_where(|a, b| {
                    let apart = a.abs_diff(b);
                    apart.min(nodes - apart) > nodes / 4
                });
                self.cut(links, ms);
            }
            Fault::Flap { who, times, every_ms } => self.flap(&who, there, times, every_ms),
            Fault::CutClient { client, node, ms } => {
                let client = FIRST_CLIENT + client;
                self.cut(vec![(client, node), (node, client)], ms);
            }
            Fault::Weather { loss_percent, double_percent, delay_micros_max } => {
                self.network.with(|links| {
                    links.loss_percent = loss_percent;
                    links.double_percent = double_percent;
                    links.delay_micros_max = delay_micros_max;
                });
            }
            Fault::Crash { who, power, back_ms } => {
                for node in self.resolve(&who, there) {
                    if self.crash(node, power) {
                        self.later(back_ms, Fault::Start { who: Who::Node(node) });
                    }
                }
            }
            Fault::Stop { who, back_ms } => {
                for node in self.resolve(&who, there) {
                    self.stop(node);
                    self.later(
                        1_500 + back_ms,
                        Fault::Crash { who: Who::Node(node), power: false, back_ms: 0 },
                    );
                }
            }
            Fault::Start { who } => {
                for node in self.resolve(&who, there) {
                    self.start(node);
                }
            }
            Fault::Pause { who, ms } => {
                for node in self.resolve(&who, there) {
                    self.note_leader(node);
                    executor::pause(node);
                    self.later(ms, Fault::Resume { who: Who::Node(node) });
                }
            }
            Fault::Resume { who } => self.resolve(&who, there).into_iter().for_each(executor::resume),
            Fault::Rate { who, parts_per_million } => {
                for node in self.resolve(&who, there) {
                    executor::set_rate(node, parts_per_million);
                }
            }
            Fault::ClientRate { client, parts_per_million } => {
                executor::set_rate(FIRST_CLIENT + client, parts_per_million);
            }
            Fault::Disk { who, how, ms } => {
                for node in self.resolve(&who, there) {
                    self.condition(node).set(how, true);
                    self.later(ms, Fault::DiskWell { who: Who::Node(node), how });
                }
            }
            Fault::DiskWell { who, how } => {
                for node in self.resolve(&who, there) {
                    self.condition(node).set(how, false);
                }
            }
            Fault::Uncut { links } => self.network.with(|state| {
                for link in links {
                    state.cut.remove(&link);
                }
            }),
            Fault::Aimed(aim) => self.moments.arm(aim),
        }
    }

    /// Everything works again.
    pub(super) fn heal(&mut self) {
        executor::tell(|| "FAULTS END".to_owned());
        self.agenda.clear();
        self.moments.disarm_all();
        self.network.with(|links| {
            links.cut.clear();
            links.loss_percent = 0;
            links.double_percent = 0;
            links.delay_micros_max = 1_500;
        });
        for node in 1..=self.nodes {
            self.condition(node).heal();
            executor::resume(node);
            // One that was told to end may be about to: it starts again as one that has ended.
            if self.is_stopping(node) {
                self.crash(node, false);
            }
            self.start(node);
        }
    }

    /// Who that is just now.
    fn resolve(&self, who: &Who, there: Place) -> Vec<u64> {
        match who {
            Who::Node(node) => vec![*node],
            Who::Leader => vec![self.leader().unwrap_or(1)],
            Who::AFollower => {
                let leader = self.leader();
                (1..=self.nodes).find(|node| Some(*node) != leader).into_iter().collect()
            }
            Who::These(nodes) => nodes.iter().copied().collect(),
            Who::All => (1..=self.nodes).collect(),
            Who::There => vec![there.node],
            Who::ThePeer => vec![there.peer],
        }
    }

    fn links_where(&self, is_cut: impl Fn(u64, u64) -> bool) -> Vec<(u64, u64)> {
        let pairs = (1..=self.nodes).flat_map(|a| (1..=self.nodes).map(move |b| (a, b)));
        pairs.filter(|(a, b)| a != b && is_cut(*a, *b)).collect()
    }

    fn cut(&mut self, links: Vec<(u64, u64)>, ms: Option<u64>) {
        self.network.with(|state| state.cut.extend(links.iter().copied()));
        if let Some(ms) = ms {
            self.later(ms, Fault::Uncut { links });
        }
    }

    fn flap(&mut self, who: &Who, there: Place, times: u64, every_ms: u64) {
        for node in self.resolve(who, there) {
            for turn in 0..times {
                let isolate = Fault::Isolate {
                    who: Who::Node(node),
                    outgoing: true,
                    incoming: true,
                    ms: Some(every_ms / 2 + 1),
                };
                self.later(turn * every_ms, isolate);
            }
        }
    }

    fn later(&mut self, ms: u64, fault: Fault) {
        self.agenda.insert((executor::now() + ms * MS, self.agenda_number), fault);
        self.agenda_number += 1;
    }
}
