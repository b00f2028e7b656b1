//! Random scripts: what people, nodes and the leader do, and when.
//!
//! Deadlines, homes and fences are named by what they are ("the next deadline"), not by number: so a script means
//! something after any step of it was taken out.

use std::fmt;

use holdfast_core::{
    Acquire, AcquireMany, AcquireOnTerms, AttemptKey, ClusterId, ClusterTime, Fence, Group, Home,
    Intervention, Item, Limit, LockName, Metadata, NodeId, Op, Owner, Permits, Place, Reason, SessionId,
    SessionKey, SessionRef, Several, Share, StorageId, Terms, Ttl, Wait,
};
use proptest::prelude::*;

use crate::naive::Naive;

pub(crate) const LOCKS: [&str; 3] = ["a", "b", "c"];
const PEOPLE: [&str; 5] = ["alice", "bob", "carol", "dave", "anonymous"];
/// The first is what an acquire says, the second what an odd one says.
const VALUES: [&str; 4] = ["{}", "{\"odd\":1}", "null", "\"http://node/\""];
const TTLS: [u64; 5] = [100, 150, 500, 1_000, 80_000];
/// Delay, least and longest hold, period.
const TERMS: [(u64, u64, Option<u64>, Option<u64>); 7] = [
    (300, 0, None, None),
    (3_000, 400, None, None),
    (0, 0, Some(700), None),
    (200, 0, None, Some(5_000)),
    (500, 200, Some(900), Some(1_500)),
    (2_000, 0, Some(120), None),
    (100, 600, None, Some(1_000)),
];
const WAITS: [u64; 6] = [0, 1, 100, 500, 3_000, 60_000];

/// When a step is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// So long after the step before.
    After(u64),
    /// At the next deadline, or so many milliseconds beside it.
    Deadline(i64),
    /// With a stamp in the past.
    Before(u64),
}

/// Which attempt: a lock and a person, who has one token for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    lock: usize,
    person: usize,
}

/// What is done in a step.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// `odd` changes what has to stay the same under a token: 1 the owner, 2 the TTL, 3 the metadata, 4 the share,
    /// 5 the terms.
    Acquire {
        who: Who,
        session: Option<Shown>,
        on_terms: bool,
        wait: usize,
        home: Home,
        odd: usize,
    },
    Renew {
        who: Who,
        ttl: Option<usize>,
    },
    Release {
        who: Who,
        done: bool,
    },
    /// None: by the attempt's newest call.
    Abandon {
        who: Who,
        home: Option<Home>,
    },
    /// `back` 0 is the lock's grant in force, n the n-th last grant of all.
    Unclaim {
        lock: usize,
        back: u64,
    },
    Vouch {
        node: u64,
        boot: u32,
    },
    Register {
        node: u64,
        storage: u128,
    },
    Found {
        cluster: u128,
    },
    SetLimit {
        lock: usize,
        limit: u64,
    },
    Proclaim {
        who: Who,
        value: usize,
    },
    /// To a person; the last number is somebody who never waits.
    HandOver {
        who: Who,
        to: usize,
    },
    /// `odd` as with a single lock, but that nobody has metadata.
    AcquireMany {
        whos: Whos,
        wait: usize,
        home: Home,
        odd: usize,
    },
    /// `named`: the locks, else all that the attempt holds.
    RenewMany {
        whos: Whos,
        named: bool,
        ttl: Option<usize>,
    },
    ReleaseMany {
        whos: Whos,
        named: bool,
    },
    /// `odd`: with another TTL than the person's own.
    OpenSession {
        person: usize,
        odd: bool,
    },
    RenewSession(Shown),
    EndSession(Shown),
    /// `back` as for a grant that is taken back.
    ForceRelease {
        lock: usize,
        back: u64,
    },
    ForceLeave {
        who: Who,
        reason: usize,
    },
    TellWallClock {
        unix_ms: u64,
    },
}

