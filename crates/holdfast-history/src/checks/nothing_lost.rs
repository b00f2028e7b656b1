//! An acknowledged hold is there for its whole lease, with all that it asked for: from the moment that it is known, every
//! answer agrees.

use std::collections::BTreeSet;

use crate::history::Operation;
use crate::holds::{Hold, Lock, Look, What, share_seen};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let mut violations = missing(lock);
    for fact in &lock.facts {
        let What::NotHeld(place) = fact.what else { continue };
        let hold = Some(&lock.holds[place]).filter(|hold| is_sure_throughout(hold, fact.by));
        violations.extend(hold.map(|hold| violation(hold, fact.by)));
    }
    violations.extend(lock.looks.iter().flat_map(|look| changed(lock, look)));
    violations
}

fn is_sure_throughout(hold: &Hold<'_>, by: &Operation) -> bool {
    hold.known_at() < by.invoked && by.completed < hold.sure_until.0
}

/// Reads that do not show a hold which surely lasts throughout them: each with the one that lasts longest.
fn missing(lock: &Lock<'_>) -> Vec<Violation> {
    let mut by_known: Vec<_> = lock.holds.iter().enumerate().collect();
    by_known.sort_by_key(|(_, hold)| hold.known_at());
    let mut by_known = by_known.into_iter().peekable();
    // By the end that is sure.
    let mut known: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut violations = Vec::new();
    // Reads stand in the order of their invocation.
    for look in &lock.looks {
        while let Some((place, hold)) = by_known.next_if(|(_, hold)| hold.known_at() < look.by.invoked) {
            known.insert((hold.sure_until.0, place));
        }
        let throughout = known.iter().rev().take_while(|(until, _)| look.by.completed < *until);
        let missing =
            throughout.map(|(_, place)| place).find(|place| look.holders.binary_search(place).is_err());
        violations.extend(missing.map(|place| violation(&lock.holds[*place], look.by)));
    }
    violations
}

/// Holders that a read shows with another share of the lock than they asked for.
fn changed(lock: &Lock<'_>, look: &Look<'_>) -> Vec<Violation> {
    let holds = look.holders.iter().map(|place| &lock.holds[*place]);
    let is_changed = |hold: &&Hold<'_>| {
        let asked = lock.attempt_of(hold).and_then(|attempt| attempt.wish());
        asked.is_some_and(|(asked, _)| share_seen(look.by, hold.fence).is_some_and(|seen| seen != asked))
    };
    let changed = holds.filter(is_changed).map(|hold| {
        let what =
            format!("a read shows fence {} with another share of the lock than it asked for", hold.fence);
        Violation::new(Check::NothingLost, what, &[hold.known_by, look.by])
    });
    changed.collect()
}

fn violation(hold: &Hold<'_>, told: &Operation) -> Violation {
    let (until, by) = hold.sure_until;
    let what = format!(
        "fence {} holds the lock from {} until {} at least, and {} was told otherwise in between",
        hold.fence,
        ms(hold.known_at()),
        ms(until),
        told.process
    );
    Violation::new(Check::NothingLost, what, &[hold.known_by, by, told])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::share::Share;
    use crate::verdict::Check::NothingLost;

    #[test]
    fn a_live_hold_that_a_renewal_does_not_find_is_lost() {
        for code in ["not_holder", "lease_expired", "lease_released"] {
            let mut story = Story::default();
            story.acquires("a", 0..5, 1_000).granted(1);
            story.renews("a", 300..310).refused(code);
            story.assert_found(NothingLost, "fence 1");
        }
    }

    #[test]
    fn a_live_hold_that_a_read_does_not_see_is_lost() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.reads(300..310).sees(&[], &[]);
        story.assert_found(NothingLost, "fence 1");
    }

    #[test]
    fn a_renewed_hold_is_looked_for_until_its_new_end() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.renews("a", 900..905).granted((1, 1_000));
        story.reads(1_500..1_510).sees(&[], &[]);
        story.assert_found(NothingLost, "fence 1");
    }

    #[test]
    fn a_hold_may_be_gone_after_its_lease() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.renews("a", 980..1_001).refused("lease_expired");
        story.reads(990..1_001).sees(&[], &[]);
        story.assert_clean();
    }

    #[test]
    fn a_read_from_before_the_answer_may_see_nobody() {
        let mut story = Story::default();
        story.acquires("a", 0..50, 1_000).granted(1);
        story.reads(50..60).sees(&[], &[]);
        story.assert_clean();
    }

    #[test]
    fn a_renewal_that_no_leader_answered_says_nothing() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.renews("a", 300..310).refused("no_leader");
        story.assert_clean();
    }

    #[test]
    fn a_reader_that_a_read_does_not_show_beside_another_is_lost() {
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 10..15, 5_000).granted(2);
        story.reads(900..910).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.reads(1_100..1_110).sees_shares(&[("b", 2, SHARED)]);
        story.assert_clean();
        story.reads(500..510).sees_shares(&[("b", 2, SHARED)]);
        story.assert_found(NothingLost, "fence 1");
    }

    #[test]
    fn permits_that_become_fewer_are_found() {
        let mut story = Story::default();
        story.takes((3, 5), "a", 0..5, 1_000).granted(1);
        story.reads(10..20).sees_shares(&[("a", 1, Share::Permits(3))]);
        story.assert_clean();
        story.reads(30..40).sees_shares(&[("a", 1, Share::Permits(1))]);
        story.assert_found(NothingLost, "another share");
    }
}
