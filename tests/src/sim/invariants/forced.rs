//! An operator ends the hold that was named and no other, takes the owner out of the queue who was named and no other, and
//! what was ended stays so.

use std::collections::BTreeSet;

use holdfast_core::{Answer, Cause, Event, Happening, LockName, Op, Outcome};

use super::Violation;
use super::asked::Asked;
use crate::sim::journal::{Entry, Journal};
use crate::sim::lines::{Came, Deed, Line, name};
use crate::sim::sometimes::saw;

const NAME: &str = "what an operator ends is over, and nothing else";

pub(crate) fn check(journal: &Journal, lines: &[Line]) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        model.look_at_answers(entry);
        for event in &entry.events {
            model.take(entry, event);
        }
        model.look_at_forces(entry);
    }
    let is_lost = |line: &&Line| match line.deed {
        Deed::ForceRelease(fence) => {
            line.came == Came::Forced && !model.over.contains(&(name(line.lock), fence))
        }
        _ => false,
    };
    let lost = lines.iter().filter(is_lost);
    model.violations.extend(lost.map(|line| Violation::new(NAME, format!("a force is lost: {line:?}"))));
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    /// Holds that were ended by force.
    over: BTreeSet<(LockName, u64)>,
    violations: Vec<Violation>,
}

impl Model<'_> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    /// Nobody is told that he still has what was ended in an entry before.
    fn look_at_answers(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let granted: Vec<(&LockName, u64)> = match (op, outcome) {
                (_, Ok(Answer::GrantedMany(grant))) => {
                    grant.fences.iter().map(|(lock, fence)| (lock, fence.0)).collect()
                }
                (Op::Renew { lock, .. } | Op::Proclaim { lock, .. }, Ok(Answer::Granted(grant))) => {
                    vec![(lock, grant.fence.0)]
                }
                (
                    Op::Acquire(acquire) | Op::AcquireShare(acquire, _) | Op::AcquireInSession(acquire, ..),
                    Ok(Answer::Granted(grant)),
                ) => {
                    vec![(&acquire.lock, grant.fence.0)]
                }
                (Op::AcquireOnTerms(on), Ok(Answer::Granted(grant))) => {
                    vec![(&on.acquire.lock, grant.fence.0)]
                }
                _ => continue,
            };
            for (lock, fence) in granted {
                if self.over.contains(&(lock.clone(), fence)) {
                    let lock = lock.as_str();
                    self.found(
                        entry,
                        format!("fence {fence} of {lock} was ended by force, and is told: {op:?}"),
                    );
                }
            }
        }
    }

    fn take(&mut self, entry: &Entry, event: &Event) {
        let lock = event.lock.as_str();
        let is_forced = event.cause() == Some(Cause::Forced);
        if is_forced != event.by.is_some() {
            self.found(entry, format!("{:?} of {lock} says that it was done by {:?}", event.what, event.by));
        }
        if let Some(fence) = event.fence()
            && self.over.contains(&(event.lock.clone(), fence.0))
        {
            self.found(entry, format!("fence {fence} of {lock} was ended by force: {:?}", event.what));
        }
        if !is_forced {
            return;
        }
        if !self.is_named(entry, event) {
            self.found(entry, format!("nobody has named what is ended by force: {event:?}"));
        }
        match event.what {
            Happening::Ended { fence, .. } => {
                saw("a hold ended by force");
                self.over.insert((event.lock.clone(), fence.0));
            }
            _ => saw("a wait ended by force"),
        }
    }

    /// The wait of an attempt at many ends with the part that was named.
    fn is_named(&self, entry: &Entry, event: &Event) -> bool {
        let whole = self.asked.whole_of(&event.key);
        let is_it = |op: &Op, event: &Event| match (op, &event.what) {
            (Op::ForceRelease { lock, fence, .. }, Happening::Ended { fence: ended, .. }) => {
                *lock == event.lock && fence == ended
            }
            (Op::ForceLeave { lock, owner, .. }, Happening::Left(_)) => {
                *lock == event.lock && *owner == event.owner
            }
            _ => false,
        };
        let same = entry.events.iter().filter(|other| {
            let is_part = whole.is_some() && self.asked.whole_of(&other.key) == whole;
            other.key == event.key || is_part && matches!(event.what, Happening::Left(_))
        });
        let mut same = same.filter(|other| other.cause() == Some(Cause::Forced));
        same.any(|other| entry.ops.iter().any(|op| is_it(op, other)))
    }

    /// A success leaves nothing of what it names.
    fn look_at_forces(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            match (op, outcome) {
                (Op::ForceRelease { lock, fence, .. }, Ok(_))
                    if !self.over.contains(&(lock.clone(), fence.0)) =>
                {
                    let lock = lock.as_str();
                    self.found(entry, format!("fence {fence} of {lock} is said to be ended, and is not"));
                }
                (Op::ForceRelease { .. }, Err(_)) => saw("a force that came too late was refused"),
                (Op::ForceLeave { lock, owner, .. }, Ok(Answer::Left { count })) => {
                    let is_it = |event: &&Event| {
                        event.what == Happening::Left(Cause::Forced)
                            && (&event.lock, &event.owner) == (lock, owner)
                    };
                    let left = entry.events.iter().filter(is_it).count() as u64;
                    if left != *count && forces_of_owners(&entry.ops, &entry.outcomes) < 2 {
                        let lock = lock.as_str();
                        self.found(entry, format!("{count} are said to leave {lock}, and {left} do"));
                    }
                }
                _ => {}
            }
        }
    }
}