/// Some of the locks, in some order, and a person, who has the same token for them as for each alone.
#[derive(Clone, Debug)]
pub(crate) struct Whos {
    locks: Vec<usize>,
    person: usize,
}

impl Whos {
    fn each(&self) -> impl Iterator<Item = Who> {
        let person = self.person;
        self.locks.iter().map(move |lock| Who { lock: *lock, person })
    }

    fn key(&self) -> AttemptKey {
        AttemptKey([200 + self.person as u8; 16])
    }

    fn places(&self) -> Vec<Place> {
        self.each().map(|who| Place { lock: who.lock(), key: who.key() }).collect()
    }

    fn named(&self, named: bool) -> Option<Several<Place>> {
        named.then(|| Several::new(self.places()).unwrap())
    }

    fn acquire(&self, wait: usize, home: Home, odd: usize) -> AcquireMany {
        let item = |who: Who| Item {
            place: Place { lock: who.lock(), key: who.key() },
            share: if odd == 4 { permits(2, 1) } else { who.share() },
        };
        AcquireMany {
            key: self.key(),
            items: Several::new(self.each().map(item).collect()).unwrap(),
            owner: Owner::new(if odd == 1 { "mallory" } else { PEOPLE[self.person] }).unwrap(),
            ttl: Ttl::from_ms(if odd == 2 { 777 } else { TTLS[self.person % TTLS.len()] }).unwrap(),
            wait: Wait::from_ms(WAITS[wait]).unwrap(),
            home,
        }
    }
}

/// The last session of a person, and whose token is shown for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    of: usize,
    by: usize,
}

impl Shown {
    fn session(self, naive: &Naive) -> SessionRef {
        let id = naive.session_of(session_key(self.of)).unwrap_or(SessionId(77_777));
        SessionRef { id, key: session_key(self.by) }
    }
}

fn session_key(person: usize) -> SessionKey {
    SessionKey([person as u8; 16])
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    when: When,
    deeds: Vec<Deed>,
}

#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    /// Where replicas that restore a snapshot come in.
    pub(crate) snapshot_after: usize,
}

impl Step {
    /// The log entry that the step is, where the model has got to.
    pub(crate) fn group(&self, naive: &Naive) -> Group {
        let now = match self.when {
            When::After(ms) => naive.now + ms,
            When::Deadline(beside) => naive.next_due().unwrap_or(naive.now).saturating_add_signed(beside),
            When::Before(ms) => naive.now.saturating_sub(ms),
        };
        Group { now: ClusterTime(now), ops: self.deeds.iter().map(|deed| deed.op(naive)).collect() }
    }
}

impl Who {
    fn lock(self) -> LockName {
        lock_name(self.lock)
    }

    fn key(self) -> AttemptKey {
        key(self.lock, self.person)
    }

    /// Lock `a` has readers and writers, `b` counts permits, and `c` is plain.
    fn share(self) -> Share {
        match self.lock {
            0 if self.person.is_multiple_of(2) => Share::Shared,
            1 => permits(3, 1 + self.person as u64 % 3),
            _ => Share::Exclusive,
        }
    }

    /// Each person's own at each lock.
    fn terms(self, odd: usize) -> Terms {
        let at = 2 * self.lock + self.person + usize::from(odd == 5);
        let (delay_ms, min_hold_ms, max_hold_ms, period_ms) = TERMS[at % TERMS.len()];
        Terms::new(delay_ms, min_hold_ms, max_hold_ms, period_ms).unwrap()
    }

    fn ttl(self) -> u64 {
        TTLS[(self.lock + self.person) % TTLS.len()]
    }
}

fn permits(limit: u64, taken: u64) -> Share {
    Share::Permits(Permits::new(limit, taken).unwrap())
}

pub(crate) fn lock_name(lock: usize) -> LockName {
    LockName::new(LOCKS[lock]).unwrap()
}

