//! What a history tells about one lock: its holds, in the order of their fences, and facts about them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::attempt::{Attempt, attempts, may_force};
use crate::history::{History, Operation};
use crate::lease::Clock;
use crate::outcome::{Answer, Code, Holder, Outcome};
use crate::request::Request;
use crate::share::Share;

/// A grant of which somebody was told.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    pub(crate) fence: u64,
    /// Whose it is; none if nobody whose calls are all known was told that it is its own.
    pub(crate) attempt: Option<&'a str>,
    /// How much of the lock it takes; none if nobody knows.
    pub(crate) share: Option<Share>,
    /// The limit that it named.
    pub(crate) limit: Option<u32>,
    /// The operation that first proves that it was granted: at the latest when that completed.
    pub(crate) known_by: &'a Operation,
    /// It cannot have been granted before.
    pub(crate) asked: u64,
    /// It has not ended before, and which operation proves it.
    pub(crate) sure_until: (u64, &'a Operation),
    /// The same, as its leases alone prove it.
    pub(crate) leased_until: (u64, &'a Operation),
}

impl Hold<'_> {
    /// It was granted at this moment or before.
    pub(crate) fn known_at(&self) -> u64 {
        self.known_by.completed
    }

    /// Whether another can hold the lock at the same time, as far as is known of the two.
    pub(crate) fn fits_beside(&self, other: &Self) -> bool {
        match (self.share, other.share) {
            (Some(one), Some(other)) => one.fits_beside(other),
            _ => true,
        }
    }

    /// How many permits it has, as far as is known.
    pub(crate) fn permits(&self) -> u64 {
        self.share.map_or(0, Share::permits)
    }
}

/// Something that was so at some moment between an operation's invocation and its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fact<'a> {
    pub(crate) by: &'a Operation,
    pub(crate) what: What,
}

/// Holds are named by their place in the order of fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The hold was there.
    Held(usize),
    /// There was none.
    Free,
    /// This hold was not there: not yet, or not any more.
    NotHeld(usize),
    /// This hold had been there and was no more.
    Ended(usize),
}

/// All who held the lock at some moment of a read.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    pub(crate) by: &'a Operation,
    /// Places in the order of fences, in order.
    pub(crate) holders: Vec<usize>,
}

/// The limit may have been changed between two moments.
#[derive(Clone, Copy, Debug)]
struct LimitChange {
    from: u64,
    until: u64,
    limit: u32,
}

/// What others did whose clocks cannot be compared with those of a view.
#[derive(Debug, Default)]
pub(crate) struct Others<'a> {
    /// Attempts of which not all calls are in the view.
    attempts: HashSet<&'a str>,
    /// Limits that somebody set at a lock, in the view or not.
    limits: Vec<(&'a str, u32)>,
}

/// Everything about one lock.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    pub(crate) operations: Vec<&'a Operation>,
    pub(crate) attempts: BTreeMap<&'a str, Attempt<'a>>,
    /// In the order of their fences.
    pub(crate) holds: Vec<Hold<'a>>,
    pub(crate) facts: Vec<Fact<'a>>,
    pub(crate) looks: Vec<Look<'a>>,
    /// Nobody shares it, as far as is known.
    pub(crate) is_plain: bool,
    limits: Vec<LimitChange>,
}

impl<'a> Lock<'a> {
    pub(crate) fn new(operations: Vec<&'a Operation>, others: &Others<'_>, clock: Clock) -> Self {
        let attempts = attempts(&operations);
        let is_plain = operations.iter().all(|operation| is_plain(operation));
        let mut holds = holds(&operations, &attempts, &others.attempts, clock);
        for hold in holds.iter_mut().filter(|_| is_plain) {
            hold.share = Some(Share::All);
        }
        let places = holds.iter().enumerate().map(|(place, hold)| (hold.fence, place)).collect();
        let facts = operations.iter().flat_map(|operation| facts(operation, &attempts, &places)).collect();
        let looks = operations.iter().filter_map(|operation| look(operation, &places)).collect();
        let limits = limit_changes(&operations, others);
        Self { operations, attempts, holds, facts, looks, is_plain, limits }
    }

    /// The highest limit that can have been in force when a hold was granted; none if nobody knows what it named.
    ///
    /// A limit stays in force as long as anybody holds the lock or waits for it, unless it is changed.
    pub(crate) fn limit_max(&self, hold: &Hold<'_>) -> Option<u64> {
        let named = hold.limit?;
        let changed = self.changes(hold.asked, hold.known_at());
        changed.chain([named]).max().map(u64::from)
    }

    /// Whether two who held the lock at once may rightly have named different limits.
    pub(crate) fn limits_agree(&self, earlier: &Hold<'_>, later: &Hold<'_>) -> bool {
        let (Some(one), Some(other)) = (earlier.limit, later.limit) else { return true };
        let since = earlier.asked.min(later.asked);
        one == other || self.changes(since, later.known_at()).next().is_some()
    }

    /// Limits that may have been set between two moments.
    fn changes(&self, from: u64, until: u64) -> impl Iterator<Item = u32> {
        let changes = self.limits.iter().filter(move |change| change.from <= until && from <= change.until);
        changes.map(|change| change.limit)
    }

