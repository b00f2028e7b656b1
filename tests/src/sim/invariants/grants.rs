//! At most one grant of a lock at a time, fences that only go up, and no ending that nobody asked for.

use std::collections::BTreeMap;

use holdfast_core::{Answer, AttemptKey, Cause, Happening, LockName, Op};

use super::Violation;
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "one grant at a time, with a higher fence each";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut holders: BTreeMap<&LockName, (AttemptKey, u64)> = BTreeMap::new();
    let mut highest = 0;
    for entry in journal.entries.values() {
        let mut found = |what: String| {
            violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
        };
        for event in &entry.events {
            let lock = event.lock.as_str();
            match event.what {
                Happening::Acquired { fence, .. } => {
                    if let Some((_, other)) = holders.insert(&event.lock, (event.key, fence.0)) {
                        found(format!("{lock} is granted with fence {fence} while fence {other} holds it"));
                    }
                    if fence.0 <= highest {
                        found(format!("fence {fence} follows fence {highest}"));
                    }
                    highest = highest.max(fence.0);
                }
                Happening::Ended { fence, cause, .. } => {
                    if holders.remove(&event.lock) != Some((event.key, fence.0)) {
                        found(format!("fence {fence} of {lock} ends without having held it"));
                    }
                    if cause == Cause::Released && !is_released(entry, &event.key) {
                        found(format!("fence {fence} of {lock} is released by somebody else"));
                    }
                }
                Happening::Queued | Happening::Left(_) | Happening::Changed { .. } => {}
            }
        }
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let (Op::Renew { lock, key, .. }, Ok(Answer::Granted(grant))) = (op, outcome) else { continue };
            // Within the entry others may have followed: the events say so.
            let held_here = entry.events.iter().any(|event| event.key == *key);
            if holders.get(lock) != Some(&(*key, grant.fence.0)) && !held_here {
                found(format!("fence {} of {} is renewed without holding it", grant.fence, lock.as_str()));
            }
        }
    }
    violations
}

fn is_released(entry: &Entry, key: &AttemptKey) -> bool {
    entry.ops.iter().any(|op| matches!(op, Op::Release { key: released, .. } if released == key))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{acquire, acquired, ended, journal, key, release};
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
        };
        let renew = Op::Renew { lock, key: key(1), ttl: None };
        let revived = (1_100, vec![(renew, Ok(Answer::Granted(grant)))], vec![]);
        let found = check(&journal(vec![first, over, revived]));
        assert!(found[0].what.contains("renewed without holding it"), "{found:?}");
    }
}
