//! A lock that several may hold at once: each grant, and each end of a hold, has a span of moments at which it can have
//! been.
//!
//! What clients were told narrows the spans: grants come in the order of their fences; who does not fit beside another comes
//! after its end; who is not in a read's answer had not come yet, or had gone. Where a span has no moment left, or a read
//! none at which all that it showed and nobody else was there, no order explains the answers. Unlike a search it may
//! miss that answers agree one by one and not together; what it finds is always wrong.

use std::collections::BTreeSet;

use crate::history::Operation;
use crate::holds::{Lock, Look, What};
use crate::lease::ms;
use crate::share::Share;
use crate::verdict::{Check, Violation};

/// A moment, and the operation that proves that it is a bound.
type Bound<'a> = (u64, Option<&'a Operation>);

const NEVER: Bound<'static> = (u64::MAX, None);

/// When something can have been, at the earliest and at the latest.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    from: Bound<'a>,
    until: Bound<'a>,
}

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let spans = Spans::of(lock);
    let mut violations = spans.without_a_moment();
    violations.extend(spans.looks_without_a_moment());
    violations
}

/// Of each hold, in the order of fences.
struct Spans<'a, 'b> {
    lock: &'b Lock<'a>,
    grants: Vec<Span<'a>>,
    ends: Vec<Span<'a>>,
}

impl<'a, 'b> Spans<'a, 'b> {
    fn of(lock: &'b Lock<'a>) -> Self {
        let grants = lock
            .holds
            .iter()
            .map(|hold| Span { from: (hold.asked, None), until: (hold.known_at(), Some(hold.known_by)) });
        let ends = lock
            .holds
            .iter()
            .map(|hold| Span { from: (hold.sure_until.0, Some(hold.sure_until.1)), until: NEVER });
        let mut spans = Self { lock, grants: grants.collect(), ends: ends.collect() };
        spans.narrow_grants();
        spans.narrow_ends_by_answers();
        spans.narrow_ends_by_looks();
        spans.narrow_ends_by_grants();
        spans
    }

