//! An attempt at many locks has all of them or none: it waits for all, is granted all in one entry with a fence each, and
//! what is not given back by itself ends together.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{Answer, AttemptKey, Cause, Event, Happening, LockName, Op, Place};

use super::Violation;
use super::asked::Asked;
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "many locks are held all or none";

/// How an attempt stands at one of its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nothing,
    Waits,
    Holds(u64),
}

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    if model.asked.wholes().next().is_none() {
        return Vec::new();
    }
    for entry in journal.entries.values() {
        model.take(entry);
        model.look_at_answers(entry);
    }
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    parts: BTreeMap<AttemptKey, Standing>,
    /// Attempts of which some locks were renewed by themselves: their leases end apart.
    renewed_apart: BTreeSet<AttemptKey>,
    violations: Vec<Violation>,
}

impl Model<'_> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    fn standing(&self, part: &AttemptKey) -> Standing {
        self.parts.get(part).copied().unwrap_or(Standing::Nothing)
    }

    fn take(&mut self, entry: &Entry) {
        for op in &entry.ops {
            match op {
                Op::RenewMany { key, named: Some(_), .. } => drop(self.renewed_apart.insert(*key)),
                Op::Renew { key, .. } => self.renewed_apart.extend(self.asked.whole_of(key)),
                _ => {}
            }
        }
        let mut touched: Vec<AttemptKey> =
            entry.events.iter().filter_map(|event| self.asked.whole_of(&event.key)).collect();
        touched.sort_unstable();
        touched.dedup();
        for whole in touched {
            let keys: Vec<_> = self.asked.places(&whole).iter().map(|place| place.key).collect();
            let before: Vec<_> = keys.iter().map(|key| self.standing(key)).collect();
            for event in entry.events.iter().filter(|event| keys.contains(&event.key)) {
                self.parts.insert(event.key, standing_after(event));
            }
            let after: Vec<_> = keys.iter().map(|key| self.standing(key)).collect();
            self.look_at_whole(entry, whole, &after);
            self.look_at_ends(entry, whole, &keys, &before);
        }
    }

    /// It waits for all or for none, and is granted all.
    fn look_at_whole(&mut self, entry: &Entry, whole: AttemptKey, after: &[Standing]) {
        let waiting = after.iter().filter(|part| **part == Standing::Waits).count();
        let (all, held) =
            (after.len(), after.iter().filter(|part| matches!(part, Standing::Holds(_))).count());
        if waiting > 0 && waiting < all {
            self.found(entry, format!("{whole:?} waits for {waiting} of {all} locks, and holds {held}"));
        }
        let granted = |event: &&Event| {
            matches!(event.what, Happening::Acquired { .. }) && self.asked.whole_of(&event.key) == Some(whole)
        };
        let granted = entry.events.iter().filter(granted).count();
        if !granted.is_multiple_of(all) {
            self.found(entry, format!("{whole:?} is granted {granted} of {all} locks"));
        }
    }

    /// What nobody has given back by itself ends with the rest.
    fn look_at_ends(&mut self, entry: &Entry, whole: AttemptKey, keys: &[AttemptKey], before: &[Standing]) {
        let is_apart = self.renewed_apart.contains(&whole);
        // An operator, too, ends the one hold that was named.
        let ends_all = |what: &Happening, cause: Cause| match (what, cause) {
            (_, Cause::Released) | (Happening::Ended { .. }, Cause::Forced) => false,
            (_, Cause::Expired) => !is_apart,
            _ => true,
        };
        let cause =
            entry.events.iter().filter(|event| keys.contains(&event.key)).find_map(|event| {
                match event.what {
                    Happening::Ended { cause, .. } | Happening::Left(cause)
                        if ends_all(&event.what, cause) =>
                    {
                        Some(cause)
                    }
                    _ => None,
                }
            });
        let Some(cause) = cause else { return };
        // It may come back within the entry.
        let is_steady = |key: &AttemptKey| !entry.events.iter().any(|event| event.key == *key);
        let goes_on =
            |(key, before): (&AttemptKey, &Standing)| *before != Standing::Nothing && is_steady(key);
        let left = keys.iter().zip(before).filter(|(key, before)| goes_on((*key, *before))).count();
        if left > 0 {
            self.found(entry, format!("{whole:?} ends ({cause:?}) and goes on with {left} of its locks"));
        }
    }

    /// What is told of a grant is all of it.
    fn look_at_answers(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let Ok(Answer::GrantedMany(grant)) = outcome else { continue };
            let places: Vec<&Place> = match op {
                Op::AcquireMany(many) => many.items.iter().map(|item| &item.place).collect(),
                Op::RenewMany { named: Some(named), .. } => named.iter().collect(),
                // Those that it holds before or behind the entry: some may be given back within it.
                Op::RenewMany { key, named: None, .. } => self.places_held(entry, key),
                _ => continue,
            };
            let told: Vec<&LockName> = grant.fences.iter().map(|(lock, _)| lock).collect();
            if let Some(place) = places.iter().find(|place| !told.contains(&&place.lock)) {
                let lock = place.lock.as_str();
                self.found(entry, format!("{:?} is not told of {lock}", place.key));
            }
            let mut fences: Vec<_> = grant.fences.iter().map(|(_, fence)| fence.0).collect();
            fences.sort_unstable();
            fences.dedup();
            if fences.len() < grant.fences.len() {
                self.found(entry, format!("one fence is told for several locks: {:?}", grant.fences));
            }
        }
    }

    fn places_held(&self, entry: &Entry, whole: &AttemptKey) -> Vec<&Place> {
        let is_steady = |key: &AttemptKey| !entry.events.iter().any(|event| event.key == *key);
        let held = self.asked.places(whole).iter().copied();
        held.filter(|place| matches!(self.standing(&place.key), Standing::Holds(_)) && is_steady(&place.key))
            .collect()
    }
}

