//! What clients were told agrees with what was applied: nothing acknowledged is lost, nothing that "was not done" was
//! done, and a call that is repeated has one effect. What nobody told them is looked up in the journal.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{AttemptKey, Cause, Happening, Op, Outcome};

use super::Violation;
use super::asked::{Asked, wanted};
use crate::sim::executor::Nanos;
use crate::sim::journal::Journal;
use crate::sim::lines::{Came, Deed, Line, name};
use crate::sim::sometimes::saw;

const NAME: &str = "what was told agrees with what was applied";

/// What was applied for one attempt.
#[derive(Debug, Default)]
struct Applied {
    /// What was asked of it.
    kinds: BTreeSet<Kind>,
    /// Fences of its grants that were not taken back.
    fences: BTreeSet<u64>,
}

/// `doubled` are the times at which a call between nodes was sent twice: while a call is under way then, its second copy may
/// do what the first one rightly says was not done.
pub(crate) fn check(journal: &Journal, lines: &[Line], doubled: &[Nanos]) -> Vec<Violation> {
    let applied = applied(journal);
    let nothing = Applied::default();
    let mut violations = Vec::new();
    for (key, applied) in &applied {
        if applied.fences.len() > 1 {
            violations.push(Violation::new(NAME, format!("{key:?} was granted twice: {:?}", applied.fences)));
        }
    }
    for ((key, kind), lines) in by_call(lines) {
        let applied = applied.get(&key).unwrap_or(&nothing);
        let is_there = applied.kinds.contains(&kind);
        let is_doubled = |line: &&Line| doubled.iter().any(|at| (line.invoked..=line.returned).contains(at));
        if is_there && lines.iter().all(|line| line.came == Came::NotDone && !is_doubled(line)) {
            let what = format!("{kind:?} of {key:?} was done, although its client was told that it was not");
            violations.push(Violation::new(NAME, what));
        }
        for line in lines {
            match line.came {
                Came::Granted(fence, _) if !applied.fences.contains(&fence) => {
                    let what = format!("fence {fence} was told to {key:?} and is not in the log: {line:?}");
                    violations.push(Violation::new(NAME, what));
                }
                Came::Released(_) if !is_there => {
                    violations.push(Violation::new(NAME, format!("a release is lost: {line:?}")));
                }
                Came::Unknown if is_there => saw("an unknown outcome that had been applied"),
                Came::Unknown => saw("an unknown outcome that had not been applied"),
                _ => {}
            }
        }
    }
    let is_lost = |line: &&Line| line.came == Came::LimitSet && !is_limit_set(journal, line);
    let lost = lines.iter().filter(is_lost);
    violations.extend(lost.map(|line| Violation::new(NAME, format!("a limit is lost: {line:?}"))));
    violations
}

fn is_limit_set(journal: &Journal, line: &Line) -> bool {
    let is_it = |(op, outcome): (&Op, &Outcome)| match op {
        Op::SetLimit { lock, limit } => {
            outcome.is_ok() && *lock == name(line.lock) && line.deed == Deed::SetLimit(limit.get())
        }
        _ => false,
    };
    journal.entries.values().any(|entry| entry.ops.iter().zip(&entry.outcomes).any(is_it))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Acquire,
    Renew,
    Release,
    Proclaim,
    HandOver,
    RenewSession,
    EndSession,
}

fn by_call(lines: &[Line]) -> BTreeMap<(AttemptKey, Kind), Vec<&Line>> {
    let mut calls: BTreeMap<_, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        let kind = match line.deed {
            Deed::Acquire { .. } => Kind::Acquire,
            Deed::Renew => Kind::Renew,
            Deed::Release => Kind::Release,
            Deed::Proclaim => Kind::Proclaim,
            Deed::HandOver => Kind::HandOver,
            Deed::RenewSession => Kind::RenewSession,
            Deed::EndSession => Kind::EndSession,
            Deed::Read | Deed::SetLimit(_) | Deed::ForceRelease(_) | Deed::ForceLeave => continue,
        };
        calls.entry((line.attempt, kind)).or_default().push(line);
    }
    calls
}

fn applied(journal: &Journal) -> BTreeMap<AttemptKey, Applied> {
    let asked = Asked::of(journal);
    let mut applied: BTreeMap<AttemptKey, Applied> = BTreeMap::new();
    for entry in journal.entries.values() {
        for op in &entry.ops {
            for (key, kind) in concerned(op, &asked) {
                applied.entry(key).or_default().kinds.insert(kind);
            }
        }
        for event in &entry.events {
            match event.what {
                Happening::Acquired { fence, .. } => {
                    applied.entry(event.key).or_default().fences.insert(fence.0);
                }
                Happening::Ended { fence, cause: Cause::Unclaimed, .. } => {
                    applied.entry(event.key).or_default().fences.remove(&fence.0);
                }
                Happening::Ended { .. }
                | Happening::Queued
                | Happening::Left(_)
                | Happening::Changed { .. } => {}
            }
        }
    }
    applied
}