    /// Grants follow each other, and each comes after the end of what it does not fit beside.
    fn narrow_grants(&mut self) {
        for at in (1..self.grants.len()).rev() {
            self.grants[at - 1].until = earlier(self.grants[at - 1].until, self.grants[at].until);
        }
        let mut last_ends: [Bound<'a>; 3] = [(0, None); 3];
        for at in 0..self.grants.len() {
            let mut from = self.grants[at].from;
            if at > 0 {
                from = later(from, self.grants[at - 1].from);
            }
            for kind in self.misfits(at) {
                from = later(from, last_ends[kind]);
            }
            self.grants[at].from = from;
            self.ends[at].from = later(self.ends[at].from, from);
            if let Some(kind) = self.kind(at) {
                last_ends[kind] = later(last_ends[kind], self.ends[at].from);
            }
        }
    }

    fn narrow_ends_by_answers(&mut self) {
        for fact in &self.lock.facts {
            let place = match fact.what {
                What::Ended(place) => place,
                What::NotHeld(place) if self.grants[place].until.0 < fact.by.invoked => place,
                What::NotHeld(_) | What::Held(_) | What::Free => continue,
            };
            self.has_ended_by(place, fact.by);
        }
    }

    /// Whoever surely came before a read, or before one that it shows, and is not shown, had gone.
    fn narrow_ends_by_looks(&mut self) {
        let mut looks: Vec<_> = self.lock.looks.iter().collect();
        looks.sort_by_key(|look| look.by.completed);
        let mut there: BTreeSet<usize> = (0..self.grants.len()).collect();
        for look in looks {
            let came = self.grants.partition_point(|grant| grant.until.0 < look.by.invoked);
            let came = came.max(look.holders.last().copied().unwrap_or(0));
            let is_gone = |place: &usize| look.holders.binary_search(place).is_err();
            let gone: Vec<_> = there.range(..came).copied().filter(is_gone).collect();
            for place in gone {
                there.remove(&place);
                self.has_ended_by(place, look.by);
            }
        }
    }

    fn narrow_ends_by_grants(&mut self) {
        let mut next_grants = [NEVER; 3];
        for at in (0..self.grants.len()).rev() {
            for kind in self.misfits(at) {
                self.ends[at].until = earlier(self.ends[at].until, next_grants[kind]);
            }
            if let Some(kind) = self.kind(at) {
                next_grants[kind] = self.grants[at].until;
            }
        }
    }

    fn has_ended_by(&mut self, place: usize, by: &'a Operation) {
        self.ends[place].until = earlier(self.ends[place].until, (by.completed, Some(by)));
    }

    /// A number for each way to take a lock.
    fn kind(&self, at: usize) -> Option<usize> {
        self.lock.holds[at].share.map(|share| match share {
            Share::All => 0,
            Share::Shared => 1,
            Share::Permits(_) => 2,
        })
    }

    /// The ways that a hold does not fit beside.
    fn misfits(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let kind = self.kind(at);
        (0..3).filter(move |other| kind.is_some_and(|kind| kind == 0 || kind != *other))
    }

    fn without_a_moment(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for ((hold, grant), end) in self.lock.holds.iter().zip(&self.grants).zip(&self.ends) {
            for (span, what) in [(grant, "granted"), (end, "ended")] {
                if span.from.0 > span.until.0 {
                    let (fence, from, until) = (hold.fence, ms(span.from.0), ms(span.until.0));
                    let what = format!(
                        "fence {fence} must have been {what} by {until}, and cannot have been before {from}"
                    );
                    violations.push(violation(what, &[span.from.1, span.until.1, Some(hold.known_by)]));
                }
            }
        }
        violations
    }

    fn looks_without_a_moment(&self) -> Vec<Violation> {
        // Those who may be there yet when a read begins.
        let (mut there, mut next) = (Vec::new(), 0);
        let mut violations = Vec::new();
        // Reads stand in the order of their invocation.
        for look in &self.lock.looks {
            while self.grants.get(next).is_some_and(|grant| grant.until.0 <= look.by.completed) {
                there.push(next);
                next += 1;
            }
            there.retain(|place| self.ends[*place].from.0 > look.by.invoked);
            violations.extend(self.without_its_moment(look, &there));
        }
        violations
    }

    /// Looks for a moment at which all of the holders were there and nobody else.
    fn without_its_moment(&self, look: &Look<'a>, there: &[usize]) -> Option<Violation> {
        let (mut from, mut until) = ((look.by.invoked, None), (look.by.completed, None));
        for place in &look.holders {
            from = later(from, self.grants[*place].from);
            until = earlier(until, self.ends[*place].until);
        }
        let last = look.holders.last().copied().unwrap_or(0);
        // They stand in the order of their grants, which makes one walk enough.
        for place in there.iter().filter(|place| look.holders.binary_search(place).is_err()) {
            let (grant, end) = (self.grants[*place], self.ends[*place]);
            if *place < last || grant.until.0 < from.0 {
                from = later(from, end.from);
            }
        }
        (from.0 > until.0).then(|| {
            let what = format!("{} saw what the lock was at no moment of the call", look.by.process);
            violation(what, &[from.1, until.1, Some(look.by)])
        })
    }
}

fn earlier<'a>(one: Bound<'a>, other: Bound<'a>) -> Bound<'a> {
    if other.0 < one.0 { other } else { one }
}

fn later<'a>(one: Bound<'a>, other: Bound<'a>) -> Bound<'a> {
    if other.0 > one.0 { other } else { one }
}

fn violation(what: String, operations: &[Option<&Operation>]) -> Violation {
    let operations: Vec<_> = operations.iter().copied().flatten().collect();
    Violation::new(Check::Linearizable, what, &operations)
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{SHARED, Story};
    use crate::share::Share;
    use crate::verdict::Check::Linearizable;

    #[test]
    fn readers_that_come_and_go_are_right() {
        let mut story = Story::default();
        story.reader("a", 0..5, 100).granted(1);
        story.reads(2..8).sees(&[], &[]);
        story.reader("b", 10..15, 5_000).granted(2);
        story.reads(10..300).sees_shares(&[("b", 2, SHARED)]);
        story.reads(11..20).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.releases("b", 350..360).released(2);
        story.acquires("c", 355..370, 100).granted(3);
        story.assert_clean();
    }

    #[test]
    fn a_stale_read_among_readers_is_found() {
        let mut story = Story::default();
        story.reader("a", 0..5, 1_000).granted(1);
        story.reader("b", 10..15, 1_000).granted(2);
        story.releases("a", 20..25).released(1);
        story.reads(30..40).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.assert_found(Linearizable, "fence 1 must have been ended by 25.000 ms");
    }

    #[test]
    fn a_reader_that_is_there_before_a_writer_has_gone_is_found() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.reads(10..20).sees_shares(&[("b", 2, SHARED)]);
        story.reader("b", 5..900, 1_000).granted(2);
        story.assert_found(Linearizable, "fence 2 must have been granted by 20.000 ms");
    }

    #[test]
    fn a_read_that_leaves_out_one_after_another_has_no_moment() {
        // Until 999 ms the first is there, from 900 ms on the second.
        let mut story = Story::default();
        story.takes((1, 5), "a", 0..5, 1_000).granted(1);
        story.takes((1, 5), "b", 800..900, 1_000).granted(2);
        story.reads(10..1_700).sees_shares(&[("a", 1, Share::Permits(1))]);
        story.assert_clean();
        story.reads(850..1_700).sees_shares(&[("b", 2, Share::Permits(1))]);
        story.assert_clean();
        story.reads(300..1_700).sees(&[], &[]);
        story.assert_found(Linearizable, "at no moment of the call");
    }