fn standing_after(event: &Event) -> Standing {
    match event.what {
        Happening::Queued | Happening::Ended { cause: Cause::Unclaimed, .. } => Standing::Waits,
        Happening::Acquired { fence, .. } | Happening::Changed { fence, .. } => Standing::Holds(fence.0),
        Happening::Left(_) | Happening::Ended { .. } => Standing::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Fence, ManyGrant, Ttl};

    use super::super::sample::{
        Row, acquire_many, acquired_of, ended_of, journal, left_of, queued_of, renew_many,
    };
    use super::*;

    fn found(rows: Vec<Row>) -> String {
        check(&journal(rows)).into_iter().map(|violation| violation.what + "\n").collect()
    }

    fn waits() -> Row {
        (0, vec![acquire_many(9, &[1, 2])], vec![queued_of(1), queued_of(2)])
    }

    fn holds() -> Row {
        (10, vec![], vec![acquired_of(1, 1), acquired_of(2, 2)])
    }

    #[test]
    fn a_whole_course_is_right() {
        let back = vec![ended_of(1, 1, Cause::Unclaimed), ended_of(2, 2, Cause::Unclaimed)];
        let again = vec![acquired_of(1, 3), acquired_of(2, 4)];
        let over = vec![ended_of(1, 3, Cause::Expired), ended_of(2, 4, Cause::Expired)];
        let rows = vec![waits(), holds(), (20, vec![], back), (30, vec![], again), (1_030, vec![], over)];
        assert_eq!(found(rows), "");
    }

    #[test]
    fn half_a_grant_is_found() {
        let half = found(vec![waits(), (10, vec![], vec![acquired_of(1, 1)])]);
        assert!(half.contains("waits for 1 of 2 locks, and holds 1"), "{half}");
        assert!(half.contains("is granted 1 of 2 locks"), "{half}");
        let half =
            found(vec![waits(), (10, vec![], vec![acquired_of(1, 1), left_of(2, Cause::WaitTimeout)])]);
        assert!(half.contains("is granted 1 of 2 locks"), "{half}");
    }

    #[test]
    fn half_a_wait_and_half_a_departure_are_found() {
        let half = (0, vec![acquire_many(9, &[1, 2])], vec![queued_of(1)]);
        assert!(found(vec![half]).contains("waits for 1 of 2"));
        let left = (10, vec![], vec![left_of(1, Cause::WaitTimeout)]);
        assert!(found(vec![waits(), left]).contains("waits for 1 of 2"));
    }

    #[test]
    fn half_an_expiry_is_found_unless_the_other_half_was_given_back() {
        let over = |number: u8| (1_010, vec![], vec![ended_of(number, number.into(), Cause::Expired)]);
        assert!(found(vec![waits(), holds(), over(1)]).contains("goes on with 1 of its locks"));
        let given_back = (20, vec![], vec![ended_of(2, 2, Cause::Released)]);
        assert_eq!(found(vec![waits(), holds(), given_back, over(1)]), "");
    }

    #[test]
    fn what_was_renewed_by_itself_may_go_on_by_itself() {
        let place = Place { lock: super::super::sample::lock_of(2), key: super::super::sample::key(2) };
        let named = Some(holdfast_core::Several::new(vec![place]).unwrap());
        let renew = Op::RenewMany { key: super::super::sample::key(9), named, ttl: None };
        let renewed = (500, vec![(renew, Ok(Answer::Done))], vec![]);
        let over = (1_010, vec![], vec![ended_of(1, 1, Cause::Expired)]);
        assert_eq!(found(vec![waits(), holds(), renewed, over]), "");
    }

    #[test]
    fn a_renewal_that_forgets_a_lock_is_found() {
        let renewed = |told: &[u8]| {
            let (op, _) = renew_many(9);
            let lock = |number: &u8| super::super::sample::lock_of(*number);
            let fences = told.iter().map(|number| (lock(number), Fence(u64::from(*number)))).collect();
            let grant = ManyGrant { fences, ttl: Ttl::from_ms(1_000).unwrap(), expires_in_ms: 1_000 };
            (20, vec![(op, Ok(Answer::GrantedMany(grant)))], vec![])
        };
        assert_eq!(found(vec![waits(), holds(), renewed(&[1, 2])]), "");
        assert!(found(vec![waits(), holds(), renewed(&[1])]).contains("is not told of"));
    }
}
