//! The checks, one file for each promise.
//!
//! None of them assumes anything of a call whose outcome is unknown: it may have taken effect at any moment since it was
//! invoked, or never. Moments that are equal say nothing about what came first.

mod fence_order;
mod linearizable;
mod no_early_grant;
mod no_late_expiry;
mod no_revival;
mod nothing_lost;
mod one_effect;
mod one_holder;
mod queue_order;
#[cfg(test)]
pub(crate) mod story;

use crate::history::History;
use crate::holds::{View, attempts_of_several};
use crate::lease::Clock;
use crate::verdict::{Check, Counts, NotMade, Verdict};

/// Checks a history.
pub fn check(history: &History) -> Verdict {
    let clock = Clock::new(history.header.clock_error_ppm);
    let views = View::all(history, clock);
    let mut violations = Vec::new();
    for view in &views {
        for lock in &view.locks {
            violations.extend(one_holder::check(lock, clock));
            violations.extend(no_early_grant::check(lock));
            violations.extend(nothing_lost::check(lock));
            violations.extend(no_revival::check(lock));
            violations.extend(linearizable::check(lock));
            violations.extend(no_late_expiry::check(lock, history, clock));
            violations.extend(queue_order::check(lock, history, clock));
            violations.extend(one_effect::check_times(lock, clock));
        }
        violations.extend(fence_order::check(view));
    }
    violations.extend(one_effect::check(history));
    violations.sort_by_key(|violation| (violation.check, violation.operations[0].invoked));
    Verdict { counts: Counts::of(history), violations, not_made: not_made(history) }
}

/// What the history does not tell enough for.
fn not_made(history: &History) -> Vec<NotMade> {
    let mut not_made = Vec::new();
    if !history.has_one_clock() {
        not_made.extend(without_one_clock(history));
    } else if history.conditions.is_empty() {
        let why = "the history marks no healthy times";
        not_made.push(NotMade { check: Check::NoLateExpiry, why: why.into() });
        let why = "the history marks no healthy times: only waiters of one node are compared";
        not_made.push(NotMade { check: Check::QueueOrder, why: why.into() });
    }
    if !queue_order::can_be_seen(history) {
        let why = "no read shows two waiters whose owners stand for one attempt each";
        not_made.retain(|other| other.check != Check::QueueOrder);
        not_made.push(NotMade { check: Check::QueueOrder, why: why.into() });
    }
    not_made
}

fn without_one_clock(history: &History) -> Vec<NotMade> {
    let shared = attempts_of_several(history).len();
    let mut why =
        "the clocks of the processes cannot be compared: only what each process saw for itself is".to_owned();
    if shared > 0 {
        why += &format!(", and {shared} attempts that several processes had a hand in are not");
    }
    let by_time = |check: &Check| !matches!(check, Check::NoLateExpiry | Check::OneEffect);
    let mut not_made: Vec<_> =
        Check::ALL.into_iter().filter(by_time).map(|check| NotMade { check, why: why.clone() }).collect();
    let why = "the clocks of the processes cannot be compared, so that there are no healthy times";
    not_made.push(NotMade { check: Check::NoLateExpiry, why: why.into() });
    not_made
}

#[cfg(test)]
mod tests {
    use super::story::Story;
    use crate::verdict::Check;

    #[test]
    fn where_clocks_cannot_be_compared_each_process_is_checked_alone_and_that_is_said() {
        let mut story = Story::default().without_one_clock();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.acquires("b", 500..510, 1_000).granted(2);
        story.assert_clean();
        let not_made = story.verdict().not_made;
        for check in [Check::OneHolder, Check::NoLateExpiry, Check::Linearizable] {
            assert!(not_made.iter().any(|not_made| not_made.check == check), "{}", check.name());
        }
        story.renews("a", 300..310).refused("lease_expired");
        story.assert_found(Check::NothingLost, "fence 1");
    }

    #[test]
    fn what_has_no_time_is_checked_across_processes_whatever_their_clocks() {
        let mut story = Story::default().without_one_clock();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.acquires("b", 500..510, 1_000).granted(1);
        story.assert_found(Check::OneEffect, "to two attempts");
    }
}