    #[test]
    fn a_hold_that_was_seen_to_be_gone_does_not_come_back() {
        let mut story = Story::default();
        story.reader("a", 0..5, 100).granted(1);
        story.reads(300..305).sees(&[], &[]);
        story.reads(310..320).sees_shares(&[("a", 1, SHARED)]);
        story.assert_found(Linearizable, "fence 1 must have been ended by 305.000 ms");
    }

    #[test]
    fn a_call_without_an_answer_may_have_been_done_much_later() {
        let mut story = Story::default();
        story.reader("a", 0..5, 5_000).granted(1);
        story.reader("b", 10..15, 100).unknown();
        story.reads(300..305).sees_shares(&[("a", 1, SHARED)]);
        story.reads(310..320).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]);
        story.assert_clean();
    }
}

#[cfg(test)]
mod against_trying_everything {
    use proptest::prelude::*;

    use super::check;
    use crate::checks::story::{SHARED, Story};
    use crate::holds::{Lock, Others, What};
    use crate::lease::Clock;

    /// When holds were granted, and when they ended.
    type Course = Vec<(u64, u64)>;

    /// Whether there is a course that explains all answers.
    fn is_possible(lock: &Lock<'_>, moments: &[u64], course: &mut Course) -> bool {
        let Some(hold) = lock.holds.get(course.len()) else { return explains(lock, course) };
        let earliest = course.last().map_or(0, |(grant, _)| *grant).max(hold.asked);
        let grants = moments.iter().filter(|moment| **moment >= earliest);
        grants.chain([&u64::MAX]).any(|grant| {
            let ends = moments.iter().filter(|moment| **moment >= hold.sure_until.0.max(*grant));
            ends.chain([&u64::MAX]).any(|end| {
                course.push((*grant, *end));
                let found = is_possible(lock, moments, course);
                course.pop();
                found
            })
        })
    }

    fn explains(lock: &Lock<'_>, course: &Course) -> bool {
        // At the moment of a change both is true.
        let is_there = |place: usize, at: u64| course[place].0 <= at && at <= course[place].1;
        let is_away = |place: usize, at: u64| at <= course[place].0 || course[place].1 <= at;
        let during = |from: u64, until: u64| {
            let changes = course.iter().flat_map(|(grant, end)| [*grant, *end]);
            changes.chain([from, until]).filter(move |at| from <= *at && *at <= until)
        };
        let is_met = |fact: &crate::holds::Fact<'_>| {
            let mut moments = during(fact.by.invoked, fact.by.completed);
            match fact.what {
                What::Held(place) => moments.any(|at| is_there(place, at)),
                What::NotHeld(place) => moments.any(|at| is_away(place, at)),
                What::Ended(place) => course[place].1 <= fact.by.completed,
                What::Free => true,
            }
        };
        let is_seen = |look: &crate::holds::Look<'_>| {
            // One that came before another which is there, and is not, has gone.
            let has_come = |place: usize| look.holders.iter().any(|holder| place < *holder);
            let fits = |place: usize, at: u64| match look.holders.contains(&place) {
                true => is_there(place, at),
                false if has_come(place) => course[place].1 <= at,
                false => is_away(place, at),
            };
            let mut moments = during(look.by.invoked, look.by.completed);
            moments.any(|at| (0..course.len()).all(|place| fits(place, at)))
        };
        lock.facts.iter().all(is_met) && lock.looks.iter().all(is_seen)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
        #[test]
        fn the_spans_of_two_holds_find_what_trying_everything_finds(
            looks in prop::collection::vec((0..40_u64, 0..15_u64, 0..9_u8), 1..7),
        ) {
            let mut story = Story::default();
            for (from, span, what) in looks {
                let during = from..from + span;
                match what {
                    0..2 => story.reads(during).sees_shares(&[("a", 1, SHARED)]),
                    2 => story.reads(during).sees_shares(&[("b", 2, SHARED)]),
                    3 => story.reads(during).sees_shares(&[("a", 1, SHARED), ("b", 2, SHARED)]),
                    4 => story.reads(during).sees(&[], &[]),
                    5 | 6 => story.reader("b", during, 110).granted(2),
                    7 => story.releases("b", during).released(2),
                    _ => story.renews("b", during).refused("not_holder"),
                }
            }
            story.reader("c", 900..905, 100).refused("no_leader");
            let history = story.history();
            let lock = Lock::new(history.operations.iter().collect(), &Others::default(), Clock::new(0));
            let calls = history.operations.iter().flat_map(|call| [call.invoked, call.completed]);
            let mut moments: Vec<u64> =
                calls.chain(lock.holds.iter().map(|hold| hold.sure_until.0)).collect();
            moments.sort_unstable();
            moments.dedup();
            prop_assert_eq!(check(&lock).is_empty(), is_possible(&lock, &moments, &mut Vec::new()));
        }
    }
}
