//! Whoever watches is told of every event exactly once and in order, wherever it goes on, and events are numbered without
//! a gap.

use holdfast_core::Event;

use super::Violation;
use crate::sim::executor::{MS, Nanos};
use crate::sim::journal::Journal;
use crate::sim::watchers::{Connected, Told, Watching};

const NAME: &str = "watchers are told every event once";

/// By now they have had the time to be told of everything up to the event `last`.
pub(crate) fn check(journal: &Journal, watchers: &[Watching], last: u64) -> Vec<Violation> {
    let mut violations: Vec<_> = check_numbers(journal).into_iter().collect();
    violations.extend(watchers.iter().filter_map(|watching| check_watcher(journal, watching)));
    violations.extend(check_caught_up(journal, watchers, last));
    violations
}

/// One for each watcher that has not been told of everything up to an event although all is well.
fn check_caught_up(journal: &Journal, watchers: &[Watching], last: u64) -> Vec<Violation> {
    let behind = watchers.iter().filter(|watching| !is_caught_up(journal, watching, last));
    let violation = |watching: &Watching| {
        let Watching { prefix, seq, .. } = watching;
        Violation::new(NAME, format!("who watches \"{prefix}\" has heard of nothing after {seq}"))
    };
    behind.map(violation).collect()
}

/// Whether it was told of everything that it asks for, up to an event.
pub(crate) fn is_caught_up(journal: &Journal, watching: &Watching, last: u64) -> bool {
    let wanted = journal.events().map(|(_, event)| event).filter(|event| is_wanted(event, &watching.prefix));
    wanted.take_while(|event| event.seq <= last).all(|event| event.seq <= watching.seq)
}

fn is_wanted(event: &Event, prefix: &str) -> bool {
    event.lock.as_str().starts_with(prefix)
}

fn check_numbers(journal: &Journal) -> Option<Violation> {
    let (number, (entry, event)) =
        (1..).zip(journal.events()).find(|(number, (_, event))| event.seq != *number)?;
    let what = format!("event {number} of entry {} has the number {}", entry.index, event.seq);
    Some(Violation::new("events are numbered without a gap", what))
}

/// The first thing that it was told wrongly.
fn check_watcher(journal: &Journal, watching: &Watching) -> Option<Violation> {
    let prefix = &watching.prefix;
    let wanted = journal.events().map(|(_, event)| event).filter(|event| is_wanted(event, prefix));
    let mut coming = wanted.peekable();
    for connected in &watching.connections {
        let wrong = |what: String| {
            let Connected { node, begun, since, .. } = connected;
            let at_ms: Nanos = begun / MS;
            let what = format!("\"{prefix}\" from {since} on at node {node}, asked at {at_ms} ms: {what}");
            Some(Violation::new(NAME, what))
        };
        for told in &connected.told {
            let Told::Events { events, seq } = told else {
                return wrong(format!("{told:?}, though everything is kept"));
            };
            for event in events {
                match coming.next() {
                    None => return wrong(format!("{event:?} has never happened")),
                    Some(next) if !is_same(event, next) => {
                        return wrong(format!("told {event:?}, where {next:?} came next"));
                    }
                    Some(_) => {}
                }
            }
            if events.last().is_none_or(|last| last.seq > *seq) {
                return wrong(format!("told {} events, and then the number {seq}", events.len()));
            }
            if let Some(left_out) = coming.peek().filter(|event| event.seq <= *seq) {
                return wrong(format!("{left_out:?} is left out, and {seq} is said to be reached"));
            }
        }
    }
    None
}

/// Where a client is connected is nobody else's business.
fn is_same(told: &Event, happened: &Event) -> bool {
    *told == Event { home: None, ..happened.clone() }
}

#[cfg(test)]
mod tests {
    use holdfast_core::Cause;

    use super::super::sample::{acquired, at_lock, ended, journal, queued};
    use super::*;

    fn numbered(seq: u64, event: Event) -> Event {
        Event { seq, ..event }
    }

