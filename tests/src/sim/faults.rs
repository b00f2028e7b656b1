//! What goes wrong, drawn from the seed.

use super::cluster::World;
use super::executor::{self, below, one_in};

impl World {
    /// One more fault, or one fewer.
    pub(super) fn disturb(&mut self) {
        match below(14) {
            0 => self.isolate(true, true),
            1 => self.isolate(true, false),
            2 => self.isolate(false, true),
            3 => self.halve(),
            4 => self.cut_a_client(),
            5 | 6 => self.network.with(|links| links.cut.clear()),
            7 => {
                let node = self.any_node();
                self.crash(node, true);
            }
            8 if one_in(3) => (1..=self.nodes).for_each(|node| self.crash(node, true)),
            8 => {
                let node = self.any_node();
                self.crash(node, false);
            }
            9 => self.start_all(),
            10 => {
                let node = self.any_node();
                executor::pause(node);
                self.paused.push(node);
            }
            11 => self.resume_all(),
            12 => {
                let node = if one_in(2) { self.any_node() } else { self.any_client() };
                executor::set_rate(node, 980_000 + below(40_001));
            }
            _ => self.network.with(|links| {
                links.loss_percent = [0, 2, 15][usize::try_from(below(3)).expect("below three")];
                links.delay_micros_max =
                    [1_500, 10_000, 100_000][usize::try_from(below(3)).expect("below three")];
                links.double_percent = [0, 5][usize::try_from(below(2)).expect("below two")];
            }),
        }
    }

    /// Everything works again.
    pub(super) fn heal(&mut self) {
        self.network.with(|links| {
            links.cut.clear();
            links.loss_percent = 0;
            links.double_percent = 0;
            links.delay_micros_max = 1_500;
        });
        self.resume_all();
        self.start_all();
    }

    fn any_node(&self) -> u64 {
        1 + below(self.nodes)
    }

    fn any_client(&self) -> u64 {
        super::cluster::FIRST_CLIENT + below(self.clients)
    }

    fn resume_all(&mut self) {
        for node in std::mem::take(&mut self.paused) {
            executor::resume(node);
        }
    }

    fn isolate(&mut self, outgoing: bool, incoming: bool) {
        let node = self.any_node();
        let nodes = self.nodes;
        self.network.with(|links| {
            for other in (1..=nodes).filter(|other| *other != node) {
                if outgoing {
                    links.cut.insert((node, other));
                }
                if incoming {
                    links.cut.insert((other, node));
                }
            }
        });
    }

    fn halve(&mut self) {
        let side: Vec<bool> = (1..=self.nodes).map(|_| one_in(2)).collect();
        let nodes = self.nodes;
        self.network.with(|links| {
            for a in 1..=nodes {
                for b in 1..=nodes {
                    let index = |node: u64| usize::try_from(node - 1).expect("few nodes");
                    if side[index(a)] != side[index(b)] {
                        links.cut.insert((a, b));
                    }
                }
            }
        });
    }

    fn cut_a_client(&mut self) {
        let (client, node) = (self.any_client(), self.any_node());
        self.network.with(|links| {
            links.cut.insert((client, node));
            if one_in(2) {
                links.cut.insert((node, client));
            }
        });
    }
}
