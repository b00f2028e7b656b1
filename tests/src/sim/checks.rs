//! What must hold of every history.

use std::collections::BTreeMap;

use holdfast_core::AttemptKey;

use super::clients::{Came, Deed, Line};
use super::executor::Nanos;

/// Something that must not be.
pub(crate) type Violation = String;

/// Checks a history; the order of its lines does not matter.
pub(crate) fn check(lines: &[Line]) -> Vec<Violation> {
    let mut violations = Vec::new();
    one_attempt_has_one_fence(lines, &mut violations);
    fences_follow_real_time(lines, &mut violations);
    beliefs_do_not_overlap(lines, &mut violations);
    reads_see_who_holds(lines, &mut violations);
    violations
}

fn fence_of(line: &Line) -> Option<u64> {
    match (&line.deed, &line.came) {
        (Deed::Acquire { .. } | Deed::Renew, Came::Granted(fence)) => Some(*fence),
        _ => None,
    }
}

/// A token never gets two grants, and a fence never two tokens.
fn one_attempt_has_one_fence(lines: &[Line], violations: &mut Vec<Violation>) {
    let mut fences = BTreeMap::new();
    let mut attempts = BTreeMap::new();
    for line in lines {
        let Some(fence) = fence_of(line) else { continue };
        if *fences.entry((line.lock, line.attempt)).or_insert(fence) != fence {
            violations.push(format!("an attempt was granted twice: {line:?}"));
        }
        if *attempts.entry(fence).or_insert((line.lock, line.attempt)) != (line.lock, line.attempt) {
            violations.push(format!("a fence was granted twice: {line:?}"));
        }
    }
}

/// A grant that was asked for after another was told has the higher fence.
fn fences_follow_real_time(lines: &[Line], violations: &mut Vec<Violation>) {
    // Each attempt by when it was first asked for and when its fence was first told.
    let mut attempts: BTreeMap<(u64, AttemptKey), (Nanos, Nanos, u64)> = BTreeMap::new();
    for line in lines {
        let first = lines_first_invoked(lines, line);
        if let Some(fence) = fence_of(line) {
            let entry = attempts.entry((line.lock, line.attempt)).or_insert((first, line.returned, fence));
            entry.1 = entry.1.min(line.returned);
        }
    }
    let mut by_invoked: Vec<_> = attempts.values().copied().collect();
    by_invoked.sort_unstable();
    let mut by_told = by_invoked.clone();
    by_told.sort_unstable_by_key(|(_, told, _)| *told);
    let (mut highest, mut next) = (0, 0);
    for (invoked, _, fence) in by_invoked {
        while next < by_told.len() && by_told[next].1 < invoked {
            highest = highest.max(by_told[next].2);
            next += 1;
        }
        if fence <= highest {
            violations.push(format!("fence {fence} was asked for after fence {highest} had been told"));
        }
    }
}

fn lines_first_invoked(lines: &[Line], of: &Line) -> Nanos {
    let same = lines.iter().filter(|line| line.lock == of.lock && line.attempt == of.attempt);
    same.map(|line| line.invoked).min().unwrap_or(of.invoked)
}

/// From when until when the holder of a fence could rightly believe that it holds the lock.
fn beliefs(lines: &[Line]) -> BTreeMap<(u64, u64), Vec<(Nanos, Nanos)>> {
    let mut beliefs: BTreeMap<(u64, u64), Vec<(Nanos, Nanos)>> = BTreeMap::new();
    for line in lines {
        let (Some(fence), Some(until)) = (fence_of(line), line.believed_until) else { continue };
        // It believes nothing any more once it has asked for the release.
        let released = lines
            .iter()
            .filter(|other| {
                other.lock == line.lock && other.attempt == line.attempt && other.deed == Deed::Release
            })
            .map(|other| other.invoked)
            .min();
        let until = released.map_or(until, |released| until.min(released));
        if until > line.returned {
            beliefs.entry((line.lock, fence)).or_default().push((line.returned, until));
        }
    }
    beliefs
}

fn beliefs_do_not_overlap(lines: &[Line], violations: &mut Vec<Violation>) {
    let mut all: Vec<(u64, Nanos, Nanos, u64)> = Vec::new();
    for ((lock, fence), spans) in beliefs(lines) {
        all.extend(spans.into_iter().map(|(from, until)| (lock, from, until, fence)));
    }
    all.sort_unstable();
    let mut reach: BTreeMap<u64, (Nanos, u64)> = BTreeMap::new();
    for (lock, from, until, fence) in all {
        let entry = reach.entry(lock).or_insert((0, fence));
        if from < entry.0 && entry.1 != fence {
            violations
                .push(format!("lock {lock}: fences {} and {fence} are both believed at {from}", entry.1));
        }
        if until > entry.0 {
            *entry = (until, fence);
        }
    }
}

/// A read that lies within somebody's rightful belief sees that holder.
fn reads_see_who_holds(lines: &[Line], violations: &mut Vec<Violation>) {
    let beliefs = beliefs(lines);
    for line in lines {
        let Came::Seen(seen) = &line.came else { continue };
        for ((lock, fence), spans) in beliefs.range((line.lock, 0)..=(line.lock, u64::MAX)) {
            let within = spans.iter().any(|(from, until)| *from < line.invoked && line.returned < *until);
            if within && *seen != Some(*fence) {
                violations
                    .push(format!("lock {lock}: a read saw {seen:?} while fence {fence} held it: {line:?}"));
            }
        }
    }
}