    /// The hold with this fence.
    pub(crate) fn hold(&self, fence: u64) -> Option<&Hold<'a>> {
        let place = self.holds.binary_search_by_key(&fence, |hold| hold.fence).ok()?;
        self.holds.get(place)
    }

    /// The attempt that a hold belongs to.
    pub(crate) fn attempt_of(&self, hold: &Hold<'_>) -> Option<&Attempt<'a>> {
        self.attempts.get(hold.attempt?)
    }
}

/// The fences of the holds that were there during an operation, as it was told.
pub(crate) fn fences_seen(operation: &Operation) -> impl Iterator<Item = u64> {
    let (one, holders): (Option<u64>, &[Holder]) = match &operation.outcome {
        Outcome::Ok(Answer::Granted { fence, .. }) => (Some(*fence), &[]),
        Outcome::Ok(Answer::Seen { holders, .. }) => (None, holders),
        Outcome::Refused(refusal) => (refusal.holder.as_ref().map(|holder| holder.fence), &[]),
        Outcome::Ok(_) | Outcome::Unknown { .. } => (None, &[]),
    };
    one.into_iter().chain(holders.iter().map(|holder| holder.fence))
}

/// The fences of holds that are known to have been granted, by this operation.
pub(crate) fn fences_known(operation: &Operation) -> impl Iterator<Item = u64> {
    let ended = match operation.outcome {
        Outcome::Ok(Answer::Released { fence }) => fence,
        Outcome::Ok(Answer::Forced { fence }) => Some(fence),
        _ => None,
    };
    ended.into_iter().chain(fences_seen(operation))
}

fn is_plain(operation: &Operation) -> bool {
    let is_all = |share: Share| share == Share::All;
    match (&operation.request, &operation.outcome) {
        (Request::Limit { .. }, _) => false,
        (_, Outcome::Ok(Answer::Seen { holders, .. })) => holders.iter().all(|holder| is_all(holder.share())),
        (request, _) => request.share().is_none_or(is_all),
    }
}

fn look<'a>(operation: &'a Operation, places: &HashMap<u64, usize>) -> Option<Look<'a>> {
    let Outcome::Ok(Answer::Seen { holders, .. }) = &operation.outcome else { return None };
    let mut holders: Vec<_> = holders.iter().map(|holder| places[&holder.fence]).collect();
    holders.sort_unstable();
    Some(Look { by: operation, holders })
}

fn limit_changes(operations: &[&Operation], others: &Others<'_>) -> Vec<LimitChange> {
    let lock = operations.first().map(|operation| &**operation.request.lock());
    let by_others = others.limits.iter().filter(|(name, _)| Some(*name) == lock);
    let by_others = by_others.map(|(_, limit)| LimitChange { from: 0, until: u64::MAX, limit: *limit });
    let change = |operation: &&Operation| {
        let limit = limit_set(operation)?;
        Some(LimitChange { from: operation.invoked, until: operation.until(), limit })
    };
    by_others.chain(operations.iter().filter_map(change)).collect()
}

/// The limit that this call may have set.
fn limit_set(operation: &Operation) -> Option<u32> {
    match (&operation.request, &operation.outcome) {
        // It was carried out a second time, perhaps, when nobody used the lock any more.
        (Request::Limit { limit, .. }, Outcome::Refused(refusal)) => {
            (refusal.code == Code::NoLimit).then_some(*limit)
        }
        (Request::Limit { limit, .. }, _) => Some(*limit),
        _ => None,
    }
}

fn holds<'a>(
    operations: &[&'a Operation],
    attempts: &BTreeMap<&'a str, Attempt<'a>>,
    foreign: &HashSet<&str>,
    clock: Clock,
) -> Vec<Hold<'a>> {
    let mut owners: HashMap<u64, Vec<&'a str>> = HashMap::new();
    for (name, attempt) in attempts {
        for fence in &attempt.fences {
            owners.entry(*fence).or_default().push(name);
        }
    }
    let mut known: BTreeMap<u64, Hold<'a>> = BTreeMap::new();
    for operation in operations {
        for fence in fences_known(operation) {
            let attempt = owners.get(&fence).filter(|names| names.len() == 1).map(|names| names[0]);
            let attempt = attempt.filter(|name| !foreign.contains(name));
            let of_attempt = attempt.map(|name| &attempts[name]);
            let hold =
                known.entry(fence).or_insert_with(|| first_known(fence, attempt, of_attempt, operation));
            if operation.completed < hold.known_by.completed {
                hold.known_by = operation;
            }
            if let (Some((_, ttl_ms)), Some(attempt)) = (operation.granted(), of_attempt) {
                let until = attempt.lease_end_min(operation, ttl_ms, clock);
                hold.leased_until = later(hold.leased_until, (until, operation));
            }
            if fences_seen(operation).next().is_some() {
                hold.sure_until = later(hold.sure_until, (operation.invoked, operation));
            }
            hold.sure_until = later(hold.sure_until, hold.leased_until);
            hold.share = hold.share.or_else(|| share_seen(operation, fence));
        }
    }
    known.into_values().collect()
}

