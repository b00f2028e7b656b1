//! A leader's word: a hand-over goes to the first candidate of the owner that was chosen, in one entry, with a higher fence
//! and nobody in between; a proclamation changes what is said, and nothing else.

use std::collections::BTreeMap;

use holdfast_core::{
    Answer, AttemptKey, Cause, Event, Happening, Home, LockName, Metadata, Op, Owner, Rejection, Share,
};

use super::Violation;
use super::asked::{Asked, wanted};
use super::presence::{Presence, Unsettled, given_up};
use super::shares::Shares;
use crate::sim::journal::{Entry, Journal};

const NAME: &str = "a leader's word counts";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    let mut model = Model { asked: Asked::of(journal), ..Model::default() };
    for entry in journal.entries.values() {
        let unsettled = model.presence.unsettled(entry, &model.asked);
        model.look_at_refusals(entry, &unsettled);
        model.shares.begin(entry);
        model.note_owners(entry);
        let mut handed_over: Option<&Event> = None;
        for event in &entry.events {
            if let Some(leader) = handed_over.take() {
                model.look_at_successor(entry, leader, event, &unsettled);
            }
            handed_over = Some(event).filter(|event| is_handed_over(event));
            model.take(entry, event);
            model.shares.take(event);
        }
        if let Some(leader) = handed_over {
            model.found(entry, format!("{} is handed over to nobody", leader.lock.as_str()));
        }
        drop(model.shares.end(entry)); // Limits are not looked at here.
        model.look_at_values(entry);
        model.learn(entry);
    }
    model.violations
}

#[derive(Default)]
struct Model<'a> {
    asked: Asked<'a>,
    shares: Shares<'a>,
    presence: Presence,
    owners: BTreeMap<AttemptKey, &'a Owner>,
    /// Where each attempt was last heard of, unless that call was given up.
    homes: BTreeMap<AttemptKey, Home>,
    /// The order of coming: it outlives a grant that is taken back.
    came: BTreeMap<AttemptKey, usize>,
    /// What is said by each hold, by its fence.
    values: BTreeMap<u64, Metadata>,
    violations: Vec<Violation>,
}

impl<'a> Model<'a> {
    fn found(&mut self, entry: &Entry, what: String) {
        self.violations.push(Violation::new(NAME, format!("entry {}: {what}", entry.index)));
    }

    fn note_owners(&mut self, entry: &'a Entry) {
        for wanted in entry.ops.iter().flat_map(wanted) {
            self.owners.entry(wanted.key).or_insert(wanted.owner);
        }
    }

    /// Whether an attempt that waits can be chosen: alone, and not together with other locks.
    fn can_lead(&self, key: &AttemptKey, share: Share, to: &Owner) -> bool {
        let is_his = self.owners.get(key).is_some_and(|owner| *owner == to);
        is_his && share == Share::Exclusive && self.asked.whole_of(key).is_none()
    }

    fn is_there(&self, key: &AttemptKey, now_ms: u64, unsettled: &Unsettled) -> bool {
        let home = self.homes.get(key).filter(|_| !unsettled.has(key));
        home.is_some_and(|home| self.presence.speaks(home, now_ms, unsettled))
    }

