//! A repeated call has one effect: one attempt has one fence, one fence one attempt, and releasing again is the success
//! that it was.
//!
//! The service remembers how an attempt ended for 60 s at least. What comes later than that proves nothing.

use std::collections::HashMap;

use crate::attempt::Attempt;
use crate::history::{History, Operation};
use crate::holds::{Lock, fences_known};
use crate::lease::Clock;
use crate::outcome::{Answer, Outcome};
use crate::request::Request;
use crate::verdict::{Check, Violation};

/// What needs no time: a fence belongs to one lock, and to one attempt.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut locks: HashMap<u64, &Operation> = HashMap::new();
    let mut attempts: HashMap<u64, &Operation> = HashMap::new();
    let mut violations = Vec::new();
    for operation in &history.operations {
        for fence in fences_known(operation) {
            let first = *locks.entry(fence).or_insert(operation);
            if first.request.lock() != operation.request.lock() {
                let what = format!("fence {fence} was granted for two locks");
                violations.push(Violation::new(Check::OneEffect, what, &[first, operation]));
            } else if is_told_as_its_own(operation) {
                let first = *attempts.entry(fence).or_insert(operation);
                if first.request.attempt() != operation.request.attempt() {
                    let what = format!("fence {fence} was granted to two attempts");
                    violations.push(Violation::new(Check::OneEffect, what, &[first, operation]));
                }
            }
        }
    }
    violations
}

fn is_told_as_its_own(operation: &Operation) -> bool {
    matches!(operation.outcome, Outcome::Ok(Answer::Granted { .. } | Answer::Released { .. }))
}

/// What needs it: within the memory of the service an attempt has one fence, and one end.
pub(super) fn check_times(lock: &Lock<'_>, clock: Clock) -> Vec<Violation> {
    let mut violations = Vec::new();
    for hold in &lock.holds {
        let Some(attempt) = lock.attempt_of(hold) else { continue };
        let remembered = hold.sure_until.0.saturating_add(clock.memory());
        let later = attempt.fences.range(hold.fence + 1..).next();
        let later = later.and_then(|fence| lock.hold(*fence));
        if let Some(later) = later.filter(|later| later.known_at() < remembered) {
            let what =
                format!("one attempt was granted twice, with fences {} and {}", hold.fence, later.fence);
            violations.push(Violation::new(Check::OneEffect, what, &[hold.sure_until.1, later.known_by]));
        }
        for call in releases_that_forget(attempt).filter(|call| call.completed < remembered) {
            if call.invoked > hold.known_at() {
                let what = format!("a release says that nothing was held, after fence {}", hold.fence);
                violations.push(Violation::new(Check::OneEffect, what, &[hold.known_by, call]));
            }
        }
    }
    violations.extend(lock.attempts.values().flat_map(|attempt| second_release_refused(attempt, clock)));
    violations
}

fn releases_that_forget<'a>(attempt: &Attempt<'a>) -> impl Iterator<Item = &'a Operation> {
    let forgets = |call: &&Operation| call.outcome == Outcome::Ok(Answer::Released { fence: None });
    attempt.releases().iter().copied().filter(forgets)
}

/// A release that was refused although one before it was a success.
fn second_release_refused(attempt: &Attempt<'_>, clock: Clock) -> Option<Violation> {
    let is_success = |call: &&&Operation| matches!(call.outcome, Outcome::Ok(_));
    let first = attempt.releases().iter().filter(is_success).min_by_key(|call| call.completed)?;
    // It had come to its end after the last call that was told of the hold was sent, or after it was first asked for.
    let granted = attempt.calls.iter().filter(|call| call.granted().is_some());
    let alive = granted.map(|call| call.invoked).max().or(attempt.asked())?;
    let remembered = alive.saturating_add(clock.memory());
    let is_refused = |call: &&&Operation| match (&call.request, &call.outcome) {
        (Request::Release { .. }, Outcome::Refused(refusal)) => {
            refusal.code.denies_hold() && call.invoked > first.completed && call.completed < remembered
        }
        _ => false,
    };
    let refused = attempt.calls.iter().find(is_refused)?;
    let what = "a release was refused after one with the same token had been a success".to_owned();
    Some(Violation::new(Check::OneEffect, what, &[first, refused]))
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::verdict::Check::OneEffect;

    #[test]
    fn an_attempt_with_two_fences_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.acquires("a", 10_000..10_005, 100).granted(2);
        story.assert_found(OneEffect, "one attempt was granted twice");
    }

    #[test]
    fn an_attempt_that_may_have_been_forgotten_may_be_granted_anew() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.acquires("a", 60_000..60_100, 100).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_fence_of_two_attempts_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.acquires("b", 500..505, 100).granted(1);
        story.assert_found(OneEffect, "to two attempts");
    }

    #[test]
    fn a_fence_of_two_readers_is_found() {
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 10..15, 1_000).granted(1);
        story.assert_found(OneEffect, "to two attempts");
    }

    #[test]
    fn a_fence_of_two_locks_is_found_also_where_only_a_read_shows_it() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.at("another").reads(200..210).sees(&[("b", 1)], &[]);
        story.assert_found(OneEffect, "for two locks");
    }

    #[test]
    fn a_second_release_that_is_refused_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.releases("a", 10..15).released(1);
        story.releases("a", 500..510).refused("not_holder");
        story.assert_found(OneEffect, "a release was refused");
    }

    #[test]
    fn releasing_again_and_again_is_right_and_so_is_a_refusal_a_minute_later() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.releases("a", 10..15).released(1);
        story.releases("a", 500..510).released(1);
        story.releases("a", 61_000..61_005).refused("not_holder");
        story.assert_clean();
    }

    #[test]
    fn a_release_that_does_not_know_of_the_hold_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 10..15).left();
        story.assert_found(OneEffect, "nothing was held");
    }
}
