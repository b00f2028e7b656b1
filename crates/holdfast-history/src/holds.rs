//! What a history tells about one lock: its holds, in the order of their fences, and facts about them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::attempt::{Attempt, attempts};
use crate::history::{History, Operation};
use crate::lease::Clock;
use crate::outcome::{Answer, Outcome};

/// A grant of which somebody was told.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    pub(crate) fence: u64,
    /// Whose it is; none if nobody whose calls are all known was told that it is its own.
    pub(crate) attempt: Option<&'a str>,
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

/// Everything about one lock.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    pub(crate) operations: Vec<&'a Operation>,
    pub(crate) attempts: BTreeMap<&'a str, Attempt<'a>>,
    /// In the order of their fences.
    pub(crate) holds: Vec<Hold<'a>>,
    pub(crate) facts: Vec<Fact<'a>>,
}

impl<'a> Lock<'a> {
    /// `foreign` are attempts of which not all calls are among the operations.
    pub(crate) fn new(operations: Vec<&'a Operation>, foreign: &HashSet<&str>, clock: Clock) -> Self {
        let attempts = attempts(&operations);
        let holds = holds(&operations, &attempts, foreign, clock);
        let places = holds.iter().enumerate().map(|(place, hold)| (hold.fence, place)).collect();
        let facts = operations.iter().flat_map(|operation| facts(operation, &attempts, &places)).collect();
        Self { operations, attempts, holds, facts }
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

/// The fence of the hold that was there during an operation, as it was told.
pub(crate) fn fence_seen(operation: &Operation) -> Option<u64> {
    match &operation.outcome {
        Outcome::Ok(Answer::Granted { fence, .. }) => Some(*fence),
        Outcome::Ok(Answer::Seen { holders, .. }) if holders.len() == 1 => Some(holders[0].fence),
        Outcome::Refused(refusal) => refusal.holder.as_ref().map(|holder| holder.fence),
        Outcome::Ok(_) | Outcome::Unknown { .. } => None,
    }
}

/// The fence of a hold that is known to have been granted, by this operation.
pub(crate) fn fence_known(operation: &Operation) -> Option<u64> {
    match operation.outcome {
        Outcome::Ok(Answer::Released { fence }) => fence,
        _ => fence_seen(operation),
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
        let Some(fence) = fence_known(operation) else { continue };
        let attempt = owners.get(&fence).filter(|names| names.len() == 1).map(|names| names[0]);
        let attempt = attempt.filter(|name| !foreign.contains(name));
        let of_attempt = attempt.map(|name| &attempts[name]);
        let hold = known.entry(fence).or_insert_with(|| Hold {
            fence,
            attempt,
            known_by: operation,
            asked: of_attempt.and_then(Attempt::asked).unwrap_or(0),
            sure_until: (0, operation),
            leased_until: (0, operation),
        });
        if operation.completed < hold.known_by.completed {
            hold.known_by = operation;
        }
        if let (Some((_, ttl_ms)), Some(attempt)) = (operation.granted(), of_attempt) {
            let until = attempt.lease_end_min(operation, ttl_ms, clock);
            hold.leased_until = later(hold.leased_until, (until, operation));
        }
        if fence_seen(operation).is_some() {
            hold.sure_until = later(hold.sure_until, (operation.invoked, operation));
        }
        hold.sure_until = later(hold.sure_until, hold.leased_until);
    }
    known.into_values().collect()
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
    if let Some(fence) = fence_seen(operation) {
        facts.push(fact(What::Held(places[&fence])));
    }
    match &operation.outcome {
        Outcome::Ok(Answer::Seen { holders, .. }) if holders.is_empty() => facts.push(fact(What::Free)),
        Outcome::Ok(Answer::Released { fence: Some(fence) }) => facts.push(fact(What::Ended(places[fence]))),
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
            return vec![Self::of(history.operations.iter().collect(), &HashSet::new(), clock)];
        }
        let foreign = attempts_of_several(history);
        let mut processes: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in &history.operations {
            processes.entry(&operation.process).or_default().push(operation);
        }
        processes.into_values().map(|operations| Self::of(operations, &foreign, clock)).collect()
    }

    fn of(operations: Vec<&'a Operation>, foreign: &HashSet<&str>, clock: Clock) -> Self {
        let mut locks: BTreeMap<&str, Vec<&'a Operation>> = BTreeMap::new();
        for operation in operations {
            locks.entry(operation.request.lock()).or_default().push(operation);
        }
        let locks = locks.into_values().map(|operations| Lock::new(operations, foreign, clock)).collect();
        Self { locks }
    }
}

/// Attempts that more than one process had a hand in.
pub(crate) fn attempts_of_several(history: &History) -> HashSet<&str> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut several = HashSet::new();
    for operation in &history.operations {
        let Some(attempt) = operation.request.attempt() else { continue };
        if *first.entry(attempt).or_insert(&operation.process) != &*operation.process {
            several.insert(&**attempt);
        }
    }
    several
}
