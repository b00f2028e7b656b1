//! For each lock there is one order of all that happened that explains every answer.
//!
//! A lock that several may hold at once is looked at in [`spans`]. The model of any other is naive: it is free, or held under a fence; fences go up; a hold does not begin before it was
//! asked for, and does not end before its lease is over unless its attempt may have released it. So all that the lock can
//! go through is one line of stations, which the known fences give in advance: free, held under the first, free, held under
//! the second, and so on. Only when it went from one to the next is open. Each answer says that the lock was at a
//! certain station at some moment of the call.
//!
//! That makes the search a walk without a way back: the lock stays where it is until a call ends whose answer it has not
//! met yet, and then goes no farther than that answer needs. Whoever is behind can still go wherever one who is ahead has
//! gone, at the same moment, and meets on the way every answer that is still open; so staying behind is never wrong.

mod spans;

use crate::history::Operation;
use crate::holds::{Fact, Lock, What};
use crate::lease::ms;
use crate::verdict::{Check, Violation};

/// Of one lock no more are told: they only follow from the first.
const VIOLATIONS_MAX: usize = 3;

pub(super) fn check(lock: &Lock<'_>) -> Vec<Violation> {
    let mut violations = if lock.is_plain { walk(lock) } else { spans::check(lock) };
    violations.truncate(VIOLATIONS_MAX);
    violations
}

fn walk(lock: &Lock<'_>) -> Vec<Violation> {
    let mut walk = Walk { lock, station: 0, led_by: vec![None; 2 * lock.holds.len() + 1] };
    let mut violations = Vec::new();
    let mut begun = vec![0; lock.facts.len()];
    for event in events(&lock.facts) {
        match event {
            Event::Begin(at) => begun[at] = walk.station,
            Event::End(at) => violations.extend(walk.meet(&lock.facts[at], begun[at]).err()),
        }
        if violations.len() >= VIOLATIONS_MAX {
            break;
        }
    }
    violations
}

/// The beginning or the end of a call, with the place of its fact.
#[derive(Clone, Copy)]
enum Event {
    Begin(usize),
    End(usize),
}

/// In order of time. Of what happens at one moment, calls begin first: they may have met what others end with.
fn events(facts: &[Fact<'_>]) -> Vec<Event> {
    let mut events = Vec::with_capacity(2 * facts.len());
    for (at, fact) in facts.iter().enumerate() {
        events.push((fact.by.invoked, 0, Event::Begin(at)));
        events.push((fact.by.completed, 1, Event::End(at)));
    }
    events.sort_by_key(|(at, order, _)| (*at, *order));
    events.into_iter().map(|(.., event)| event).collect()
}

/// Where the lock is. Even stations are free, odd ones are held: 2n + 1 under the n-th fence.
struct Walk<'a, 'b> {
    lock: &'b Lock<'a>,
    station: usize,
    /// Whose answer made the lock go on to a station.
    led_by: Vec<Option<&'a Operation>>,
}

impl<'a> Walk<'a, '_> {
    /// Meets a fact at the end of its call, which began while the lock was at `begun`.
    fn meet(&mut self, fact: &Fact<'a>, begun: usize) -> Result<(), Violation> {
        let been = begun..=self.station;
        match fact.what {
            What::Held(place) if begun > station_of(place) => Err(self.too_late(fact, place)),
            What::Held(place) => self.go_to(station_of(place), fact),
            What::Ended(place) => self.go_to(station_of(place) + 1, fact),
            What::Free if been.clone().any(|station| station.is_multiple_of(2)) => Ok(()),
            What::NotHeld(place) if been.clone().any(|station| station != station_of(place)) => Ok(()),
            What::Free | What::NotHeld(_) => self.go_to(self.station + 1, fact),
        }
    }

    fn go_to(&mut self, station: usize, fact: &Fact<'a>) -> Result<(), Violation> {
        let now = fact.by.completed;
        for next in self.station + 1..=station {
            let hold = &self.lock.holds[(next - 1) / 2];
            let enters = next % 2 == 1;
            if enters && hold.asked > now {
                let what = format!("fence {} was there before anybody had asked for it", hold.fence);
                return Err(violation(what, &[Some(hold.known_by), Some(fact.by)]));
            }
            if !enters && hold.leased_until.0 > now {
                let (until, by) = hold.leased_until;
                let what = format!(
                    "{} must have found the lock after fence {}, which held it until {} at least",
                    fact.by.process,
                    hold.fence,
                    ms(until)
                );
                return Err(violation(what, &[Some(by), Some(hold.known_by), Some(fact.by)]));
            }
        }
        for next in self.station + 1..=station {
            self.led_by[next] = Some(fact.by);
        }
        self.station = self.station.max(station);
        Ok(())
    }

    fn too_late(&self, fact: &Fact<'a>, place: usize) -> Violation {
        let what =
            format!("{} saw fence {}, which had ended before", fact.by.process, self.lock.holds[place].fence);
        violation(what, &[self.led_by[station_of(place) + 1], Some(fact.by)])
    }
}

fn station_of(place: usize) -> usize {
    2 * place + 1
}

