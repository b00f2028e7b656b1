//! A table and its leader: people do things at some time, and time passes as a leader lets it pass.

use std::collections::BTreeMap;

use holdfast_core::{
    Answer, AttemptKey, ClusterTime, EncodedOp, Fence, Grant, Group, GroupEncoder, Home, LockName, LockTable,
    LockView, NodeId, Op, Outcome, Rejection, SessionDetail, SessionGrant, SessionId, Standing,
};

use crate::deed::Deed;
use crate::happened::Happened;
use crate::many_deed::ManyDeed;

/// How often a living node vouches for those who wait at it.
const VOUCH_EVERY_MS: u64 = 500;

/// Nodes 1 to 3, their leader's clock, and the table.
///
/// The leader speaks at every deadline, as it has to, and living nodes vouch for their waiters. Every command goes
/// through its encoding, and the numbers of events and grants are checked throughout.
pub(crate) struct Story {
    pub(crate) table: LockTable,
    now_ms: u64,
    /// Which start of each living node.
    living: BTreeMap<NodeId, u32>,
    starts: BTreeMap<NodeId, u32>,
    calls: u32,
    last_homes: BTreeMap<AttemptKey, Home>,
    happened: Happened,
}

impl Default for Story {
    fn default() -> Self {
        let nodes: BTreeMap<_, _> = (1..=3).map(|node| (NodeId(node), 1)).collect();
        Self {
            table: LockTable::default(),
            now_ms: 0,
            living: nodes.clone(),
            starts: nodes,
            calls: 0,
            last_homes: BTreeMap::new(),
            happened: Happened::default(),
        }
    }
}

impl Story {
    /// Somebody does something, and the rules say what comes of it.
    pub(crate) fn does(&mut self, at_ms: u64, deed: &Deed) -> Outcome {
        self.pass_until(at_ms);
        let op = self.op(deed);
        self.entry(at_ms, vec![op]).remove(0)
    }

    /// Somebody does something to many locks.
    pub(crate) fn does_many(&mut self, at_ms: u64, deed: &ManyDeed) -> Outcome {
        self.pass_until(at_ms);
        self.calls += 1;
        let node = NodeId(deed.node());
        let home = Home { node, boot: self.starts[&node], call: self.calls };
        if deed.is_acquire() {
            self.last_homes.extend(deed.keys().into_iter().map(|key| (key, home)));
        }
        self.entry(at_ms, vec![deed.op(home)]).remove(0)
    }

    /// Several people do something in the same entry.
    pub(crate) fn do_together(&mut self, at_ms: u64, deeds: &[Deed]) -> Vec<Outcome> {
        self.pass_until(at_ms);
        let ops = deeds.iter().map(|deed| self.op(deed)).collect();
        self.entry(at_ms, ops)
    }

    /// The leader does something of its own accord.
    pub(crate) fn leader_does(&mut self, at_ms: u64, op: Op) -> Outcome {
        self.pass_until(at_ms);
        self.entry(at_ms, vec![op]).remove(0)
    }

    /// An acquire that is granted at once.
    #[track_caller]
    pub(crate) fn grants(&mut self, at_ms: u64, deed: Deed) -> Grant {
        match self.does(at_ms, &deed) {
            Ok(Answer::Granted(grant)) => grant,
            other => panic!("not granted: {other:?}\n{deed:?}"),
        }
    }

    /// A renewal that is accepted.
    #[track_caller]
    pub(crate) fn renews(&mut self, at_ms: u64, deed: Deed) -> Grant {
        self.grants(at_ms, deed)
    }

    /// An acquire that is queued: its place, from 1.
    #[track_caller]
    pub(crate) fn queues(&mut self, at_ms: u64, deed: Deed) -> u64 {
        match self.does(at_ms, &deed) {
            Ok(Answer::Queued { place }) => place,
            other => panic!("not queued: {other:?}\n{deed:?}"),
        }
    }

    /// A release that is accepted: the fence of the hold, none for a place in the queue.
    #[track_caller]
    pub(crate) fn releases(&mut self, at_ms: u64, deed: Deed) -> Option<Fence> {
        match self.does(at_ms, &deed) {
            Ok(Answer::Released { fence }) => fence,
            other => panic!("not released: {other:?}\n{deed:?}"),
        }
    }

    /// A session that is opened or renewed.
    #[track_caller]
    pub(crate) fn keeps(&mut self, at_ms: u64, op: Op) -> SessionGrant {
        match self.leader_does(at_ms, op) {
            Ok(Answer::Session(session)) => session,
            other => panic!("no session: {other:?}"),
        }
    }

    /// A session as readers see it now, if it lives.
    pub(crate) fn session(&self, id: SessionId) -> Option<SessionDetail> {
        self.table.session(id, ClusterTime(self.now_ms))
    }

    /// What a session holds and what it waits for.
    pub(crate) fn kept_by(&self, id: SessionId) -> (Vec<String>, Vec<String>) {
        let SessionDetail { holds, waits, .. } = self.session(id).expect("the session lives");
        let names = |names: Vec<LockName>| names.iter().map(ToString::to_string).collect();
        (names(holds), names(waits))
    }

