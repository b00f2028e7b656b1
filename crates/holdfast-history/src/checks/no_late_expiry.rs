//! A lease ends at most 1 s after its TTL while a leader serves. A change of leaders delays it by the time without a
//! leader and 1 s more.
//!
//! Only healthy times count, and only holds of which every call that can have lengthened them is known.

use crate::conditions::HealthyTimes;
use crate::history::{History, Operation};
use crate::holds::{Fact, Hold, Lock, What};
use crate::lease::{Clock, LATE_MAX_NS, ms};
use crate::request::Request;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>, history: &History, clock: Clock) -> Vec<Violation> {
    if history.conditions.is_empty() {
        return Vec::new();
    }
    let times = HealthyTimes::of(history);
    let extensions: Vec<_> = lock.holds.iter().map(|hold| Extensions::of(lock, hold)).collect();
    let mut violations = Vec::new();
    for fact in &lock.facts {
        let What::Held(place) = fact.what else { continue };
        let Some(last) = extensions[place].last_before(fact.by, &times, clock) else { continue };
        violations.push(violation(&lock.holds[place], last, fact));
    }
    violations
}

/// Everything that has set the lease of a hold.
struct Extensions<'a> {
    /// Empty where something may have that is not known.
    grants: Vec<(&'a Operation, u64)>,
}

impl<'a> Extensions<'a> {
    fn of(lock: &Lock<'a>, hold: &Hold<'a>) -> Self {
        let Some(attempt) = lock.attempt_of(hold).filter(|attempt| attempt.fences.len() == 1) else {
            return Self { grants: Vec::new() };
        };
        let extends =
            |call: &&Operation| matches!(call.request, Request::Acquire { .. } | Request::Renew { .. });
        let calls = attempt.calls.iter().copied().filter(extends);
        if calls.clone().any(Operation::is_unknown) {
            return Self { grants: Vec::new() };
        }
        Self { grants: calls.filter_map(|call| Some((call, call.granted()?.1))).collect() }
    }

    /// The one that lasts longest, if the lease had to be over before an operation was invoked.
    fn last_before(&self, seen: &Operation, times: &HealthyTimes, clock: Clock) -> Option<&'a Operation> {
        // Most are seen in time: one grant that lasts long enough is all that is to be found.
        let may_last = |(grant, ttl_ms): &&(&Operation, u64)| !is_over(grant, *ttl_ms, seen, times, clock);
        if self.grants.iter().rev().any(|grant| may_last(&grant)) {
            return None;
        }
        self.grants
            .iter()
            .max_by_key(|(grant, ttl_ms)| grant.completed + clock.at_most(*ttl_ms))
            .map(|(grant, _)| *grant)
    }
}

fn is_over(grant: &Operation, ttl_ms: u64, seen: &Operation, times: &HealthyTimes, clock: Clock) -> bool {
    if seen.invoked <= grant.completed {
        return false;
    }
    let healthy = times.between(grant.completed, seen.invoked);
    let was_disturbed = healthy < seen.invoked - grant.completed;
    let late_max = LATE_MAX_NS * if was_disturbed { 2 } else { 1 };
    healthy > clock.at_most(ttl_ms).saturating_add(late_max)
}

fn violation(hold: &Hold<'_>, last: &Operation, seen: &Fact<'_>) -> Violation {
    let what = format!(
        "fence {} is still there {} after its lease was last set",
        hold.fence,
        ms(seen.by.invoked - last.completed)
    );
    Violation::new(Check::NoLateExpiry, what, &[last, seen.by])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::verdict::Check::NoLateExpiry;

    #[test]
    fn a_hold_that_is_seen_long_after_its_lease_is_found() {
        let mut story = Story::default();
        story.healthy(0);
        story.acquires("a", 1..5, 1_000).granted(1);
        story.acquires("b", 2_010..2_020, 1_000).held_by("a", 1);
        story.assert_found(NoLateExpiry, "fence 1 is still there");
    }

    #[test]
    fn a_second_late_is_allowed_and_a_change_of_leaders_costs_its_time_and_another_second() {
        let mut story = Story::default();
        story.healthy(0);
        story.acquires("a", 1..5, 1_000).granted(1);
        story.acquires("b", 1_990..2_020, 1_000).held_by("a", 1);
        story.acquires("c", 3_000..3_005, 1_000).granted(2);
        story.fault(3_010);
        story.healthy(5_010);
        story.reads(7_990..7_995).sees(&[("c", 2)], &[]);
        story.assert_clean();
        story.reads(8_100..8_105).sees(&[("c", 2)], &[]);
        story.assert_found(NoLateExpiry, "fence 2 is still there");
    }

    #[test]
    fn a_renewal_of_which_nobody_knows_may_have_lengthened_the_lease() {
        let mut story = Story::default();
        story.healthy(0);
        story.acquires("a", 1..5, 1_000).granted(1);
        story.renews("a", 100..105).unknown();
        story.reads(4_000..4_010).sees(&[("a", 1)], &[]);
        story.assert_clean();
    }

    #[test]
    fn without_healthy_times_it_is_said_that_the_check_was_not_made() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 1_000).granted(1);
        story.reads(4_000..4_010).sees(&[("a", 1)], &[]);
        story.assert_clean();
        assert!(story.verdict().not_made.iter().any(|not_made| not_made.check == NoLateExpiry));
    }

    #[test]
    fn of_several_holds_only_the_one_that_is_late_is_found() {
        let mut story = Story::default();
        story.healthy(0);
        story.reader("a", 1..5, 500).granted(1);
        story.reader("b", 10..15, 5_000).granted(2);
        story.reads(3_000..3_010).sees_shares(&[("b", 2, SHARED)]);
        story.assert_clean();
        story.reads(3_020..3_030).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.assert_found(NoLateExpiry, "fence 1 is still there");
        assert_eq!(story.verdict().of(NoLateExpiry).count(), 1);
    }
}