fn key(lock: usize, person: usize) -> AttemptKey {
    AttemptKey([(lock * 16 + person) as u8; 16])
}

/// `back` 0 is the lock's grant in force, n the n-th last grant of all.
fn recent(naive: &Naive, lock: usize, back: u64) -> Fence {
    let current = naive.holders(&lock_name(lock)).last().map_or(0, |(_, hold)| hold.fence);
    Fence(if back == 0 { current } else { (naive.fence + 1).saturating_sub(back) })
}

fn intervention(reason: usize) -> Intervention {
    let reason = Reason::new(["stuck", "a mistake"][reason]).unwrap();
    Intervention { by: Owner::new("operator").unwrap(), reason }
}

fn owner(person: usize) -> &'static str {
    PEOPLE.get(person).copied().unwrap_or("nobody")
}

/// Every attempt there can be.
pub(crate) fn all_attempts() -> impl Iterator<Item = (LockName, AttemptKey)> {
    (0..LOCKS.len())
        .flat_map(|lock| (0..PEOPLE.len()).map(move |person| (lock_name(lock), key(lock, person))))
}

impl Deed {
    fn op(&self, naive: &Naive) -> Op {
        match self {
            Self::Acquire { who, session, on_terms, wait, home, odd } => {
                let metadata = VALUES[usize::from(*odd == 3)];
                let acquire = Acquire {
                    lock: who.lock(),
                    key: who.key(),
                    owner: Owner::new(if *odd == 1 { "mallory" } else { PEOPLE[who.person] }).unwrap(),
                    ttl: Ttl::from_ms(if *odd == 2 { 777 } else { who.ttl() }).unwrap(),
                    wait: Wait::from_ms(WAITS[*wait]).unwrap(),
                    metadata: Metadata::new(metadata).unwrap(),
                    home: *home,
                };
                let share = if *odd == 4 { permits(2, 1) } else { who.share() };
                if *on_terms {
                    let session = session.map(|shown| shown.session(naive));
                    let terms = who.terms(*odd);
                    return Op::AcquireOnTerms(Box::new(AcquireOnTerms { acquire, share, session, terms }));
                }
                match (session, share) {
                    (Some(shown), share) => Op::AcquireInSession(acquire, share, shown.session(naive)),
                    (None, Share::Exclusive) => Op::Acquire(acquire),
                    (None, share) => Op::AcquireShare(acquire, share),
                }
            }
            Self::Renew { who, ttl } => Op::Renew {
                lock: who.lock(),
                key: who.key(),
                ttl: ttl.map(|ttl| Ttl::from_ms(TTLS[ttl]).unwrap()),
            },
            Self::Release { who, done: false } => Op::Release { lock: who.lock(), key: who.key() },
            Self::Release { who, done: true } => Op::ReleaseDone { lock: who.lock(), key: who.key() },
            Self::Abandon { who, home } => {
                let home = home.or_else(|| naive.home_of(&who.key()));
                let home = home.unwrap_or(Home { node: NodeId(1), boot: 1, call: 1 });
                Op::Abandon { lock: who.lock(), key: who.key(), home }
            }
            Self::Unclaim { lock, back } => {
                Op::Unclaim { lock: lock_name(*lock), fence: recent(naive, *lock, *back) }
            }
            Self::ForceRelease { lock, back } => {
                let (lock, fence) = (lock_name(*lock), recent(naive, *lock, *back));
                Op::ForceRelease { lock, fence, by: intervention(0) }
            }
            Self::ForceLeave { who, reason } => Op::ForceLeave {
                lock: who.lock(),
                owner: Owner::new(owner(who.person)).unwrap(),
                by: intervention(*reason),
            },
            Self::TellWallClock { unix_ms } => Op::TellWallClock { unix_ms: *unix_ms },
            Self::Vouch { node, boot } => Op::Vouch { node: NodeId(*node), boot: *boot },
            Self::Register { node, storage } => {
                Op::Register { node: NodeId(*node), storage: StorageId(*storage) }
            }
            Self::Found { cluster } => Op::Found { cluster: ClusterId(*cluster) },
            Self::SetLimit { lock, limit } => {
                Op::SetLimit { lock: lock_name(*lock), limit: Limit::new(*limit).unwrap() }
            }
            Self::Proclaim { who, value } => Op::Proclaim {
                lock: who.lock(),
                key: who.key(),
                metadata: Metadata::new(VALUES[*value]).unwrap(),
            },
            Self::HandOver { who, to } => {
                Op::HandOver { lock: who.lock(), key: who.key(), to: Owner::new(owner(*to)).unwrap() }
            }
            Self::AcquireMany { whos, wait, home, odd } => Op::AcquireMany(whos.acquire(*wait, *home, *odd)),
            Self::RenewMany { whos, named, ttl } => Op::RenewMany {
                key: whos.key(),
                named: whos.named(*named),
                ttl: ttl.map(|ttl| Ttl::from_ms(TTLS[ttl]).unwrap()),
            },
            Self::ReleaseMany { whos, named } => {
                Op::ReleaseMany { key: whos.key(), named: whos.named(*named) }
            }
            Self::OpenSession { person, odd } => Op::OpenSession {
                key: session_key(*person),
                owner: Owner::new(PEOPLE[*person]).unwrap(),
                ttl: Ttl::from_ms(if *odd { 777 } else { TTLS[*person] }).unwrap(),
            },
            Self::RenewSession(shown) => Op::RenewSession(shown.session(naive)),
            Self::EndSession(shown) => Op::EndSession(shown.session(naive)),
        }
    }
}

