//! Nobody is granted a lock within a lease that is in the way: the fence of a later grant is told only after the leases of
//! all earlier ones that it does not fit beside are over, unless those were released.

use crate::holds::{Hold, Lock};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let known_first = known_first(lock);
    let mut violations = Vec::new();
    // Earlier grants that may be in the way of one that comes yet.
    let mut earlier: Vec<&Hold<'_>> = Vec::new();
    for (hold, known_first) in lock.holds.iter().zip(known_first) {
        earlier.retain(|earlier| earlier.sure_until.0 > known_first);
        let there = earlier.iter().copied().filter(|earlier| earlier.sure_until.0 > hold.known_at());
        let there: Vec<&Hold<'_>> = there.collect();
        violations.extend(in_the_way(lock, &there, hold));
        earlier.push(hold);
    }
    violations
}

/// For each hold, when the first of it and all later ones was known.
fn known_first(lock: &Lock<'_>) -> Vec<u64> {
    let mut known_first: Vec<_> = lock.holds.iter().map(Hold::known_at).collect();
    for at in (1..known_first.len()).rev() {
        known_first[at - 1] = known_first[at - 1].min(known_first[at]);
    }
    known_first
}

/// What is wrong with a grant beside those that were surely there at that moment.
fn in_the_way(lock: &Lock<'_>, there: &[&Hold<'_>], later: &Hold<'_>) -> Option<Violation> {
    let misfits = there.iter().filter(|other| !other.fits_beside(later));
    if let Some(other) = misfits.max_by_key(|other| other.sure_until.0) {
        return Some(within_lease(other, later));
    }
    if let Some(other) = there.iter().find(|other| !lock.limits_agree(other, later)) {
        let what = format!(
            "fence {} was granted with another limit than fence {}, which held the lock until {} at least",
            later.fence,
            other.fence,
            ms(other.sure_until.0)
        );
        return Some(Violation::new(Check::NoEarlyGrant, what, &[other.sure_until.1, later.known_by]));
    }
    too_many_permits(lock, there, later)
}

fn too_many_permits(lock: &Lock<'_>, there: &[&Hold<'_>], later: &Hold<'_>) -> Option<Violation> {
    let out: u64 = there.iter().map(|hold| hold.permits()).sum();
    let (wanted, limit) = (later.permits(), lock.limit_max(later)?);
    if out + wanted <= limit {
        return None;
    }
    let what = format!(
        "fence {} with {wanted} permits was known at {}, when {out} of {limit} were out",
        later.fence,
        ms(later.known_at())
    );
    let mut operations: Vec<_> = there.iter().map(|hold| hold.sure_until.1).collect();
    operations.push(later.known_by);
    Some(Violation::new(Check::NoEarlyGrant, what, &operations))
}

fn within_lease(earlier: &Hold<'_>, later: &Hold<'_>) -> Violation {
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
    use crate::share::Share;
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

    #[test]
    fn a_writer_that_is_let_in_to_readers_is_found_and_a_reader_is_right() {
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 10..15, 1_000).granted(2);
        story.assert_clean();
        story.waits("c", 20..900, 100, 5_000).granted(3);
        story.assert_found(NoEarlyGrant, "fence 2 held the lock");
    }

    #[test]
    fn permits_that_were_not_there_are_found() {
        let mut story = Story::default();
        story.takes((2, 5), "a", 0..5, 1_000).granted(1);
        story.takes((2, 5), "b", 10..15, 1_000).granted(2);
        story.reads(500..510).sees_shares(&[("c", 3, Share::Permits(2))]);
        story.takes((2, 5), "c", 20..600, 100).granted(3);
        story.assert_found(NoEarlyGrant, "when 4 of 5 were out");
    }

    #[test]
    fn a_limit_that_was_ignored_is_found_unless_an_operator_may_have_changed_it() {
        let tell = |story: &mut Story| {
            story.takes((1, 5), "a", 0..5, 1_000).granted(1);
            story.takes((1, 3), "b", 30..35, 1_000).granted(2);
        };
        let mut story = Story::default();
        tell(&mut story);
        story.assert_found(NoEarlyGrant, "another limit");
        let mut story = Story::default();
        story.limits(10..20, 3).refused("no_leader");
        tell(&mut story);
        story.assert_found(NoEarlyGrant, "another limit");
        let mut story = Story::default();
        story.limits(10..20, 3).unknown();
        tell(&mut story);
        story.assert_clean();
    }
}
