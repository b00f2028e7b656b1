//! All calls of one attempt, and how long a lease that it was told of lasts at least.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Operation;
use crate::lease::Clock;
use crate::outcome::{Answer, Outcome};
use crate::request::Request;
use crate::share::Share;

/// All calls of one attempt at one lock.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    /// In the order of their invocation.
    pub(crate) calls: Vec<&'a Operation>,
    /// Those that it was told of.
    pub(crate) fences: BTreeSet<u64>,
    /// For each call, until when any of those up to it whose outcome is known can have taken effect.
    reach: Vec<u64>,
    /// Calls that can have taken effect at any time since; each with the shortest TTL that it or one before may set.
    unknown: Vec<(&'a Operation, Option<u64>)>,
    /// Calls that may have released it.
    releases: Vec<&'a Operation>,
    /// Fences of its own that an operator may have ended, and when that was asked for.
    forced: Vec<(u64, u64)>,
    ttl_min_ms: u64,
}

/// The attempts of operations at one lock, which stand in the order of their invocation.
pub(crate) fn attempts<'a>(operations: &[&'a Operation]) -> BTreeMap<&'a str, Attempt<'a>> {
    let mut calls: BTreeMap<&str, Vec<&'a Operation>> = BTreeMap::new();
    for operation in operations {
        if let Some(name) = operation.request.attempt() {
            calls.entry(name).or_default().push(operation);
        }
    }
    let forced: Vec<_> = operations.iter().filter_map(|operation| may_force(operation)).collect();
    calls.into_iter().map(|(name, calls)| (name, Attempt::new(calls, &forced))).collect()
}

impl<'a> Attempt<'a> {
    fn new(calls: Vec<&'a Operation>, forced: &[(u64, u64)]) -> Self {
        let fences: BTreeSet<u64> = calls.iter().filter_map(|call| own_fence(call)).collect();
        let forced = forced.iter().copied().filter(|(fence, _)| fences.contains(fence)).collect();
        let reach = calls.iter().scan(0, |reach: &mut u64, call| {
            *reach = (*reach).max(if call.is_unknown() { 0 } else { call.completed });
            Some(*reach)
        });
        let reach = reach.collect();
        let releases = calls.iter().copied().filter(|call| may_release(call)).collect();
        let ttl_min_ms = calls.iter().filter_map(|call| asked_ttl_ms(call)).min().unwrap_or(0);
        let unknown = unknown(&calls, ttl_min_ms);
        Self { calls, fences, reach, unknown, releases, forced, ttl_min_ms }
    }

