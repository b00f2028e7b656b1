//! Never more grants of a lock at a time than fit beside each other: one alone, several that share it, or as many permits
//! as its limit says, which all name; fences that only go up; and no ending that nobody asked for.

use holdfast_core::{Answer, AttemptKey, Cause, Event, Fence, Happening, LockName, Op};

use super::Violation;
use super::asked::Asked;
use super::shares::{Shares, Users};
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "never more grants than fit, with a higher fence each";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        model.shares.begin(entry);
        for event in &entry.events {
            model.take(entry, event);
        }
        for (lock, conflict) in model.shares.end(entry) {
            let (lock, key) = (lock.as_str(), conflict.key);
            model.found(entry, format!("{lock} lets {key:?} in, who names the limit {:?}", conflict.named));
        }
        model.look_at_renewals(entry);
    }
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    shares: Shares<'a>,
    highest: u64,
    violations: Vec<Violation>,
}

impl<'a> Model<'a> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    fn take(&mut self, entry: &Entry, event: &'a Event) {
        let lock = event.lock.as_str();
        match event.what {
            Happening::Acquired { fence, .. } => {
                if let Some(others) = self.others_in_the_way(event) {
                    self.found(entry, format!("{lock} is granted with fence {fence} while {others}"));
                }
                if fence.0 <= self.highest {
                    self.found(entry, format!("fence {fence} follows fence {}", self.highest));
                }
                self.highest = self.highest.max(fence.0);
                self.shares.take(event);
            }
            Happening::Ended { fence, cause, .. } => {
                if !self.shares.take(event) {
                    self.found(entry, format!("fence {fence} of {lock} ends without having held it"));
                }
                if cause == Cause::Released && !self.is_released(entry, &event.key) {
                    self.found(entry, format!("fence {fence} of {lock} is released by somebody else"));
                }
            }
            Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => {
                self.shares.take(event);
            }
        }
    }

    /// Those that a new grant does not fit beside, in words.
    fn others_in_the_way(&self, event: &Event) -> Option<String> {
        let users = self.shares.of(&event.lock)?;
        let share = self.shares.share_of(&event.key);
        let holds_already = users.holders.iter().any(|(key, ..)| *key == event.key);
        if users.may_have_room_for(share) && !holds_already {
            return None;
        }
        let fences: Vec<_> = users.holders.iter().map(|(_, fence, _)| fence.to_string()).collect();
        let others = match fences.len() {
            1 => format!("fence {} holds it", fences[0]),
            _ => format!("fences {} hold it", fences.join(", ")),
        };
        match share.permits() {
            0 => Some(others),
            wanted => {
                let (out, limit) = (users.permits_out(), users.permits_max());
                Some(format!("{others}, and takes {wanted} permits beside {out} of {limit}"))
            }
        }
    }

    fn look_at_renewals(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let renewed = match (op, outcome) {
                (Op::Renew { lock, .. } | Op::Proclaim { lock, .. }, Ok(Answer::Granted(grant))) => {
                    vec![(lock, grant.fence)]
                }
                (Op::RenewMany { .. }, Ok(Answer::GrantedMany(grant))) => {
                    grant.fences.iter().map(|(lock, fence)| (lock, *fence)).collect()
                }
                _ => continue,
            };
            for (lock, fence) in renewed {
                if !self.is_held(entry, lock, fence) {
                    let lock = lock.as_str();
                    self.found(entry, format!("fence {fence} of {lock} is renewed without holding it"));
                }
            }
        }
    }

    /// Whether a hold is there behind an entry, or was within it: others may have followed.
    fn is_held(&self, entry: &Entry, lock: &LockName, fence: Fence) -> bool {
        let has_ended = |event: &Event| {
            let is_it = matches!(event.what, Happening::Ended { fence: ended, .. } if ended == fence);
            is_it && event.lock == *lock
        };
        let holds = |users: &Users| users.holders.iter().any(|(_, held, _)| *held == fence.0);
        self.shares.of(lock).is_some_and(holds) || entry.events.iter().any(has_ended)
    }

    fn is_released(&self, entry: &Entry, key: &AttemptKey) -> bool {
        entry.ops.iter().any(|op| match op {
            Op::Release { key: released, .. } | Op::ReleaseDone { key: released, .. } => released == key,
            Op::ReleaseMany { key: whole, named } => self.asked.parts(whole, named.as_ref()).contains(key),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Permits, Share};

    use super::super::sample::{
        Row, acquire, acquire_share, acquired, ended, journal, key, release, set_limit,
    };
    use super::*;

    fn done() -> holdfast_core::Outcome {
        Ok(Answer::Done)
    }

    #[test]
    fn two_holders_at_once_and_a_fence_that_repeats_are_found() {
        let first = (0, vec![(acquire(1, 1, 1_000, 0), done())], vec![acquired(1, 5, false)]);
        assert_eq!(check(&journal(vec![first.clone()])), []);
        let second = (1, vec![(acquire(2, 1, 1_000, 0), done())], vec![acquired(2, 5, false)]);
        let found = check(&journal(vec![first, second]));
        assert!(found[0].what.contains("while fence 5 holds it"), "{found:?}");
        assert!(found[1].what.contains("fence 5 follows fence 5"), "{found:?}");
    }

    #[test]
    fn a_release_by_another_token_is_found() {
        let first = (0, vec![(acquire(1, 1, 1_000, 0), done())], vec![acquired(1, 5, false)]);
        let other = (1, vec![(release(2), done())], vec![ended(1, 5, Cause::Released)]);
        let found = check(&journal(vec![first, other]));
        assert!(found[0].what.contains("released by somebody else"), "{found:?}");
    }

    #[test]
    fn a_renewal_of_a_lease_that_is_over_is_found() {
        let first = (0, vec![(acquire(1, 1, 1_000, 0), done())], vec![acquired(1, 5, false)]);
        let over = (1_000, vec![], vec![ended(1, 5, Cause::Expired)]);
        let lock = holdfast_core::LockName::new("db").unwrap();
        let grant = holdfast_core::Grant {
            fence: holdfast_core::Fence(5),
            owner: holdfast_core::Owner::default(),
            ttl: holdfast_core::Ttl::default(),
            expires_in_ms: 1_000,
            metadata: holdfast_core::Metadata::default(),
            max_left_ms: None,
        };
        let renew = Op::Renew { lock, key: key(1), ttl: None };
        let revived = (1_100, vec![(renew, Ok(Answer::Granted(grant)))], vec![]);
        let found = check(&journal(vec![first, over, revived]));
        assert!(found[0].what.contains("renewed without holding it"), "{found:?}");
    }

    const READS: Share = Share::Shared;

    fn takes(taken: u64, limit: u64) -> Share {
        Share::Permits(Permits::new(limit, taken).unwrap())
    }

    /// Each is let in at once, with its number as its fence.
    fn let_in(shares: &[Share]) -> Vec<Row> {
        let row = |(number, share): (u8, &Share)| {
            let ops = vec![(acquire_share(number, *share), done())];
            (u64::from(number), ops, vec![acquired(number, number.into(), false)])
        };
        (1..).zip(shares).map(row).collect()
    }

    fn found(rows: Vec<Row>) -> Vec<String> {
        check(&journal(rows)).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn readers_may_hold_at_once_and_a_writer_beside_them_is_found() {
        assert_eq!(found(let_in(&[READS, READS])), [""; 0]);
        let found = found(let_in(&[READS, READS, Share::Exclusive]));
        assert!(found[0].contains("while fences 1, 2 hold it"), "{found:?}");
    }

    #[test]
    fn a_reader_beside_a_writer_and_two_writers_are_found() {
        assert!(found(let_in(&[Share::Exclusive, READS]))[0].contains("while fence 1 holds it"));
        assert!(found(let_in(&[Share::Exclusive, Share::Exclusive]))[0].contains("while fence 1 holds it"));
    }

    #[test]
    fn a_permit_too_many_is_found() {
        assert_eq!(found(let_in(&[takes(2, 5), takes(3, 5)])), [""; 0]);
        let found = found(let_in(&[takes(2, 5), takes(2, 5), takes(2, 5)]));
        assert!(found[0].contains("takes 2 permits beside 4 of 5"), "{found:?}");
    }

    #[test]
    fn a_limit_that_is_not_the_one_in_force_is_found_unless_it_was_set_or_nobody_used_the_lock() {
        assert!(found(let_in(&[takes(1, 5), takes(1, 4)]))[0].contains("names the limit Some(4)"));
        assert!(
            found(let_in(&[takes(1, 5), READS])).iter().any(|what| what.contains("names the limit None"))
        );
        let mut rows = let_in(&[takes(1, 5), takes(1, 4)]);
        rows.insert(1, (1, vec![(set_limit(4), done())], vec![]));
        assert_eq!(found(rows), [""; 0]);
        let mut rows = let_in(&[takes(1, 5), takes(1, 4)]);
        rows.insert(1, (1, vec![(release(1), done())], vec![ended(1, 1, Cause::Released)]));
        assert_eq!(found(rows), [""; 0]);
    }

    #[test]
    fn a_limit_that_is_lowered_takes_nothing_away_and_lets_nobody_in() {
        let lowered = |third: Vec<Row>| {
            let mut rows = let_in(&[takes(2, 5), takes(2, 5)]);
            rows.push((3, vec![(set_limit(3), done())], vec![]));
            rows.extend(third);
            found(rows)
        };
        assert_eq!(lowered(vec![]), [""; 0]);
        let third = (4, vec![(acquire_share(3, takes(1, 3)), done())], vec![acquired(3, 3, false)]);
        assert!(lowered(vec![third])[0].contains("takes 1 permits beside 4 of 3"));
    }

    #[test]
    fn the_end_of_one_share_leaves_the_others() {
        let mut rows = let_in(&[READS, READS]);
        rows.push((3, vec![(release(1), done())], vec![ended(1, 1, Cause::Released)]));
        rows.push((4, vec![(acquire(3, 1, 1_000, 0), done())], vec![acquired(3, 3, false)]));
        assert!(found(rows)[0].contains("while fence 2 holds it"));
    }
}
