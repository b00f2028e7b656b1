//! Those who may believe that they hold a lock fit beside each other: one alone, several that share it, or as many as there
//! are permits for.
//!
//! A client may believe so from the moment it has the answer until its TTL after it *sent* the request, or until it asks
//! for the release.

use std::collections::BTreeMap;

use crate::history::Operation;
use crate::holds::{Hold, Lock, Look, share_seen};
use crate::lease::{Clock, ms};
use crate::verdict::{Check, Violation};

/// A span of time in which a client may believe that it holds the lock.
#[derive(Clone, Copy, Debug)]
struct Belief<'a, 'b> {
    from: u64,
    until: u64,
    hold: &'b Hold<'a>,
    by: &'a Operation,
}

pub(super) fn check(lock: &Lock<'_>, clock: Clock) -> Vec<Violation> {
    let mut violations: Vec<_> = lock.looks.iter().filter_map(|look| seen_too_many(lock, look)).collect();
    // Of each hold the belief that lasts longest so far.
    let mut current: BTreeMap<u64, Belief<'_, '_>> = BTreeMap::new();
    for belief in beliefs(lock, clock) {
        current.retain(|_, other| other.until > belief.from);
        let others = current.values().filter(|other| !other.hold.fits_beside(belief.hold));
        let other =
            others.filter(|other| other.hold.fence != belief.hold.fence).max_by_key(|other| other.until);
        if let Some(other) = other {
            violations.push(Violation::new(
                Check::OneHolder,
                overlap(other, &belief),
                &[other.by, belief.by],
            ));
        }
        let known = current.entry(belief.hold.fence).or_insert(belief);
        if known.until < belief.until {
            *known = belief;
        }
        violations.extend(too_many_permits(lock, &current, &belief));
    }
    violations
}

fn overlap(one: &Belief<'_, '_>, other: &Belief<'_, '_>) -> String {
    let (from, until) = (one.from.max(other.from), one.until.min(other.until));
    format!(
        "fences {} and {} are both believed to be held for {}, from {} on",
        one.hold.fence,
        other.hold.fence,
        ms(until - from),
        ms(from)
    )
}

/// All who believe at once held the lock when the last of them was granted: there were permits for all of them then.
fn too_many_permits(
    lock: &Lock<'_>,
    current: &BTreeMap<u64, Belief<'_, '_>>,
    latest: &Belief<'_, '_>,
) -> Option<Violation> {
    let holds: Vec<&Hold<'_>> = current.values().map(|belief| belief.hold).collect();
    let (out, limit) = permits_beyond_limit(lock, &holds)?;
    let what = format!("{out} permits of {limit} are believed to be held at {}", ms(latest.from));
    let operations: Vec<_> = current.values().map(|belief| belief.by).collect();
    Some(Violation::new(Check::OneHolder, what, &operations))
}

/// How many permits these have, and how many there can have been when the last of them was granted, if those are fewer.
/// They stand in the order of their fences.
fn permits_beyond_limit(lock: &Lock<'_>, holds: &[&Hold<'_>]) -> Option<(u64, u64)> {
    let out = holds.iter().map(|hold| hold.permits()).sum();
    let last = holds.last().filter(|_| out > 0)?;
    lock.limit_max(last).filter(|limit| out > *limit).map(|limit| (out, limit))
}

/// In the order in which they begin.
fn beliefs<'a, 'b>(lock: &'b Lock<'a>, clock: Clock) -> Vec<Belief<'a, 'b>> {
    let mut beliefs = Vec::new();
    for hold in &lock.holds {
        let Some(attempt) = lock.attempt_of(hold) else { continue };
        for call in &attempt.calls {
            let Some((_, ttl_ms)) = call.granted().filter(|(fence, _)| *fence == hold.fence) else {
                continue;
            };
            let (from, until) = (call.completed, attempt.lease_end_min(call, ttl_ms, clock));
            if from < until {
                beliefs.push(Belief { from, until, hold, by: call });
            }
        }
    }
    beliefs.sort_by_key(|belief| belief.from);
    beliefs
}