/// Mostly the first start of a node, and few calls: so that homes meet.
fn homes() -> impl Strategy<Value = Home> {
    let boots = prop_oneof![6 => Just(1_u32), 3 => Just(2), 1 => Just(3)];
    (1..=3_u64, boots, 1..=2_u32).prop_map(|(node, boot, call)| Home { node: NodeId(node), boot, call })
}

fn whos() -> impl Strategy<Value = Who> {
    (0..LOCKS.len(), 0..PEOPLE.len()).prop_map(|(lock, person)| Who { lock, person })
}

fn many_whos() -> impl Strategy<Value = Whos> {
    let locks = Just((0..LOCKS.len()).collect::<Vec<_>>()).prop_shuffle();
    let some = prop_oneof![1 => Just(1_usize), 6 => Just(2), 2 => Just(3)];
    (locks, some, 0..PEOPLE.len()).prop_map(|(mut locks, some, person)| {
        locks.truncate(some);
        Whos { locks, person }
    })
}

/// Mostly one's own, of the few who have one.
fn shown() -> impl Strategy<Value = Shown> {
    prop_oneof![
        9 => (0..2_usize).prop_map(|person| Shown { of: person, by: person }),
        1 => (0..2_usize, 0..2_usize).prop_map(|(of, by)| Shown { of, by }),
    ]
}

