//! At most one client at a time may believe that it holds a lock.
//!
//! A client may believe so from the moment it has the answer until its TTL after it *sent* the request, or until it asks
//! for the release.

use crate::history::Operation;
use crate::holds::Lock;
use crate::lease::{Clock, ms};
use crate::outcome::{Answer, Outcome};
use crate::verdict::{Check, Violation};

/// A span of time in which a client may believe that it holds the lock.
#[derive(Clone, Copy, Debug)]
struct Belief<'a> {
    from: u64,
    until: u64,
    fence: u64,
    by: &'a Operation,
}

pub(super) fn check(lock: &Lock<'_>, clock: Clock) -> Vec<Violation> {
    let mut violations = two_holders_seen(lock);
    let mut longest: Vec<Belief<'_>> = Vec::new();
    for belief in beliefs(lock, clock) {
        let other = longest.iter().find(|other| other.fence != belief.fence && other.until > belief.from);
        if let Some(other) = other {
            violations.push(Violation::new(
                Check::OneHolder,
                overlap(other, &belief),
                &[other.by, belief.by],
            ));
        }
        keep_longest(&mut longest, belief);
    }
    violations
}

fn overlap(one: &Belief<'_>, other: &Belief<'_>) -> String {
    let (from, until) = (one.from.max(other.from), one.until.min(other.until));
    format!(
        "fences {} and {} are both believed to be held for {}, from {} on",
        one.fence,
        other.fence,
        ms(until - from),
        ms(from)
    )
}

/// Of all beliefs so far, the one that lasts longest, and the longest of another fence: no other can matter any more.
fn keep_longest<'a>(longest: &mut Vec<Belief<'a>>, belief: Belief<'a>) {
    match longest.iter_mut().find(|other| other.fence == belief.fence) {
        Some(same) if same.until < belief.until => *same = belief,
        Some(_) => {}
        None => longest.push(belief),
    }
    longest.sort_by_key(|belief| std::cmp::Reverse(belief.until));
    longest.truncate(2);
}

/// In the order in which they begin.
fn beliefs<'a>(lock: &Lock<'a>, clock: Clock) -> Vec<Belief<'a>> {
    let mut beliefs = Vec::new();
    for hold in &lock.holds {
        let Some(attempt) = lock.attempt_of(hold) else { continue };
        for call in &attempt.calls {
            let Some((fence, ttl_ms)) = call.granted().filter(|(fence, _)| *fence == hold.fence) else {
                continue;
            };
            let (from, until) = (call.completed, attempt.lease_end_min(call, ttl_ms, clock));
            if from < until {
                beliefs.push(Belief { from, until, fence, by: call });
            }
        }
    }
    beliefs.sort_by_key(|belief| belief.from);
    beliefs
}

fn two_holders_seen(lock: &Lock<'_>) -> Vec<Violation> {
    let sees_two = |operation: &&&Operation| match &operation.outcome {
        Outcome::Ok(Answer::Seen { holders, .. }) => holders.len() > 1,
        _ => false,
    };
    let what = |operation: &Operation| format!("a read of {} saw several holders at once", operation.node);
    let seen = lock.operations.iter().filter(sees_two);
    seen.map(|read| Violation::new(Check::OneHolder, what(read), &[read])).collect()
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::verdict::Check::OneHolder;

    #[test]
    fn two_clients_that_believe_at_once_are_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.acquires("b", 500..510, 1_000).granted(2);
        story.assert_found(OneHolder, "fences 1 and 2");
    }

    #[test]
    fn a_short_belief_within_a_long_one_is_found_behind_another_short_one() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 10_000).granted(1);
        story.renews("a", 20..25).granted((1, 10_000));
        story.acquires("b", 2_000..2_010, 100).granted(2);
        story.acquires("c", 3_000..3_010, 100).granted(3);
        assert_eq!(story.verdict().of(OneHolder).count(), 2);
    }

    #[test]
    fn a_belief_ends_with_the_request_to_release() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 100..200).unknown();
        story.acquires("b", 101..110, 1_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_belief_ends_one_ttl_after_the_request_was_sent_not_after_it_was_answered() {
        let mut story = Story::default();
        story.acquires("a", 0..600, 1_000).granted(1);
        story.acquires("b", 900..1_001, 1_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_renewal_with_a_shorter_ttl_shortens_a_belief_also_if_nobody_knows_whether_it_was_done() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 10_000).granted(1);
        story.renews_for("a", 100..200, 500).unknown();
        story.acquires("b", 550..650, 1_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_renewal_with_a_shorter_ttl_that_came_before_does_not_shorten_a_belief() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 10_000).granted(1);
        story.renews_for("a", 100..200, 500).granted((1, 500));
        story.renews_for("a", 300..310, 10_000).granted((1, 10_000));
        story.acquires("b", 1_000..1_010, 1_000).granted(2);
        story.assert_found(OneHolder, "fences 1 and 2");
    }

    #[test]
    fn a_read_that_shows_two_holders_is_found() {
        let mut story = Story::default();
        story.reads(0..5).sees(&[("a", 1), ("b", 2)], &[]);
        story.assert_found(OneHolder, "several holders");
    }

    #[test]
    fn clocks_that_may_differ_make_beliefs_shorter() {
        let mut story = Story::default().with_clock_error_ppm(50_000);
        story.acquires("a", 0..5, 1_000).granted(1);
        story.acquires("b", 900..955, 1_000).granted(2);
        story.assert_clean();
    }
}