fn first_known<'a>(
    fence: u64,
    attempt: Option<&'a str>,
    of_attempt: Option<&Attempt<'a>>,
    by: &'a Operation,
) -> Hold<'a> {
    let wish = of_attempt.and_then(Attempt::wish);
    Hold {
        fence,
        attempt,
        share: wish.map(|(share, _)| share),
        limit: wish.and_then(|(_, limit)| limit),
        known_by: by,
        asked: of_attempt.and_then(Attempt::asked).unwrap_or(0),
        sure_until: (0, by),
        leased_until: (0, by),
    }
}

/// How much of the lock a read shows this hold to have.
pub(crate) fn share_seen(operation: &Operation, fence: u64) -> Option<Share> {
    match &operation.outcome {
        Outcome::Ok(Answer::Seen { holders, .. }) => {
            holders.iter().find(|holder| holder.fence == fence).map(Holder::share)
        }
        _ => None,
    }
}

fn later<'a>(one: (u64, &'a Operation), other: (u64, &'a Operation)) -> (u64, &'a Operation) {
    if other.0 > one.0 { other } else { one }
}

fn facts<'a>(
    operation: &'a Operation,
    attempts: &BTreeMap<&'a str, Attempt<'a>>,
    places: &HashMap<u64, usize>,
) -> Vec<Fact<'a>> {
    let fact = |what| Fact { by: operation, what };
    let mut facts = Vec::new();
    facts.extend(fences_seen(operation).map(|fence| fact(What::Held(places[&fence]))));
    match &operation.outcome {
        Outcome::Ok(Answer::Seen { holders, .. }) if holders.is_empty() => facts.push(fact(What::Free)),
        Outcome::Ok(Answer::Released { fence: Some(fence) } | Answer::Forced { fence }) => {
            facts.push(fact(What::Ended(places[fence])));
        }
        Outcome::Ok(Answer::Released { fence: None }) => {
            facts.extend(holds_of(operation, attempts, places).map(What::NotHeld).map(fact));
        }
        Outcome::Refused(refusal) if refusal.code.denies_hold() => {
            facts.extend(holds_of(operation, attempts, places).map(What::NotHeld).map(fact));
        }
        Outcome::Ok(_) | Outcome::Refused(_) | Outcome::Unknown { .. } => {}
    }
    facts
}

/// All holds that the operation's attempt was ever told of.
fn holds_of<'b>(
    operation: &Operation,
    attempts: &'b BTreeMap<&str, Attempt<'_>>,
    places: &'b HashMap<u64, usize>,
) -> impl Iterator<Item = usize> + 'b {
    let attempt = operation.request.attempt().and_then(|name| attempts.get(&**name));
    attempt.into_iter().flat_map(|attempt| &attempt.fences).filter_map(|fence| places.get(fence).copied())
}

/// A part of a history whose times can be compared.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) locks: Vec<Lock<'a>>,
}

impl<'a> View<'a> {
    /// One view of everything, or one for each process where their clocks cannot be compared.
    pub(crate) fn all(history: &'a History, clock: Clock) -> Vec<Self> {
        if history.has_one_clock() {
            return vec![Self::of(history.operations.iter().collect(), &Others::default(), clock)];
        }
        let limits = history.operations.iter();
        let limits = limits.filter_map(|call| Some((&**call.request.lock(), limit_set(call)?))).collect();
        let others = Others { attempts: attempts_of_several(history), limits };
        let mut processes: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in &history.operations {
            processes.entry(&operation.process).or_default().push(operation);
        }
        processes.into_values().map(|operations| Self::of(operations, &others, clock)).collect()
    }

    fn of(operations: Vec<&'a Operation>, others: &Others<'_>, clock: Clock) -> Self {
        let mut locks: BTreeMap<&str, Vec<&'a Operation>> = BTreeMap::new();
        for operation in operations {
            locks.entry(operation.request.lock()).or_default().push(operation);
        }
        let locks = locks.into_values().map(|operations| Lock::new(operations, others, clock)).collect();
        Self { locks }
    }
}

/// Attempts that more than one process had a hand in. An operator who ends a hold has one in the attempt that holds.
pub(crate) fn attempts_of_several(history: &History) -> HashSet<&str> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut several = HashSet::new();
    let forces = history.operations.iter();
    let forces = forces.filter_map(|call| Some(((call.request.lock(), may_force(call)?.0), &*call.process)));
    let forced_by: HashMap<(&Arc<str>, u64), &str> = forces.collect();
    for operation in &history.operations {
        let forced_by =
            operation.granted().and_then(|(fence, _)| forced_by.get(&(operation.request.lock(), fence)));
        if let (Some(by), Some(attempt)) = (forced_by, operation.request.attempt())
            && *by != &*operation.process
        {
            several.insert(&**attempt);
        }
        let Some(attempt) = operation.request.attempt() else { continue };
        if *first.entry(attempt).or_insert(&operation.process) != &*operation.process {
            several.insert(&**attempt);
        }
    }
    several
}
