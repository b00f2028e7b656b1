//! First come, first served: of two waiters that a read showed in the queue, the one ahead is granted first.
//!
//! A waiter whose node is cut off, or too slow to take a grant, is rightly passed over. So only waiters of one node are
//! compared, which are passed over together; or any in times that were healthy throughout and in which all grants were
//! taken. And only a waiter counts as passed over that has kept its place: it made one call, which was answered.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::attempt::Attempt;
use crate::conditions::HealthyTimes;
use crate::history::{History, Operation};
use crate::holds::{Lock, fence_known};
use crate::lease::{Clock, ms};
use crate::outcome::{Answer, Code, Outcome};
use crate::request::Request;
use crate::verdict::{Check, Violation};

/// For so long before the read it must have been healthy: a node that was cut off has been heard of again by then.
const SETTLED_NS: u64 = 3_000_000_000;

/// Whether any read shows a queue that says something.
pub(super) fn can_be_seen(history: &History) -> bool {
    history.operations.iter().any(|read| queue_seen(read).len() > 1)
}

pub(super) fn check(lock: &Lock<'_>, history: &History, clock: Clock) -> Vec<Violation> {
    let times = HealthyTimes::of(history);
    let waiters = Waiters::of(lock, clock);
    let mut violations: BTreeMap<(u64, u64), Violation> = BTreeMap::new();
    for read in lock.operations.iter().filter(|read| queue_seen(read).len() > 1) {
        let queue = queue_seen(read).iter().filter_map(|owner| waiters.by_owner.get(&**owner));
        for (ahead, behind) in passed_over(queue.collect(), read, history, &times) {
            let key = (ahead.call.id, behind.grant.map_or(0, |grant| grant.id));
            violations.entry(key).or_insert_with(|| violation(ahead, behind, read));
        }
    }
    violations.into_values().collect()
}

fn queue_seen(read: &Operation) -> &[std::sync::Arc<str>] {
    match &read.outcome {
        Outcome::Ok(Answer::Seen { queue, .. }) => queue,
        _ => &[],
    }
}

/// An attempt that waited.
#[derive(Debug)]
struct Waiter<'a> {
    call: &'a Operation,
    /// The node that all its calls went to; none if they went to several.
    node: Option<&'a str>,
    /// What told it of its grant, and the fence.
    grant: Option<&'a Operation>,
    fence: Option<u64>,
    /// It kept its place until it had this fence, or until this moment.
    kept_until: Option<Kept>,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Granted(u64),
    Moment(u64),
}

struct Waiters<'a> {
    /// Owners that stand for one attempt.
    by_owner: HashMap<&'a str, Waiter<'a>>,
}

impl<'a> Waiters<'a> {
    fn of(lock: &Lock<'a>, clock: Clock) -> Self {
        let mut attempts_of: HashMap<&str, Vec<&Attempt<'a>>> = HashMap::new();
        for attempt in lock.attempts.values() {
            for owner in owners(attempt) {
                attempts_of.entry(owner).or_default().push(attempt);
            }
        }
        let of_one = attempts_of.into_iter().filter(|(_, attempts)| attempts.len() == 1);
        Self { by_owner: of_one.filter_map(|(owner, of)| Some((owner, waiter(of[0], clock)?))).collect() }
    }
}

fn owners<'a>(attempt: &Attempt<'a>) -> Vec<&'a str> {
    let mut owners: Vec<&str> = attempt.acquires().filter_map(|call| owner(call)).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn owner(call: &Operation) -> Option<&str> {
    match &call.request {
        Request::Acquire { owner, .. } => Some(owner),
        _ => None,
    }
}

fn waiter<'a>(attempt: &Attempt<'a>, clock: Clock) -> Option<Waiter<'a>> {
    let call = attempt.acquires().next()?;
    let grant = attempt
        .calls
        .iter()
        .copied()
        .filter(|call| call.granted().is_some())
        .min_by_key(|call| call.completed);
    let is_one_node = attempt.acquires().all(|other| other.node == call.node);
    let is_one_call = attempt.acquires().count() == 1;
    let has_left = attempt.releases().iter().any(|release| release.invoked <= call.completed);
    let kept_until = if is_one_call && !has_left { kept_until(call, clock) } else { None };
    let fence =
        Some(&attempt.fences).filter(|fences| fences.len() == 1).and_then(|fences| fences.first().copied());
    Some(Waiter { call, node: is_one_node.then_some(&*call.node), grant, fence, kept_until })
}

fn kept_until(call: &Operation, clock: Clock) -> Option<Kept> {
    match (&call.outcome, &call.request) {
        (Outcome::Ok(Answer::Granted { fence, .. }), _) => Some(Kept::Granted(*fence)),
        (Outcome::Refused(refusal), Request::Acquire { wait_ms, .. })
            if refusal.code == Code::WaitTimeout =>
        {
            Some(Kept::Moment(call.invoked + clock.at_least(*wait_ms)))
        }
        _ => None,
    }
}

/// Pairs of a queue of which the one behind was granted before the one ahead. For each one ahead the first of them.
fn passed_over<'a, 'b>(
    queue: Vec<&'b Waiter<'a>>,
    read: &Operation,
    history: &History,
    times: &HealthyTimes,
) -> Vec<(&'b Waiter<'a>, &'b Waiter<'a>)> {
    let mut pairs = Vec::new();
    for (at, ahead) in queue.iter().enumerate() {
        let Some(kept) = ahead.kept_until else { continue };
        let is_rightly_ahead = |behind: &&&Waiter<'_>| {
            are_together(ahead, behind)
                || were_all_reached(behind, read, times) && were_all_taken(behind, read, history)
        };
        let behind = queue[at + 1..].iter().filter(|behind| went_first(behind, kept)).find(is_rightly_ahead);
        pairs.extend(behind.map(|behind| (*ahead, *behind)));
    }
    pairs
}

