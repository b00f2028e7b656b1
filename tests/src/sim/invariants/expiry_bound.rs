//! No lease ends before its time, and none later than promised: at most a second while a leader serves, and at most the
//! time without a leader and a second more for each change of leaders.

use std::collections::BTreeMap;

use holdfast_core::{Answer, AttemptKey, Cause, Happening, Op};

use super::Violation;
use super::asked::{Asked, wanted};
use crate::sim::executor::{MS, Nanos};
use crate::sim::journal::{Entry, Journal};
use crate::sim::sometimes::saw;

const NAME: &str = "a lease lasts its time, and no longer than promised";
/// A leader that serves speaks at least this often while a lease is running, on the slowest clock.
const SILENCE_MS_MAX: u64 = 650;
/// The slowest clock counts this many thousandths.
const SLOWEST_PER_MILLE: u64 = 975;
/// For so long clocks that count differently stay close to each other.
const BEHIND_MS_MAX: u64 = 2_000;
/// A second, and what a commit takes where disk and network are slow.
const GRACE: Nanos = 1_200 * MS;

/// A span that runs out unless it is renewed: a lease of a hold's own, or a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) ttl_ms: u64,
    /// Cluster time.
    pub(super) deadline_ms: u64,
    /// From its last beginning to its deadline.
    span_ms: u64,
    /// The end of its longest hold.
    latest_ms: u64,
    /// When its last beginning was applied.
    begun: Nanos,
    begun_index: u64,
}

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut violations = Vec::new();
    let asked = Asked::of(journal);
    let mut leases: BTreeMap<AttemptKey, Lease> = BTreeMap::new();
    for entry in journal.entries.values() {
        let mut found = |what: String| {
            violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
        };
        for event in &entry.events {
            match event.what {
                // A session's own time is looked at where sessions are.
                Happening::Acquired { ttl, .. } if asked.session_of(&event.key).is_none() => {
                    let max_ms = asked.terms_of(&event.key).max_hold_ms();
                    let latest_ms = max_ms.map_or(u64::MAX, |ms| entry.cluster_ms + ms);
                    leases.insert(event.key, begin(entry, ttl.ms()).until(latest_ms));
                }
                Happening::Ended { fence, cause, .. } => {
                    let Some(lease) = leases.remove(&event.key) else { continue };
                    if cause != Cause::Expired {
                        continue;
                    }
                    if entry.cluster_ms < lease.deadline_ms {
                        let early = lease.deadline_ms - entry.cluster_ms;
                        found(format!("fence {fence} ended {early} ms before its time"));
                    }
                    if let Some(late) = lateness(journal, entry, &lease) {
                        found(format!("fence {fence} ended {} ms later than promised", late / MS));
                    }
                }
                Happening::Acquired { .. }
                | Happening::Queued
                | Happening::Left(_)
                | Happening::Changed { .. } => {}
            }
        }
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            if !matches!(outcome, Ok(Answer::Granted(_) | Answer::GrantedMany(_))) {
                continue;
            }
            for key in renewed(op, &asked) {
                if let Some(lease) = leases.get_mut(&key) {
                    *lease = begin(entry, lease.ttl_ms).until(lease.latest_ms);
                }
            }
        }
        for (key, lease) in &leases {
            if lease.deadline_ms <= entry.cluster_ms {
                let over = entry.cluster_ms - lease.deadline_ms;
                found(format!("the lease of {key:?} goes on {over} ms after its time"));
            }
        }
        leases.retain(|_, lease| lease.deadline_ms > entry.cluster_ms);
    }
    violations
}

/// Whose leases an operation sets to their TTL again.
fn renewed(op: &Op, asked: &Asked<'_>) -> Vec<AttemptKey> {
    match op {
        Op::Renew { key, .. } => vec![*key],
        Op::RenewMany { key, named, .. } => asked.parts(key, named.as_ref()),
        op => wanted(op).map(|wanted| wanted.key).collect(),
    }
}

pub(super) fn begin(entry: &Entry, ttl_ms: u64) -> Lease {
    let deadline_ms = entry.cluster_ms + ttl_ms;
    let (begun, begun_index) = (entry.first_at, entry.index);
    Lease { ttl_ms, deadline_ms, span_ms: ttl_ms, latest_ms: u64::MAX, begun, begun_index }
}

impl Lease {
    /// No longer than a longest hold allows.
    fn until(self, latest_ms: u64) -> Self {
        let over_ms = self.deadline_ms.saturating_sub(latest_ms);
        if over_ms > 0 {
            saw("a longest hold cut a lease");
        }
        let (deadline_ms, span_ms) = (self.deadline_ms - over_ms, self.span_ms.saturating_sub(over_ms));
        Self { deadline_ms, span_ms, latest_ms, ..self }
    }
}