    /// Its calls to acquire.
    pub(crate) fn acquires(&self) -> impl Iterator<Item = &'a Operation> {
        self.calls.iter().copied().filter(|call| matches!(call.request, Request::Acquire { .. }))
    }

    /// Its calls that may have released it.
    pub(crate) fn releases(&self) -> &[&'a Operation] {
        &self.releases
    }

    /// It can have come to the service at this moment, and not before; none if it was never sent.
    pub(crate) fn asked(&self) -> Option<u64> {
        self.acquires().map(|call| call.invoked).min()
    }

    /// How much of the lock it takes, and the limit that it names; none if its calls contradict each other.
    pub(crate) fn wish(&self) -> Option<(Share, Option<u32>)> {
        let wish = |call: &Operation| Some((call.request.share()?, call.request.limit_named()));
        if let Some(granted) = self.acquires().find(|call| call.granted().is_some()) {
            return wish(granted);
        }
        let mut wishes = self.acquires().filter_map(wish);
        let first = wishes.next()?;
        wishes.all(|other| other == first).then_some(first)
    }

    /// Until when the hold that a grant tells of lasts at least: its lease, unless a call of the attempt may have ended
    /// or shortened it, or an operator may have ended it.
    pub(crate) fn lease_end_min(&self, grant: &Operation, ttl_ms: u64, clock: Clock) -> u64 {
        let mut end = clock.lease_end_min(grant.invoked, ttl_ms);
        for release in &self.releases {
            if release.until() > grant.invoked {
                end = end.min(release.invoked);
            }
        }
        let fence = grant.granted().map(|(fence, _)| fence);
        let forced = self.forced.iter().filter(|(forced, _)| Some(*forced) == fence);
        end = forced.map(|(_, at)| *at).fold(end, u64::min);
        for call in self.answered_between(grant.invoked, end).chain(self.unknown_between(grant.invoked, end))
        {
            if let Some(other) = sets_ttl_ms(call, self.ttl_min_ms).filter(|other| *other < ttl_ms) {
                end = end.min(clock.lease_end_min(call.invoked.max(grant.invoked), other));
            }
        }
        if let Some(other) = self.ttl_of_earlier_unknown(grant.invoked).filter(|other| *other < ttl_ms) {
            end = end.min(clock.lease_end_min(grant.invoked, other));
        }
        end.max(grant.invoked)
    }

    /// Calls whose outcome is known, that were answered after one moment and sent before another.
    fn answered_between(&self, after: u64, before: u64) -> impl Iterator<Item = &'a Operation> {
        let sent = self.calls.partition_point(|call| call.invoked < before);
        let calls = (0..sent).rev().take_while(move |at| self.reach[*at] > after).map(|at| self.calls[at]);
        calls.filter(move |call| !call.is_unknown() && call.completed > after)
    }

    /// Calls whose outcome is not known, that were sent between two moments.
    fn unknown_between(&self, after: u64, before: u64) -> impl Iterator<Item = &'a Operation> {
        let first = self.unknown.partition_point(|(call, _)| call.invoked <= after);
        let calls = self.unknown[first..].iter().map(|(call, _)| *call);
        calls.take_while(move |call| call.invoked < before)
    }

    /// The shortest TTL that calls may set whose outcome is not known, and which were sent by then.
    fn ttl_of_earlier_unknown(&self, by: u64) -> Option<u64> {
        let later = self.unknown.partition_point(|(call, _)| call.invoked <= by);
        self.unknown[..later].last().and_then(|(_, ttl_ms)| *ttl_ms)
    }
}

fn unknown<'a>(calls: &[&'a Operation], ttl_min_ms: u64) -> Vec<(&'a Operation, Option<u64>)> {
    let unknown = calls.iter().copied().filter(|call| call.is_unknown());
    let with_shortest = unknown.scan(None, |shortest: &mut Option<u64>, call| {
        *shortest = [*shortest, sets_ttl_ms(call, ttl_min_ms)].into_iter().flatten().min();
        Some((call, *shortest))
    });
    with_shortest.collect()
}

/// The TTL that a call sets if it takes effect; none if it sets none. `ttl_min_ms` is the shortest that may be in force.
fn sets_ttl_ms(call: &Operation, ttl_min_ms: u64) -> Option<u64> {
    match (&call.outcome, &call.request) {
        (Outcome::Ok(Answer::Granted { ttl_ms, .. }), _) => Some(*ttl_ms),
        (Outcome::Unknown { .. }, Request::Renew { ttl_ms: Some(ttl_ms), .. }) => Some(*ttl_ms),
        (Outcome::Unknown { .. }, Request::Acquire { .. } | Request::Renew { .. }) => Some(ttl_min_ms),
        _ => None,
    }
}

/// The fence that the attempt itself was told of.
fn own_fence(call: &Operation) -> Option<u64> {
    match call.outcome {
        Outcome::Ok(Answer::Released { fence }) => fence,
        _ => call.granted().map(|(fence, _)| fence),
    }
}

fn may_release(call: &Operation) -> bool {
    matches!(call.request, Request::Release { .. }) && !matches!(call.outcome, Outcome::Refused(_))
}

fn asked_ttl_ms(call: &Operation) -> Option<u64> {
    match call.request {
        Request::Acquire { ttl_ms, .. } => Some(ttl_ms),
        Request::Renew { ttl_ms, .. } => ttl_ms,
        Request::Release { .. } | Request::Read { .. } | Request::Limit { .. } | Request::Force { .. } => {
            None
        }
    }
}

/// The fence that an operator may have ended, and when that was asked for.
pub(crate) fn may_force(call: &Operation) -> Option<(u64, u64)> {
    match (&call.request, &call.outcome) {
        (_, Outcome::Refused(_)) => None,
        (Request::Force { fence, .. }, _) => Some((*fence, call.invoked)),
        _ => None,
    }
}