    /// What comes right after the end of a leader that has handed over.
    fn look_at_successor(&mut self, entry: &Entry, leader: &Event, next: &Event, unsettled: &Unsettled) {
        let lock = leader.lock.as_str();
        let (Happening::Acquired { fence, .. }, true) = (&next.what, next.lock == leader.lock) else {
            return self.found(entry, format!("{lock} is handed over to nobody"));
        };
        if matches!(leader.what, Happening::Ended { fence: former, .. } if *fence <= former) {
            self.found(entry, format!("{lock} is handed over with fence {fence}, which is no higher"));
        }
        let chosen = entry.ops.iter().filter_map(|op| match op {
            Op::HandOver { lock, key, to } if (lock, key) == (&leader.lock, &leader.key) => Some(to),
            _ => None,
        });
        let chosen: Vec<_> = chosen.collect();
        let waiting = self.shares.of(&leader.lock).map_or(&[][..], |users| &users.waiting);
        let share = waiting.iter().find(|(key, _)| *key == next.key).map(|(_, share)| *share);
        let is_his = |to: &&Owner| share.is_some_and(|share| self.can_lead(&next.key, share, to));
        let Some(to) = chosen.into_iter().find(is_his) else {
            let what = format!("{lock} is handed over to {:?}, who was not chosen", next.key);
            return self.found(entry, what);
        };
        let before = waiting.iter().filter(|(key, _)| self.came.get(key) < self.came.get(&next.key));
        let mut before = before.filter(|(key, share)| self.can_lead(key, *share, to));
        if let Some((first, _)) = before.find(|(key, _)| self.is_there(key, entry.cluster_ms, unsettled)) {
            let what = format!("{lock} is handed over to {:?} before {first:?}, who came earlier", next.key);
            self.found(entry, what);
        }
    }

    /// Nobody is said not to be there who is there before the entry and behind it.
    fn look_at_refusals(&mut self, entry: &Entry, unsettled: &Unsettled) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let (Op::HandOver { lock, key, to }, Err(Rejection::NoSuchCandidate)) = (op, outcome) else {
                continue;
            };
            let is_steady = |key: &AttemptKey| !entry.events.iter().any(|event| event.key == *key);
            let Some(users) = self.shares.of(lock) else { continue };
            let leads = |users: &super::shares::Users| {
                users.holders.iter().any(|(holder, _, share)| holder == key && *share == Share::Exclusive)
            };
            let candidate = users.waiting.iter().find(|(candidate, share)| {
                self.can_lead(candidate, *share, to)
                    && self.is_there(candidate, entry.cluster_ms, unsettled)
                    && is_steady(candidate)
            });
            if let Some((candidate, _)) = candidate.filter(|_| leads(users) && is_steady(key)) {
                let lock = lock.as_str();
                self.found(entry, format!("{lock} has no candidate of {to}, although {candidate:?} is one"));
            }
        }
    }

    fn take(&mut self, entry: &Entry, event: &Event) {
        match &event.what {
            Happening::Acquired { fence, metadata, .. } => {
                self.values.insert(fence.0, metadata.clone());
            }
            Happening::Changed { fence, metadata } => {
                let is_it = |(key, held, _): &(AttemptKey, u64, Share)| (*key, *held) == (event.key, fence.0);
                let holds = self.shares.of(&event.lock).is_some_and(|users| users.holders.iter().any(is_it));
                let is_said = entry.ops.iter().any(|op| {
                    matches!(op, Op::Proclaim { key, metadata: said, .. } if (key, said) == (&event.key, metadata))
                });
                if !holds || !is_said {
                    let lock = event.lock.as_str();
                    self.found(
                        entry,
                        format!("fence {fence} of {lock} says what its holder did not proclaim"),
                    );
                }
                self.values.insert(fence.0, metadata.clone());
            }
            Happening::Queued => drop(self.came.insert(event.key, self.came.len())),
            Happening::Left(_) | Happening::Ended { .. } => {}
        }
    }

    /// Whoever is told of a grant is told what it says.
    fn look_at_values(&mut self, entry: &Entry) {
        for (op, outcome) in entry.ops.iter().zip(&entry.outcomes) {
            let Ok(Answer::Granted(grant)) = outcome else { continue };
            let is_said_here = entry
                .ops
                .iter()
                .any(|op| matches!(op, Op::Proclaim { metadata, .. } if *metadata == grant.metadata));
            let changes = |event: &Event| matches!(event.what, Happening::Changed { fence, .. } if fence == grant.fence);
            let is_changed_here = entry.events.iter().any(changes);
            let is_known = self.values.get(&grant.fence.0).is_none_or(|value| *value == grant.metadata);
            if !is_known && !is_said_here && !is_changed_here {
                let (lock, fence) = (lock_of(op).map_or("?", LockName::as_str), grant.fence);
                self.found(entry, format!("fence {fence} of {lock} is told to say {:?}", grant.metadata));
            }
        }
    }

    fn learn(&mut self, entry: &'a Entry) {
        for op in &entry.ops {
            self.homes.extend(wanted(op).map(|wanted| (wanted.key, wanted.home)));
            if let Op::Abandon { key, home, .. } = op {
                for key in given_up(key, &self.asked) {
                    if self.homes.get(&key) == Some(home) {
                        self.homes.remove(&key);
                    }
                }
            }
        }
        let waits = |key: &AttemptKey| {
            self.shares.locks().any(|(_, users)| users.waiting.iter().any(|(waiter, _)| waiter == key))
        };
        self.presence.learn(entry, waits);
    }
}