fn deeds() -> impl Strategy<Value = Deed> {
    let odd = prop_oneof![12 => Just(0_usize), 1 => 1..=5_usize];
    let home = prop_oneof![3 => Just(None), 1 => homes().prop_map(Some)];
    let back = prop_oneof![3 => Just(0_u64), 1 => 1..=4_u64];
    let forced_back = prop_oneof![3 => Just(0_u64), 1 => 1..=4_u64];
    let odd_many = prop_oneof![20 => Just(0_usize), 1 => 1..=4_usize];
    prop_oneof![
        16 => (whos(), proptest::option::weighted(0.4, shown()), proptest::bool::weighted(0.4), 0..WAITS.len(), homes(), odd)
            .prop_map(|(who, session, on_terms, wait, home, odd)| Deed::Acquire { who, session, on_terms, wait, home, odd }),
        4 => (0..2_usize, proptest::bool::weighted(0.1))
            .prop_map(|(person, odd)| Deed::OpenSession { person, odd }),
        2 => shown().prop_map(Deed::RenewSession),
        2 => shown().prop_map(Deed::EndSession),
        3 => (whos(), proptest::option::of(0..TTLS.len())).prop_map(|(who, ttl)| Deed::Renew { who, ttl }),
        8 => (whos(), any::<bool>()).prop_map(|(who, done)| Deed::Release { who, done }),
        2 => (whos(), home).prop_map(|(who, home)| Deed::Abandon { who, home }),
        3 => (0..LOCKS.len(), back).prop_map(|(lock, back)| Deed::Unclaim { lock, back }),
        4 => homes().prop_map(|home| Deed::Vouch { node: home.node.0, boot: home.boot }),
        1 => (1..=3_u64, 1..=2_u128).prop_map(|(node, storage)| Deed::Register { node, storage }),
        1 => (1..=2_u128).prop_map(|cluster| Deed::Found { cluster }),
        1 => (0..LOCKS.len(), 1..=5_u64).prop_map(|(lock, limit)| Deed::SetLimit { lock, limit }),
        2 => (whos(), 0..VALUES.len()).prop_map(|(who, value)| Deed::Proclaim { who, value }),
        3 => (whos(), 0..=PEOPLE.len()).prop_map(|(who, to)| Deed::HandOver { who, to }),
        6 => (many_whos(), 0..WAITS.len(), homes(), odd_many)
            .prop_map(|(whos, wait, home, odd)| Deed::AcquireMany { whos, wait, home, odd }),
        2 => (many_whos(), any::<bool>(), proptest::option::of(0..TTLS.len()))
            .prop_map(|(whos, named, ttl)| Deed::RenewMany { whos, named, ttl }),
        3 => (many_whos(), any::<bool>()).prop_map(|(whos, named)| Deed::ReleaseMany { whos, named }),
        2 => (0..LOCKS.len(), forced_back).prop_map(|(lock, back)| Deed::ForceRelease { lock, back }),
        2 => (whos(), 0..2_usize).prop_map(|(who, reason)| Deed::ForceLeave { who, reason }),
        1 => any::<u32>().prop_map(|ms| Deed::TellWallClock { unix_ms: ms.into() }),
    ]
}

fn whens() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => Just(When::After(0)),
        4 => (1..=120_u64).prop_map(When::After),
        3 => Just(When::After(500)),
        2 => (1_999..=2_001_u64).prop_map(When::After),
        1 => (74_999..=75_001_u64).prop_map(When::After),
        6 => (-1..=1_i64).prop_map(When::Deadline),
        1 => (1..=2_000_u64).prop_map(When::Before),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    (whens(), prop::collection::vec(deeds(), 0..4)).prop_map(|(when, deeds)| Step { when, deeds })
}

pub(crate) fn scripts() -> impl Strategy<Value = Script> {
    (prop::collection::vec(steps(), 1..40), 0..40_usize)
        .prop_map(|(steps, snapshot_after)| Script { steps, snapshot_after })
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            write!(f, "\n  step {number}, {}:", step.when)?;
            for deed in &step.deeds {
                write!(f, " {deed};")?;
            }
        }
        write!(f, "\n  snapshot after step {}", self.snapshot_after)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(ms) => write!(f, "{ms} ms later"),
            Self::Deadline(0) => f.write_str("at the next deadline"),
            Self::Deadline(beside) => write!(f, "{beside:+} ms from the next deadline"),
            Self::Before(ms) => write!(f, "stamped {ms} ms too early"),
        }
    }
}

impl fmt::Display for Whos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.locks.iter().map(|lock| LOCKS[*lock]).collect();
        write!(f, "{} [{}]", PEOPLE[self.person], names.join(", "))
    }
}