fn violation(what: String, operations: &[Option<&Operation>]) -> Violation {
    let operations: Vec<_> = operations.iter().copied().flatten().collect();
    Violation::new(Check::Linearizable, what, &operations)
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::verdict::Check::Linearizable;

    #[test]
    fn a_stale_read_is_found() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 100).granted(1);
        story.releases("a", 10..15).released(1);
        story.acquires("b", 20..25, 100).granted(2);
        story.reads(30..40).sees(&[("a", 1)], &[]);
        story.assert_found(Linearizable, "which had ended before");
    }

    #[test]
    fn a_grant_that_a_read_shows_before_it_was_asked_for_is_found() {
        let mut story = Story::default();
        story.reads(1..5).sees(&[("a", 1)], &[]);
        story.acquires("a", 10..15, 1_000).granted(1);
        story.assert_found(Linearizable, "before anybody had asked for it");
    }

    #[test]
    fn answers_that_agree_in_pairs_and_not_together_are_found() {
        // The first read needs the lock to be free after the lease, the second one held under 2 before that, and there
        // is no moment between.
        let mut story = Story::default();
        story.waits("b", 0..1_200, 100, 5_000).granted(2);
        story.acquires("a", 1..5, 1_000).granted(1);
        story.reads(990..1_010).sees(&[("b", 2)], &[]);
        story.reads(1_020..1_025).sees(&[("b", 2)], &[]);
        story.assert_clean();
        story.reads(1_012..1_015).sees(&[], &[]);
        story.assert_found(Linearizable, "fence 2");
    }

    #[test]
    fn a_read_may_see_any_state_that_was_there_during_its_call() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 1_000).granted(1);
        story.reads(6..100).sees(&[("a", 1)], &[]);
        story.reads(7..100).sees(&[], &[]);
        story.reads(8..100).sees(&[("b", 2)], &[]);
        story.releases("a", 20..90).released(1);
        story.acquires("b", 30..80, 1_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_call_without_an_answer_may_have_been_done_much_later() {
        let mut story = Story::default();
        story.acquires("a", 1..5, 100).unknown();
        story.reads(200..205).sees(&[], &[]);
        story.reads(300..305).sees(&[("a", 1)], &[]);
        story.releases("a", 310..320).unknown();
        story.reads(330..335).sees(&[("a", 1)], &[]);
        story.reads(340..345).sees(&[], &[]);
        story.assert_clean();
    }
}

#[cfg(test)]
mod against_trying_everything {
    use proptest::prelude::*;

    use super::check;
    use crate::checks::story::Story;
    use crate::holds::{Fact, Lock, Others, What};
    use crate::lease::Clock;

    /// Whether any assignment of moments to the moves explains all facts.
    fn is_possible(lock: &Lock<'_>, moments: &[u64], moves: &mut Vec<u64>) -> bool {
        let next = moves.len();
        if next == 2 * lock.holds.len() {
            return lock.facts.iter().all(|fact| is_met(fact, moves));
        }
        // The last moves may never be made.
        if lock.facts.iter().all(|fact| is_met(fact, moves)) {
            return true;
        }
        let hold = &lock.holds[next / 2];
        let earliest = if next.is_multiple_of(2) { hold.asked } else { hold.sure_until.0 };
        let earliest = earliest.max(moves.last().copied().unwrap_or(0));
        moments.iter().filter(|moment| **moment >= earliest).any(|moment| {
            moves.push(*moment);
            let found = is_possible(lock, moments, moves);
            moves.pop();
            found
        })
    }

    /// Whether the lock was at the station of the fact at some moment of its call.
    fn is_met(fact: &Fact<'_>, moves: &[u64]) -> bool {
        let first = moves.iter().filter(|moment| **moment < fact.by.invoked).count();
        let last = moves.iter().filter(|moment| **moment <= fact.by.completed).count();
        (first..=last).any(|station| match fact.what {
            What::Held(place) => station == 2 * place + 1,
            What::Free => station.is_multiple_of(2),
            What::NotHeld(place) => station != 2 * place + 1,
            What::Ended(place) => station > 2 * place + 1,
        })
    }

    #[derive(Clone, Debug)]
    struct Look {
        from: u64,
        span: u64,
        what: u8,
    }

    fn looks() -> impl Strategy<Value = Vec<Look>> {
        let look = (0..40_u64, 0..15_u64, 0..9_u8).prop_map(|(from, span, what)| Look { from, span, what });
        prop::collection::vec(look, 1..7)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
        #[test]
        fn the_walk_finds_what_trying_everything_finds(looks in looks()) {
            let mut story = Story::default();
            for Look { from, span, what } in looks {
                let during = from..from + span;
                match what {
                    0..3 => story.reads(during).sees(&[("x", u64::from(what) + 1)], &[]),
                    3..5 => story.reads(during).sees(&[], &[]),
                    5 | 6 => story.waits("a", during, 110, 100).granted(2),
                    7 => story.releases("a", during).released(2),
                    _ => story.renews("a", during).refused("not_holder"),
                }
            }
            let history = story.history();
            let lock = Lock::new(history.operations.iter().collect(), &Others::default(), Clock::new(0));
            let calls = history.operations.iter().flat_map(|call| [call.invoked, call.completed]);
            let mut moments: Vec<u64> =
                calls.chain(lock.holds.iter().map(|hold| hold.sure_until.0)).collect();
            moments.sort_unstable();
            moments.dedup();
            let expected = is_possible(&lock, &moments, &mut Vec::new());
            prop_assert_eq!(check(&lock).is_empty(), expected);
        }
    }
}