/// By how much it was too late, in true time; none if it was not.
pub(super) fn lateness(journal: &Journal, end: &Entry, lease: &Lease) -> Option<Nanos> {
    let longest = lease.span_ms * MS * 1_000 / SLOWEST_PER_MILLE;
    let (mut excused, mut last, mut term) = (GRACE, lease.begun, None);
    for entry in journal.entries.range(lease.begun_index..=end.index).map(|(_, entry)| entry) {
        let gap = entry.first_at.saturating_sub(last);
        if gap > SILENCE_MS_MAX * MS {
            excused += gap; // Nobody led, or whoever led could do nothing.
        }
        // Some terms may have had leaders of whom nothing was applied.
        excused += GRACE * term.map_or(0, |term| entry.term - term);
        (last, term) = (entry.first_at, Some(entry.term));
    }
    let due = lease.begun + longest + excused + delay_of_commit(journal, end);
    (end.first_at > due).then(|| end.first_at - due)
}

/// How much longer this entry took from its leader's clock to the first replica than the quickest of those right behind it:
/// for so long its leader was not heard.
fn delay_of_commit(journal: &Journal, entry: &Entry) -> Nanos {
    let took = |entry: &Entry| i128::from(entry.first_at) - i128::from(entry.cluster_ms * MS);
    let behind = journal.entries.range(entry.index + 1..).map(|(_, behind)| behind);
    let behind = behind.take_while(|behind| {
        behind.term == entry.term && behind.first_at <= entry.first_at + BEHIND_MS_MAX * MS
    });
    let quickest = behind.map(took).min().unwrap_or(took(entry));
    Nanos::try_from(took(entry) - quickest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{acquired, ended, journal};
    use super::*;

    #[test]
    fn an_expiry_before_its_time_is_found() {
        let begun = (0, vec![], vec![acquired(1, 1, false)]);
        let rightly = (1_000, vec![], vec![ended(1, 1, Cause::Expired)]);
        assert_eq!(check(&journal(vec![begun.clone(), rightly])), []);
        let early = (999, vec![], vec![ended(1, 1, Cause::Expired)]);
        assert!(check(&journal(vec![begun, early]))[0].what.contains("1 ms before its time"));
    }

    #[test]
    fn an_expiry_that_ends_another_share_as_well_is_found() {
        let first = (0, vec![], vec![acquired(1, 1, false)]);
        let second = (600, vec![], vec![acquired(2, 2, false)]);
        let both = vec![ended(1, 1, Cause::Expired), ended(2, 2, Cause::Expired)];
        let found = check(&journal(vec![first, second, (1_000, vec![], both)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("fence 2 ended 600 ms before its time"), "{found:?}");
    }

    #[test]
    fn a_lease_that_goes_on_after_its_time_is_found() {
        let begun = (0, vec![], vec![acquired(1, 1, false)]);
        let tick = (1_000, vec![], vec![]);
        assert!(check(&journal(vec![begun, tick]))[0].what.contains("goes on 0 ms after its time"));
    }

    #[test]
    fn cluster_time_that_stands_still_under_a_leader_is_found() {
        let mut entries = vec![(0, vec![], vec![acquired(1, 1, false)])];
        entries.extend((1..8).map(|n| (n * 500, vec![], vec![])));
        entries.push((4_000, vec![], vec![ended(1, 1, Cause::Expired)]));
        let mut journal = journal(entries);
        for entry in journal.entries.values_mut() {
            entry.cluster_ms /= 4; // A clock that counts a quarter.
        }
        assert!(check(&journal)[0].what.contains("later than promised"));
    }

    #[test]
    fn an_expiry_that_took_long_to_be_committed_is_excused() {
        let found = |behind: bool| {
            // True time, and the leader's.
            let mut times =
                vec![(0, 0), (600, 600), (1_200, 900), (1_800, 910), (2_400, 920), (3_000, 1_100)];
            times.extend(behind.then_some((3_010, 3_005)));
            let mut rows: Vec<_> = times.iter().map(|(at_ms, _)| (*at_ms, vec![], vec![])).collect();
            rows[0].2 = vec![acquired(1, 1, false)];
            rows[5].2 = vec![ended(1, 1, Cause::Expired)];
            let mut journal = journal(rows);
            for (entry, (_, cluster_ms)) in journal.entries.values_mut().zip(times) {
                entry.cluster_ms = cluster_ms;
            }
            check(&journal)
        };
        assert_eq!(found(true), []);
        assert!(found(false)[0].what.contains("later than promised"));
    }
}