/// What an operation asks of which attempts at single locks.
fn concerned(op: &Op, asked: &Asked<'_>) -> Vec<(AttemptKey, Kind)> {
    let all = |keys: Vec<AttemptKey>, kind| keys.into_iter().map(|key| (key, kind)).collect();
    match op {
        Op::Acquire(_)
        | Op::AcquireShare(..)
        | Op::AcquireInSession(..)
        | Op::AcquireOnTerms(_)
        | Op::AcquireMany(_) => {
            all(wanted(op).map(|wanted| wanted.key).collect(), Kind::Acquire)
        }
        Op::Renew { key, .. } => vec![(*key, Kind::Renew)],
        Op::Release { key, .. } | Op::ReleaseDone { key, .. } => vec![(*key, Kind::Release)],
        Op::Proclaim { key, .. } => vec![(*key, Kind::Proclaim)],
        Op::HandOver { key, .. } => vec![(*key, Kind::HandOver)],
        Op::RenewMany { key, named, .. } => all(asked.parts(key, named.as_ref()), Kind::Renew),
        Op::ReleaseMany { key, named } => all(asked.parts(key, named.as_ref()), Kind::Release),
        Op::EndSession(session) => all(asked.kept_by(session.id), Kind::EndSession),
        Op::OpenSession { .. }
        // Its lines are those of what it was known to keep then: none is about the call itself.
        | Op::RenewSession(_)
        | Op::Abandon { .. }
        | Op::Unclaim { .. }
        | Op::Vouch { .. }
        | Op::Register { .. }
        | Op::Found { .. }
        | Op::SetLimit { .. }
        | Op::ForceRelease { .. }
        | Op::ForceLeave { .. }
        | Op::TellWallClock { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Answer, Limit, Owner, Share};

    use super::super::sample::{acquire, acquired, ended, journal, key, release};
    use super::*;

    fn line(number: u8, deed: Deed, came: Came) -> Line {
        Line {
            client: 1,
            node: 1,
            lock: 0,
            attempt: key(number),
            owner: Owner::default(),
            session: None,
            share: Share::Exclusive,
            deed,
            ttl_ms: 1_000,
            terms: holdfast_core::Terms::default(),
            invoked: 1,
            returned: 2,
            came,
        }
    }

    const ACQUIRE: Deed = Deed::Acquire { wait_ms: 0 };

    fn one_grant() -> Journal {
        journal(vec![(0, vec![(acquire(1, 1, 1_000, 0), Ok(Answer::Done))], vec![acquired(1, 5, false)])])
    }

    #[test]
    fn a_grant_that_is_in_no_log_is_found() {
        assert_eq!(check(&one_grant(), &[line(1, ACQUIRE, Came::Granted(5, 1_000))], &[]), []);
        let found = check(&one_grant(), &[line(1, ACQUIRE, Came::Granted(6, 1_000))], &[]);
        assert!(found[0].what.contains("is not in the log"), "{found:?}");
    }

    #[test]
    fn what_was_not_done_and_yet_was_is_found() {
        let unknown = [line(1, ACQUIRE, Came::NotDone), line(1, ACQUIRE, Came::Unknown)];
        assert_eq!(check(&one_grant(), &unknown, &[]), []);
        let found = check(&one_grant(), &[line(1, ACQUIRE, Came::NotDone)], &[]);
        assert!(found[0].what.contains("was told that it was not"), "{found:?}");
    }

    #[test]
    fn a_lost_release_is_found() {
        let found = check(&one_grant(), &[line(1, Deed::Release, Came::Released(Some(5)))], &[]);
        assert!(found[0].what.contains("a release is lost"), "{found:?}");
        let mut journal = one_grant();
        journal.entries.get_mut(&1).unwrap().ops.push(release(1));
        assert_eq!(check(&journal, &[line(1, Deed::Release, Came::Released(Some(5)))], &[]), []);
    }

    #[test]
    fn a_limit_that_was_set_and_is_in_no_log_is_found() {
        let set = |limit| line(0, Deed::SetLimit(limit), Came::LimitSet);
        let (lock, limit) = (name(0), Limit::new(3).unwrap());
        let journal = journal(vec![(0, vec![(Op::SetLimit { lock, limit }, Ok(Answer::Done))], vec![])]);
        assert_eq!(check(&journal, &[set(3)], &[]), []);
        assert!(check(&journal, &[set(4)], &[])[0].what.contains("a limit is lost"));
    }

    #[test]
    fn a_second_grant_of_one_attempt_is_found_unless_the_first_was_taken_back() {
        let again = |cause| {
            journal(vec![
                (0, vec![], vec![acquired(1, 5, true)]),
                (1, vec![], vec![ended(1, 5, cause), acquired(1, 6, true)]),
            ])
        };
        assert_eq!(check(&again(Cause::Unclaimed), &[], &[]), []);
        assert!(check(&again(Cause::Released), &[], &[])[0].what.contains("granted twice"));
    }
}
