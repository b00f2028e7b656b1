//! Nobody is granted a lock within the lease of another: the fence of a later grant is told only after the lease of
//! every earlier one is over, unless that was released.

use crate::holds::{Hold, Lock};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest: Option<&Hold<'_>> = None;
    for hold in &lock.holds {
        if let Some(earlier) = longest.filter(|earlier| earlier.sure_until.0 > hold.known_at()) {
            violations.push(violation(earlier, hold));
        }
        if longest.is_none_or(|longest| longest.sure_until.0 < hold.sure_until.0) {
            longest = Some(hold);
        }
    }
    violations
}

fn violation(earlier: &Hold<'_>, later: &Hold<'_>) -> Violation {
    let (until, by) = earlier.sure_until;
    let what = format!(
        "fence {} was known at {}, and fence {} held the lock until {} at least",
        later.fence,
        ms(later.known_at()),
        earlier.fence,
        ms(until)
    );
    Violation::new(Check::NoEarlyGrant, what, &[by, later.known_by])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::verdict::Check::NoEarlyGrant;

    #[test]
    fn a_grant_within_a_lease_is_found_also_where_the_newcomer_believes_nothing() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.waits("b", 10..900, 100, 5_000).granted(2);
        story.assert_found(NoEarlyGrant, "fence 2 was known");
    }

    #[test]
    fn a_grant_that_only_a_read_knows_of_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.reads(100..200).sees(&[("b", 2)], &[]);
        story.assert_found(NoEarlyGrant, "fence 2 was known");
    }

    #[test]
    fn an_early_grant_behind_one_that_is_known_later_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 10_000).granted(1);
        story.acquires("b", 20..12_000, 100).granted(2);
        story.acquires("c", 300..310, 100).granted(3);
        story.assert_found(NoEarlyGrant, "fence 3 was known");
    }

    #[test]
    fn a_grant_whose_answer_comes_after_the_lease_is_right() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.waits("b", 10..1_000, 100, 5_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_release_that_nobody_knows_of_may_have_made_room() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 50..60).unknown();
        story.waits("b", 10..61, 100, 5_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_release_that_was_refused_made_no_room() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.releases("a", 50..60).refused("no_leader");
        story.waits("b", 10..61, 100, 5_000).granted(2);
        story.assert_found(NoEarlyGrant, "fence 2 was known");
    }
}