    /// Anything that is refused.
    #[track_caller]
    pub(crate) fn refuses(&mut self, at_ms: u64, deed: Deed) -> Rejection {
        match self.does(at_ms, &deed) {
            Err(rejection) => rejection,
            other => panic!("not refused: {other:?}\n{deed:?}"),
        }
    }

    /// A client hangs up. There is nobody to be told of the outcome.
    pub(crate) fn abandons(&mut self, at_ms: u64, deed: Deed) {
        assert_eq!(self.does(at_ms, &deed), Ok(Answer::Done));
    }

    /// Time passes: what happens until then?
    pub(crate) fn tick(&mut self, at_ms: u64) -> Happened {
        let before = self.happened.0.len();
        self.pass_until(at_ms);
        Happened(self.happened.0[before..].to_vec())
    }

    /// The leader was silent until then, and so were the nodes: one entry brings it all.
    pub(crate) fn leap(&mut self, at_ms: u64) -> Happened {
        let before = self.happened.0.len();
        self.entry(at_ms, Vec::new());
        Happened(self.happened.0[before..].to_vec())
    }

    /// Everything that has happened so far.
    pub(crate) fn so_far(&self) -> &Happened {
        &self.happened
    }

    /// A node dies: it vouches for nobody any more.
    pub(crate) fn kill(&mut self, node: u64) {
        self.living.remove(&NodeId(node)).expect("a living node");
    }

    /// A node starts again, after a crash or not.
    pub(crate) fn restart(&mut self, node: u64) {
        let start = self.starts.get_mut(&NodeId(node)).expect("a known node");
        *start += 1;
        self.living.insert(NodeId(node), *start);
    }

    /// A node that was cut off, not stopped, is back.
    pub(crate) fn reconnect(&mut self, node: u64) {
        self.living.insert(NodeId(node), self.starts[&NodeId(node)]);
    }

    /// The call that the last command was made by.
    pub(crate) fn last_call_of(&self, deed: &Deed) -> Home {
        self.last_homes[&deed.key()]
    }

    /// The lock as readers see it now.
    pub(crate) fn lock(&self, name: &str) -> LockView {
        self.table.view(&LockName::new(name).unwrap(), ClusterTime(self.now_ms))
    }

    /// Who holds the lock together, in the order of their grants.
    pub(crate) fn holders(&self, name: &str) -> Vec<String> {
        self.lock(name).holders.iter().map(|holder| holder.owner.to_string()).collect()
    }

    /// The locks that are listed.
    pub(crate) fn names(&self) -> Vec<String> {
        let page = self.table.list("", None, 100, ClusterTime(self.now_ms));
        page.locks.iter().map(|lock| lock.name.to_string()).collect()
    }

    /// Who holds the lock.
    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        let holders = self.lock(name).holders;
        assert!(holders.len() <= 1, "two holders: {holders:?}");
        holders.first().map(|holder| holder.owner.to_string())
    }

    /// Who waits for the lock and is present, in order.
    pub(crate) fn queue(&self, name: &str) -> Vec<String> {
        self.lock(name).queue.iter().map(|waiter| waiter.owner.to_string()).collect()
    }

    pub(crate) fn standing(&self, deed: &Deed, lock: &str) -> Standing {
        self.table.standing(&LockName::new(lock).unwrap(), &deed.key())
    }

    fn op(&mut self, deed: &Deed) -> Op {
        self.calls += 1;
        let boot = self.starts[&deed.node()];
        let home = Home { node: deed.node(), boot, call: self.calls };
        let op = deed.op(home, &self.last_homes);
        if deed.is_acquire() {
            self.last_homes.insert(deed.key(), home);
        }
        op
    }

    /// Time passes, with every entry that a leader makes meanwhile.
    fn pass_until(&mut self, at_ms: u64) {
        while self.now_ms < at_ms {
            let due = self.table.next_due().map_or(at_ms, |due| due.0);
            let (_, waiting) = self.table.counts();
            let vouch = if waiting > 0 { self.now_ms + VOUCH_EVERY_MS } else { at_ms };
            let vouches =
                self.living.iter().map(|(node, boot)| Op::Vouch { node: *node, boot: *boot }).collect();
            self.entry(at_ms.min(due).min(vouch), vouches);
        }
    }

    fn entry(&mut self, now_ms: u64, ops: Vec<Op>) -> Vec<Outcome> {
        self.now_ms = self.now_ms.max(now_ms);
        let mut encoder = GroupEncoder::new(ClusterTime(now_ms));
        ops.iter().for_each(|op| encoder.push(&EncodedOp::new(op)));
        let group = Group::decode(&encoder.finish()).unwrap();
        assert_eq!(group.ops, ops);
        let seq = self.table.seq();
        let applied = self.table.apply(&group);
        let numbers: Vec<_> = applied.events.iter().map(|event| event.seq).collect();
        assert_eq!(
            numbers,
            (seq + 1..=self.table.seq()).collect::<Vec<_>>(),
            "events are numbered one by one"
        );
        self.happened.0.extend(applied.events.into_iter().map(|event| (self.now_ms, event)));
        applied.outcomes
    }
}
