//! Fences go up with time, over all locks: a grant that is asked for after another was told has the higher fence.

use crate::history::Operation;
use crate::holds::{Hold, View, fences_known};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

pub(super) fn check(view: &View<'_>) -> Vec<Violation> {
    let operations = view.locks.iter().flat_map(|lock| &lock.operations);
    let known = |operation| fences_known(operation).map(move |fence| (fence, operation));
    let mut told: Vec<(u64, &Operation)> = operations.flat_map(|operation| known(*operation)).collect();
    told.sort_by_key(|(_, operation)| operation.completed);
    let mut told = told.into_iter().peekable();
    let mut highest: Option<(u64, &Operation)> = None;
    let mut violations = Vec::new();
    for hold in holds_by_asking(view) {
        while let Some((fence, by)) = told.next_if(|(_, operation)| operation.completed < hold.asked) {
            if highest.is_none_or(|(highest, _)| highest < fence) {
                highest = Some((fence, by));
            }
        }
        if let Some((fence, by)) = highest.filter(|(fence, _)| *fence >= hold.fence) {
            violations.push(violation(hold, fence, by));
        }
    }
    violations
}

fn holds_by_asking<'a, 'b>(view: &'b View<'a>) -> Vec<&'b Hold<'a>> {
    let holds = view.locks.iter().flat_map(|lock| &lock.holds);
    let mut holds: Vec<_> = holds.filter(|hold| hold.asked > 0).collect();
    holds.sort_by_key(|hold| hold.asked);
    holds
}

fn violation(hold: &Hold<'_>, fence: u64, by: &Operation) -> Violation {
    let what = format!(
        "fence {} was asked for at {}, after fence {fence} had been told at {}",
        hold.fence,
        ms(hold.asked),
        ms(by.completed)
    );
    Violation::new(Check::FenceOrder, what, &[by, hold.known_by])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::verdict::Check::FenceOrder;

    #[test]
    fn a_fence_that_goes_back_is_found() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 100).granted(7);
        story.acquires("b", 500..505, 100).granted(6);
        story.assert_found(FenceOrder, "fence 6 was asked for");
    }

    #[test]
    fn a_fence_that_goes_back_at_another_lock_is_found() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 100).granted(7);
        story.at("another").acquires("b", 6..10, 100).granted(3);
        story.assert_found(FenceOrder, "fence 3 was asked for");
    }

    #[test]
    fn a_fence_that_repeats_after_a_read_has_shown_it_is_found() {
        let mut story = Story::default();
        story.reads(1..5).sees(&[("a", 7)], &[]);
        story.at("another").acquires("b", 6..10, 100).granted(7);
        story.assert_found(FenceOrder, "fence 7 was asked for");
    }

    #[test]
    fn readers_whose_fences_do_not_rise_are_found() {
        let mut story = Story::default();
        story.reader("a", 1..5, 1_000).granted(7);
        story.reader("b", 10..15, 1_000).granted(6);
        story.assert_found(FenceOrder, "fence 6 was asked for");
    }

    #[test]
    fn a_fence_below_one_of_several_that_a_read_has_shown_is_found() {
        let mut story = Story::default();
        story.reads(1..5).sees_shares(&[("a", 3, SHARED), ("b", 7, SHARED)]);
        story.reader("c", 10..15, 1_000).granted(6);
        story.assert_found(FenceOrder, "fence 6 was asked for");
    }

    #[test]
    fn grants_of_calls_that_overlap_may_have_either_order() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 100).granted(7);
        story.at("another").acquires("b", 5..10, 100).granted(6);
        story.assert_clean();
    }
}
