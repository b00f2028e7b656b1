//! An acknowledged hold is there for its whole lease: from the moment that it is known, every answer agrees.

use crate::holds::{Fact, Hold, Lock, What};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let sure = SureSpans::of(lock);
    let mut violations = Vec::new();
    for fact in &lock.facts {
        let lost = match fact.what {
            What::Free => sure.around(fact),
            What::NotHeld(place) => Some(&lock.holds[place]).filter(|hold| is_sure_throughout(hold, fact)),
            What::Held(_) | What::Ended(_) => None,
        };
        violations.extend(lost.map(|hold| violation(hold, fact)));
    }
    violations
}

fn is_sure_throughout(hold: &Hold<'_>, fact: &Fact<'_>) -> bool {
    hold.known_at() < fact.by.invoked && fact.by.completed < hold.sure_until.0
}

/// The holds, so that the one which surely lasts throughout an operation is found quickly.
struct SureSpans<'a, 'b> {
    /// By the time that they are known at; each with the one of all those up to it that surely lasts longest.
    by_known: Vec<(u64, &'b Hold<'a>)>,
}

impl<'a, 'b> SureSpans<'a, 'b> {
    fn of(lock: &'b Lock<'a>) -> Self {
        let mut by_known: Vec<_> = lock.holds.iter().map(|hold| (hold.known_at(), hold)).collect();
        by_known.sort_by_key(|(known_at, _)| *known_at);
        for at in 1..by_known.len() {
            let before = by_known[at - 1].1;
            if before.sure_until.0 > by_known[at].1.sure_until.0 {
                by_known[at].1 = before;
            }
        }
        Self { by_known }
    }

    fn around(&self, fact: &Fact<'_>) -> Option<&'b Hold<'a>> {
        let known = self.by_known.partition_point(|(known_at, _)| *known_at < fact.by.invoked);
        let (_, hold) = self.by_known.get(known.checked_sub(1)?)?;
        Some(*hold).filter(|hold| is_sure_throughout(hold, fact))
    }
}

fn violation(hold: &Hold<'_>, fact: &Fact<'_>) -> Violation {
    let (until, by) = hold.sure_until;
    let what = format!(
        "fence {} holds the lock from {} until {} at least, and {} was told otherwise in between",
        hold.fence,
        ms(hold.known_at()),
        ms(until),
        fact.by.process
    );
    Violation::new(Check::NothingLost, what, &[hold.known_by, by, fact.by])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
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
}