    /// Two entries, with three events and one.
    fn happened() -> Journal {
        let first = vec![
            numbered(1, acquired(1, 1, false)),
            numbered(2, at_lock(7, queued(2))),
            numbered(3, ended(1, 1, Cause::Released)),
        ];
        journal(vec![(10, vec![], first), (20, vec![], vec![numbered(4, queued(3))])])
    }

    fn events(journal: &Journal, seqs: &[u64]) -> Told {
        let event = |seq: &u64| {
            let (_, event) = journal.events().find(|(_, event)| event.seq == *seq).unwrap();
            Event { home: None, ..event.clone() }
        };
        Told::Events { events: seqs.iter().map(event).collect(), seq: *seqs.last().unwrap() }
    }

    fn watching(prefix: &str, told: Vec<Vec<Told>>) -> Watching {
        let connected = |told| Connected { node: 1, begun: 0, since: 0, told };
        let connections = told.into_iter().map(connected).collect();
        Watching { prefix: prefix.to_owned(), connections, seq: 0 }
    }

    fn count(journal: &Journal, watching: Watching) -> usize {
        check(journal, &[watching], 0).len()
    }

    #[test]
    fn everything_once_and_in_order_is_fine_however_it_is_cut() {
        let journal = happened();
        let cut = vec![vec![events(&journal, &[1, 2])], vec![], vec![events(&journal, &[3, 4])]];
        assert_eq!(count(&journal, watching("", cut)), 0);
        let some = vec![vec![events(&journal, &[2])]];
        assert_eq!(count(&journal, watching("db-7", some)), 0);
        assert_eq!(count(&journal, watching("", vec![])), 0);
    }

    #[test]
    fn a_gap_a_repetition_and_a_wrong_order_are_found() {
        let journal = happened();
        for seqs in [&[1, 3][..], &[2, 3], &[1, 1], &[1, 2, 3, 3], &[2, 1]] {
            let told = vec![vec![events(&journal, seqs)]];
            assert_eq!(count(&journal, watching("", told)), 1, "{seqs:?}");
        }
        let skipped = vec![vec![events(&journal, &[1, 2])], vec![events(&journal, &[4])]];
        assert_eq!(count(&journal, watching("", skipped)), 1);
        let again = vec![vec![events(&journal, &[1, 2, 3])], vec![events(&journal, &[3, 4])]];
        assert_eq!(count(&journal, watching("", again)), 1);
    }

    #[test]
    fn a_number_that_was_not_reached_is_found() {
        let journal = happened();
        let Told::Events { events: told, .. } = events(&journal, &[1, 2]) else { unreachable!() };
        for (seq, found) in [(1, 1), (2, 0), (3, 1)] {
            let told = vec![vec![Told::Events { events: told.clone(), seq }]];
            assert_eq!(count(&journal, watching("", told)), found, "{seq}");
        }
    }

    #[test]
    fn a_reset_and_an_event_that_never_happened_are_found() {
        let journal = happened();
        assert_eq!(count(&journal, watching("", vec![vec![Told::Reset { seq: 4 }]])), 1);
        let invented = Event { home: None, ..numbered(1, queued(9)) };
        let told = vec![vec![Told::Events { events: vec![invented], seq: 1 }]];
        assert_eq!(count(&journal, watching("", told)), 1);
    }

    #[test]
    fn a_number_that_is_left_out_is_found() {
        let journal = journal(vec![(10, vec![], vec![numbered(1, queued(1)), numbered(3, queued(2))])]);
        assert_eq!(check(&journal, &[], 0).len(), 1);
    }

    #[test]
    fn one_who_is_never_told_is_found() {
        let journal = happened();
        let reached = |prefix: &str, seq| Watching { seq, ..watching(prefix, vec![]) };
        assert_eq!(check_caught_up(&journal, &[reached("", 4), reached("db-7", 2)], 4), []);
        assert_eq!(check_caught_up(&journal, &[reached("", 3), reached("db-7", 1)], 4).len(), 2);
        assert_eq!(check_caught_up(&journal, &[reached("", 3), reached("db-7", 2)], 3), []);
    }
}
