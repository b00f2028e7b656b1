//! All calls of one attempt, and how long a lease that it was told of lasts at least.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Operation;
use crate::lease::Clock;
use crate::outcome::{Answer, Outcome};
use crate::request::Request;

/// All calls of one attempt at one lock.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    /// In the order of their invocation.
    pub(crate) calls: Vec<&'a Operation>,
    /// Those that it was told of.
    pub(crate) fences: BTreeSet<u64>,
    /// For each call, until when any of those up to it whose outcome is known can have taken effect.
    reach: Vec<u64>,
    /// Calls that can have taken effect at any time since, and those that may have released it.
    unknown: Vec<&'a Operation>,
    releases: Vec<&'a Operation>,
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
    calls.into_iter().map(|(name, calls)| (name, Attempt::new(calls))).collect()
}

impl<'a> Attempt<'a> {
    fn new(calls: Vec<&'a Operation>) -> Self {
        let fences = calls.iter().filter_map(|call| own_fence(call)).collect();
        let reach = calls.iter().scan(0, |reach: &mut u64, call| {
            *reach = (*reach).max(if call.is_unknown() { 0 } else { call.completed });
            Some(*reach)
        });
        let reach = reach.collect();
        let unknown = calls.iter().copied().filter(|call| call.is_unknown()).collect();
        let releases = calls.iter().copied().filter(|call| may_release(call)).collect();
        let ttl_min_ms = calls.iter().filter_map(|call| asked_ttl_ms(call)).min().unwrap_or(0);
        Self { calls, fences, reach, unknown, releases, ttl_min_ms }
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

    /// Until when the hold that a grant tells of lasts at least: its lease, unless a call of the attempt may have ended
    /// or shortened it.
    pub(crate) fn lease_end_min(&self, grant: &Operation, ttl_ms: u64, clock: Clock) -> u64 {
        let mut end = clock.lease_end_min(grant.invoked, ttl_ms);
        for release in &self.releases {
            if release.until() > grant.invoked {
                end = end.min(release.invoked);
            }
        }
        for call in self.may_take_effect_between(grant.invoked, end) {
            if let Some(other) = self.sets_ttl_ms(call).filter(|other| *other < ttl_ms) {
                end = end.min(clock.lease_end_min(call.invoked.max(grant.invoked), other));
            }
        }
        end.max(grant.invoked)
    }

    /// Calls that can have taken effect after one moment and have been sent before another.
    fn may_take_effect_between(&self, after: u64, before: u64) -> impl Iterator<Item = &'a Operation> {
        let sent = self.calls.partition_point(|call| call.invoked < before);
        let known = (0..sent).rev().take_while(move |at| self.reach[*at] > after).map(|at| self.calls[at]);
        let known = known.filter(move |call| !call.is_unknown() && call.completed > after);
        known.chain(self.unknown.iter().copied())
    }

    /// The TTL that a call sets if it takes effect; none if it sets none.
    fn sets_ttl_ms(&self, call: &Operation) -> Option<u64> {
        match (&call.outcome, &call.request) {
            (Outcome::Ok(Answer::Granted { ttl_ms, .. }), _) => Some(*ttl_ms),
            (Outcome::Unknown { .. }, Request::Renew { ttl_ms: Some(ttl_ms), .. }) => Some(*ttl_ms),
            (Outcome::Unknown { .. }, Request::Acquire { .. } | Request::Renew { .. }) => {
                Some(self.ttl_min_ms)
            }
            _ => None,
        }
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
        Request::Release { .. } | Request::Read { .. } => None,
    }
}