fn went_first(behind: &Waiter<'_>, ahead_kept: Kept) -> bool {
    match (behind.fence, behind.grant, ahead_kept) {
        (Some(fence), Some(_), Kept::Granted(ahead)) => fence < ahead,
        (Some(_), Some(grant), Kept::Moment(until)) => grant.completed < until,
        _ => false,
    }
}

fn are_together(one: &Waiter<'_>, other: &Waiter<'_>) -> bool {
    one.node.is_some() && one.node == other.node
}

fn were_all_reached(behind: &Waiter<'_>, read: &Operation, times: &HealthyTimes) -> bool {
    let settled = read.invoked.checked_sub(SETTLED_NS);
    let (Some(settled), Some(grant)) = (settled, behind.grant) else { return false };
    times.throughout(settled, grant.completed)
}

/// Whether somebody was told of every grant from a while before the read to that of the one behind. One that nobody was
/// told of may have been the one ahead's, or one of its node's, which did not take it in time and was passed over.
fn were_all_taken(behind: &Waiter<'_>, read: &Operation, history: &History) -> bool {
    let (Some(until), Some(settled)) = (behind.fence, read.invoked.checked_sub(SETTLED_NS)) else {
        return false;
    };
    let before = history.operations.iter().filter(|operation| operation.completed < settled);
    let after = before.filter_map(fence_known).max().unwrap_or(0);
    let told = history.operations.iter().filter_map(fence_told);
    let told: HashSet<u64> = told.filter(|fence| after < *fence && *fence < until).collect();
    told.len() as u64 == until.saturating_sub(after + 1)
}

/// The fence that its own attempt was told of.
fn fence_told(operation: &Operation) -> Option<u64> {
    match operation.outcome {
        Outcome::Ok(Answer::Granted { fence, .. }) => Some(fence),
        Outcome::Ok(Answer::Released { fence }) => fence,
        Outcome::Ok(Answer::Seen { .. }) | Outcome::Refused(_) | Outcome::Unknown { .. } => None,
    }
}

fn violation(ahead: &Waiter<'_>, behind: &Waiter<'_>, read: &Operation) -> Violation {
    let grant = behind.grant.expect("it went first");
    let what = format!(
        "{} waited ahead of {}, which was granted at {} while it still waited",
        ahead.call.request.attempt().expect("an acquire has one"),
        behind.call.request.attempt().expect("an acquire has one"),
        ms(grant.completed)
    );
    Violation::new(Check::QueueOrder, what, &[ahead.call, behind.call, read, grant])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::verdict::Check::QueueOrder;

    fn queue_of_two(story: &mut Story) {
        story.acquires("a", 1..5, 1_000).granted(1);
        story.reads(4_000..4_010).sees(&[], &["b", "c"]);
    }

    #[test]
    fn a_waiter_that_is_passed_over_by_one_of_its_node_is_found() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..6_000, 200, 9_000).granted(3);
        story.waits("c", 90..5_000, 200, 9_000).granted(2);
        story.assert_found(QueueOrder, "b waited ahead of c");
    }

    #[test]
    fn a_waiter_that_is_passed_over_by_one_of_another_node_is_found_in_healthy_times_only() {
        for (is_healthy, found) in [(true, 1), (false, 0)] {
            let mut story = Story::default();
            if is_healthy {
                story.healthy(0);
            }
            queue_of_two(&mut story);
            story.waits("b", 100..6_000, 200, 9_000).granted(3);
            story.through("n2").waits("c", 90..5_000, 200, 9_000).granted(2);
            assert_eq!(story.verdict().of(QueueOrder).count(), found);
        }
    }

    #[test]
    fn a_waiter_that_did_not_take_a_grant_may_be_passed_over_by_one_of_another_node() {
        let mut story = Story::default();
        story.healthy(0);
        queue_of_two(&mut story);
        // Nobody was told of fence 2: it may have been b's.
        story.waits("b", 100..6_000, 200, 9_000).granted(4);
        story.through("n2").waits("c", 90..5_000, 200, 9_000).granted(3);
        story.assert_clean();
    }

    #[test]
    fn a_waiter_whose_wait_ends_while_another_was_let_in_before_is_found() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..8_200, 200, 8_000).refused("wait_timeout");
        story.waits("c", 90..5_000, 200, 9_000).granted(2);
        story.assert_found(QueueOrder, "b waited ahead of c");
    }

    #[test]
    fn waiters_that_are_served_in_turn_are_right() {
        let mut story = Story::default();
        story.healthy(0);
        queue_of_two(&mut story);
        story.waits("b", 100..5_000, 200, 9_000).granted(2);
        story.waits("c", 90..6_000, 200, 9_000).granted(3);
        story.assert_clean();
    }

    #[test]
    fn a_waiter_that_hung_up_and_came_back_may_have_lost_its_place() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..4_500, 200, 9_000).unknown();
        story.waits("c", 90..5_000, 200, 9_000).granted(2);
        story.waits("b", 4_600..6_000, 200, 9_000).granted(3);
        story.assert_clean();
    }

    #[test]
    fn a_waiter_whose_wait_was_over_may_be_passed_over() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..8_200, 200, 4_000).refused("wait_timeout");
        story.waits("c", 90..5_000, 200, 9_000).granted(2);
        story.assert_clean();
    }
}
