//! A hold that has ended does not come back: neither for its holder nor for others' eyes.

use crate::history::Operation;
use crate::holds::{Fact, Lock, What};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let ends = ends(lock);
    let mut violations = Vec::new();
    for fact in &lock.facts {
        let What::Held(place) = fact.what else { continue };
        if let Some(end) = ends[place].filter(|end| end.completed < fact.by.invoked) {
            violations.push(violation(lock.holds[place].fence, end, fact));
        }
    }
    violations
}

/// For each hold the operation that first proves its end.
fn ends<'a>(lock: &Lock<'a>) -> Vec<Option<&'a Operation>> {
    let mut ends: Vec<Option<&'a Operation>> = vec![None; lock.holds.len()];
    for fact in &lock.facts {
        let place = match fact.what {
            What::Ended(place) => place,
            What::NotHeld(place) if lock.holds[place].known_at() < fact.by.invoked => place,
            What::NotHeld(_) | What::Held(_) | What::Free => continue,
        };
        if ends[place].is_none_or(|end| fact.by.completed < end.completed) {
            ends[place] = Some(fact.by);
        }
    }
    ends
}

fn violation(fence: u64, end: &Operation, back: &Fact<'_>) -> Violation {
    let what = format!(
        "fence {fence} had ended by {}, and is there again at {}",
        ms(end.completed),
        ms(back.by.invoked)
    );
    Violation::new(Check::NoRevival, what, &[end, back.by])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::verdict::Check::NoRevival;

    #[test]
    fn a_renewal_after_an_end_by_force_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.forces(20..30, 1).forced(1);
        story.renews("a", 40..50).granted((1, 1_000));
        story.assert_found(NoRevival, "fence 1 had ended");
    }

    #[test]
    fn a_renewal_after_the_expiry_was_told_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 100).granted(1);
        story.renews("a", 200..210).refused("lease_expired");
        story.renews("a", 220..230).granted((1, 100));
        story.assert_found(NoRevival, "fence 1 had ended");
    }

    #[test]
    fn a_hold_that_is_seen_after_its_release_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 20..30).released(1);
        story.reads(40..50).sees(&[("a", 1)], &[]);
        story.assert_found(NoRevival, "fence 1 had ended");
    }

    #[test]
    fn a_repeated_acquire_that_gets_its_released_hold_again_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 20..30).released(1);
        story.acquires("a", 40..50, 1_000).granted(1);
        story.assert_found(NoRevival, "fence 1 had ended");
    }

    #[test]
    fn a_read_beside_the_release_may_see_either() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 20..30).released(1);
        story.reads(25..40).sees(&[], &[]);
        story.reads(30..45).sees(&[("a", 1)], &[]);
        story.assert_clean();
    }

    #[test]
    fn a_refusal_from_before_the_grant_ends_nothing() {
        let mut story = Story::default();
        story.acquires("b", 0..5, 100).granted(1);
        story.acquires("a", 10..15, 1_000).held_by("b", 1);
        story.acquires("a", 200..210, 1_000).granted(2);
        story.renews("a", 220..230).granted((2, 1_000));
        story.assert_clean();
    }

    #[test]
    fn a_reader_that_comes_back_beside_another_is_found() {
        let mut story = Story::default();
        story.reader("a", 0..5, 100).granted(1);
        story.reader("b", 10..15, 5_000).granted(2);
        story.renews("a", 200..210).refused("lease_expired");
        story.assert_clean();
        story.reads(220..230).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.assert_found(NoRevival, "fence 1 had ended");
    }
}