/// One after the other in an entry, they are not told apart.
fn forces_of_owners(ops: &[Op], outcomes: &[Outcome]) -> usize {
    let done = ops.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
    done.filter(|(op, _)| matches!(op, Op::ForceLeave { .. })).count()
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Answer, Fence, Intervention, Owner, Reason};

    use super::super::sample::{
        Asked, Row, acquire, acquired, done_by, ended, journal, left, proclaim, queued,
    };
    use super::*;

    fn by() -> Intervention {
        Intervention { by: Owner::new("olga").unwrap(), reason: Reason::new("in the way").unwrap() }
    }

    fn force(fence: u64) -> Asked {
        let lock = LockName::new("db").unwrap();
        (
            Op::ForceRelease { lock, fence: Fence(fence), by: by() },
            Ok(Answer::Released { fence: Some(Fence(fence)) }),
        )
    }

    fn take_out(owner: &str, count: u64) -> Asked {
        let lock = LockName::new("db").unwrap();
        (Op::ForceLeave { lock, owner: Owner::new(owner).unwrap(), by: by() }, Ok(Answer::Left { count }))
    }

    fn found(rows: Vec<Row>) -> String {
        let begun =
            (0, vec![(acquire(1, 1, 1_000, 0), Ok(Answer::Done))], vec![acquired(1, 1, false), queued(2)]);
        let journal = journal(std::iter::once(begun).chain(rows).collect());
        check(&journal, &[]).into_iter().map(|violation| violation.what).collect()
    }

    fn end() -> Event {
        done_by(by(), ended(1, 1, Cause::Forced))
    }

    fn leaving() -> Event {
        done_by(by(), left(2, Cause::Forced))
    }

    #[test]
    fn what_was_named_ends() {
        assert_eq!(found(vec![(5, vec![force(1)], vec![end()]), (6, vec![force(1)], vec![])]), "");
        assert_eq!(found(vec![(5, vec![take_out(Owner::ANONYMOUS, 1)], vec![leaving()])]), "");
    }

    #[test]
    fn what_nobody_named_and_what_is_said_and_not_done_is_found() {
        assert!(found(vec![(5, vec![force(7)], vec![end()])]).contains("nobody has named"));
        assert!(found(vec![(5, vec![force(1)], vec![])]).contains("is said to be ended"));
        assert!(found(vec![(5, vec![take_out("x", 1)], vec![leaving()])]).contains("nobody has named"));
        assert!(
            found(vec![(5, vec![take_out(Owner::ANONYMOUS, 2)], vec![leaving()])]).contains("2 are said")
        );
        assert!(found(vec![(5, vec![force(1)], vec![ended(1, 1, Cause::Forced)])]).contains("done by None"));
    }

    #[test]
    fn a_forced_hold_that_goes_on_is_found() {
        let forced = (5, vec![force(1)], vec![end()]);
        assert!(
            found(vec![forced.clone(), (6, vec![proclaim(1, "a", "a")], vec![])]).contains("and is told")
        );
        assert!(
            found(vec![forced, (9, vec![], vec![ended(1, 1, Cause::Expired)])])
                .contains("was ended by force")
        );
    }
}