fn seen_too_many(lock: &Lock<'_>, look: &Look<'_>) -> Option<Violation> {
    let holds: Vec<&Hold<'_>> = look.holders.iter().map(|place| &lock.holds[*place]).collect();
    let shares: Vec<_> = holds.iter().filter_map(|hold| share_seen(look.by, hold.fence)).collect();
    let apart = |at: usize| shares[at + 1..].iter().any(|other| !shares[at].fits_beside(*other));
    let node = &look.by.node;
    let what = if (0..shares.len()).any(apart) {
        format!("a read of {node} saw several holders at once")
    } else {
        let (out, limit) = permits_beyond_limit(lock, &holds)?;
        format!("a read of {node} saw {out} permits of {limit} held")
    };
    Some(Violation::new(Check::OneHolder, what, &[look.by]))
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::share::Share;
    use crate::verdict::Check::OneHolder;

    #[test]
    fn from_a_force_on_nobody_relies_on_that_fence_and_on_any_other_still() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.forces(100..110, 1).forced(1);
        story.acquires("b", 105..115, 1_000).granted(2);
        story.assert_clean();

        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.forces(100..110, 9).refused("not_holder");
        story.forces(100..110, 1).refused("no_leader");
        story.acquires("b", 105..115, 1_000).granted(2);
        story.assert_found(OneHolder, "fences 1 and 2");
    }

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

    #[test]
    fn readers_may_believe_at_once() {
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 100..110, 1_000).granted(2);
        story.reads(200..210).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.assert_clean();
    }

    #[test]
    fn a_reader_beside_a_writer_and_a_writer_beside_a_reader_are_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.reader("b", 100..110, 1_000).granted(2);
        story.assert_found(OneHolder, "fences 1 and 2");
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 10..15, 5_000).granted(2);
        story.acquires("c", 2_000..2_010, 1_000).granted(3);
        story.assert_found(OneHolder, "fences 2 and 3");
    }

    #[test]
    fn two_writers_beside_each_other_are_found_on_a_lock_that_readers_use_too() {
        let mut story = Story::default();
        story.reader("a", 0..5, 100).granted(1);
        story.acquires("b", 500..505, 1_000).granted(2);
        story.acquires("c", 600..605, 1_000).granted(3);
        story.assert_found(OneHolder, "fences 2 and 3");
    }

    #[test]
    fn a_permit_too_many_is_found() {
        let mut story = Story::default();
        story.takes((2, 5), "a", 0..5, 1_000).granted(1);
        story.takes((2, 5), "b", 10..15, 1_000).granted(2);
        story.assert_clean();
        story.takes((2, 5), "c", 20..25, 1_000).granted(3);
        story.assert_found(OneHolder, "6 permits of 5");
    }

    #[test]
    fn permits_of_those_who_may_have_released_do_not_count() {
        let mut story = Story::default();
        story.takes((2, 5), "a", 0..5, 1_000).granted(1);
        story.takes((2, 5), "b", 10..15, 1_000).granted(2);
        story.releases("a", 16..18).unknown();
        story.takes((3, 5), "c", 20..25, 1_000).granted(3);
        story.assert_clean();
    }

    #[test]
    fn a_limit_that_may_have_been_raised_makes_room_and_one_that_was_lowered_takes_nothing_away() {
        let mut story = Story::default();
        story.takes((5, 5), "a", 0..5, 1_000).granted(1);
        story.limits(10..20, 8).unknown();
        story.takes((3, 8), "b", 30..40, 1_000).granted(2);
        story.limits(50..60, 2).limited(2);
        story.reads(70..80).sees_shares(&[("a", 1, Share::Permits(5)), ("b", 2, Share::Permits(3))]);
        story.assert_clean();
        story.takes((1, 2), "c", 90..95, 1_000).granted(3);
        story.assert_found(OneHolder, "9 permits of 8");
    }

    /// The service repeats a call whose answer it has lost itself; the second time there may be nothing to change.
    #[test]
    fn a_limit_whose_change_was_refused_for_want_of_users_may_have_been_changed_before() {
        let story = |code| {
            let mut story = Story::default();
            story.takes((5, 5), "a", 0..5, 1_000).granted(1);
            story.limits(10..900, 8).refused(code);
            story.takes((3, 8), "b", 30..40, 1_000).granted(2);
            story
        };
        story("no_limit").assert_clean();
        assert!(!story("invalid_argument").verdict().violations.is_empty());
    }

    #[test]
    fn a_read_that_shows_a_reader_beside_a_writer_or_a_permit_too_many_is_found() {
        let mut story = Story::default();
        story.reads(0..5).sees_shares(&[("a", 1, SHARED), ("b", 2, Share::All)]);
        story.assert_found(OneHolder, "several holders");
        let mut story = Story::default();
        story.takes((3, 5), "a", 0..50, 1_000).granted(1);
        story.takes((3, 5), "b", 0..50, 1_000).granted(2);
        story.releases("a", 50..900).released(1);
        story.reads(100..110).sees_shares(&[("a", 1, Share::Permits(3)), ("b", 2, Share::Permits(3))]);
        story.assert_found(OneHolder, "6 permits of 5 held");
    }
}