fn is_handed_over(event: &Event) -> bool {
    matches!(event.what, Happening::Ended { cause: Cause::HandedOver, .. })
}

fn lock_of(op: &Op) -> Option<&LockName> {
    match op {
        Op::Renew { lock, .. } | Op::Proclaim { lock, .. } => Some(lock),
        op => wanted(op).next().map(|wanted| wanted.lock),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{
        Row, acquired, campaign, changed, ended, hand_over, journal, no_candidate, proclaim, queued,
    };
    use super::*;

    /// The first leads; of the owners named 2, 3 and 3 there are candidates.
    fn led() -> Vec<Row> {
        vec![
            (0, vec![campaign(1, "1")], vec![acquired(1, 1, false)]),
            (10, vec![campaign(2, "2")], vec![queued(2)]),
            (20, vec![campaign(3, "3")], vec![queued(3)]),
            (30, vec![campaign(4, "3")], vec![queued(4)]),
        ]
    }

    fn found(then: Row) -> String {
        let rows = [led(), vec![then]].concat();
        check(&journal(rows)).into_iter().map(|violation| violation.what + "\n").collect()
    }

    fn handed_over(successor: u8) -> Vec<Event> {
        vec![ended(1, 1, Cause::HandedOver), acquired(successor, 2, true)]
    }

    #[test]
    fn a_hand_over_past_those_in_front_is_right() {
        assert_eq!(found((40, vec![hand_over(1, "3")], handed_over(3))), "");
    }

    #[test]
    fn a_successor_who_was_not_chosen_or_is_not_the_first_is_found() {
        assert!(found((40, vec![hand_over(1, "3")], handed_over(2))).contains("who was not chosen"));
        assert!(found((40, vec![hand_over(1, "3")], handed_over(4))).contains("who came earlier"));
        let newcomer = (40, vec![hand_over(1, "3"), campaign(5, "3")], handed_over(5));
        assert!(found(newcomer).contains("who was not chosen"));
    }

    #[test]
    fn a_hand_over_to_nobody_or_with_somebody_in_between_is_found() {
        let nobody = vec![ended(1, 1, Cause::HandedOver)];
        assert!(found((40, vec![hand_over(1, "3")], nobody)).contains("handed over to nobody"));
        let between = vec![ended(1, 1, Cause::HandedOver), queued(6), acquired(3, 2, true)];
        assert!(found((40, vec![hand_over(1, "3")], between)).contains("handed over to nobody"));
    }

    #[test]
    fn a_candidate_that_is_said_not_to_be_there_is_found() {
        assert!(found((40, vec![no_candidate(1, "3")], vec![])).contains("although"));
        assert_eq!(found((40, vec![no_candidate(1, "7")], vec![])), "");
    }

    #[test]
    fn a_value_that_nobody_proclaimed_is_found() {
        assert_eq!(found((40, vec![proclaim(1, "7", "7")], vec![changed(1, 1, "7")])), "");
        let other = found((40, vec![proclaim(1, "7", "7")], vec![changed(1, 1, "8")]));
        assert!(other.contains("did not proclaim"), "{other}");
        assert!(found((40, vec![], vec![changed(1, 1, "8")])).contains("did not proclaim"));
        let (op, _) = campaign(1, "1");
        let (_, told) = proclaim(1, "7", "9");
        assert!(found((40, vec![(op, told)], vec![])).contains("is told to say"));
    }
}