fn all_or(named: bool) -> &'static str {
    if named { "these" } else { "all" }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = |who: &Who| format!("{} {}", PEOPLE[who.person], LOCKS[who.lock]);
        let place = |home: &Home| format!("node {} start {} call {}", home.node, home.boot, home.call);
        match self {
            Self::Acquire { who, session, on_terms, wait, home, odd } => {
                let terms = on_terms.then(|| format!(" on {:?}", who.terms(*odd))).unwrap_or_default();
                let odds = [
                    "",
                    ", other owner",
                    ", other TTL",
                    ", other metadata",
                    ", other share",
                    ", other terms",
                ];
                let odd = odds[*odd];
                let (ttl, wait) = (who.ttl(), WAITS[*wait]);
                let session = session.map(|shown| format!(" in {shown}")).unwrap_or_default();
                write!(
                    f,
                    "{} acquire ttl {ttl} wait {wait}{session}{terms} at {}{odd}",
                    subject(who),
                    place(home)
                )
            }
            Self::Renew { who, ttl: None } => write!(f, "{} renew", subject(who)),
            Self::Renew { who, ttl: Some(ttl) } => write!(f, "{} renew ttl {}", subject(who), TTLS[*ttl]),
            Self::Release { who, done: false } => write!(f, "{} release", subject(who)),
            Self::Release { who, done: true } => write!(f, "{} release, done", subject(who)),
            Self::Abandon { who, home: None } => write!(f, "{} hangs up", subject(who)),
            Self::Abandon { who, home: Some(home) } => {
                write!(f, "{} hangs up at {}", subject(who), place(home))
            }
            Self::Unclaim { lock, back: 0 } => write!(f, "unclaim the grant of {}", LOCKS[*lock]),
            Self::Unclaim { lock, back } => write!(f, "unclaim the {back}-last grant on {}", LOCKS[*lock]),
            Self::Vouch { node, boot } => write!(f, "node {node} start {boot} vouches"),
            Self::Register { node, storage } => write!(f, "node {node} registers folder {storage}"),
            Self::Found { cluster } => write!(f, "found cluster {cluster}"),
            Self::SetLimit { lock, limit } => write!(f, "the limit of {} is {limit}", LOCKS[*lock]),
            Self::Proclaim { who, value } => write!(f, "{} proclaim {}", subject(who), VALUES[*value]),
            Self::HandOver { who, to } => write!(f, "{} hand over to {}", subject(who), owner(*to)),
            Self::AcquireMany { whos, wait, home, odd } => {
                let odd = ["", ", other owner", ", other TTL", "", ", other share"][*odd];
                write!(f, "{whos} acquire wait {} at {}{odd}", WAITS[*wait], place(home))
            }
            Self::RenewMany { whos, named, ttl } => {
                write!(f, "{whos} renew {} ttl {:?}", all_or(*named), ttl.map(|ttl| TTLS[ttl]))
            }
            Self::ReleaseMany { whos, named } => write!(f, "{whos} release {}", all_or(*named)),
            Self::OpenSession { person, odd: false } => write!(f, "{} opens a session", PEOPLE[*person]),
            Self::OpenSession { person, odd: true } => {
                write!(f, "{} opens a session, other TTL", PEOPLE[*person])
            }
            Self::RenewSession(shown) => write!(f, "renew {shown}"),
            Self::EndSession(shown) => write!(f, "end {shown}"),
            Self::ForceRelease { lock, back: 0 } => write!(f, "end the hold of {}", LOCKS[*lock]),
            Self::ForceRelease { lock, back } => {
                write!(f, "end the hold of the {back}-last grant on {}", LOCKS[*lock])
            }
            Self::ForceLeave { who, reason } => write!(f, "{} made to leave, reason {reason}", subject(who)),
            Self::TellWallClock { unix_ms } => write!(f, "the wall clock shows {unix_ms}"),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the session of {} with the token of {}", PEOPLE[self.of], PEOPLE[self.by])
    }
}
