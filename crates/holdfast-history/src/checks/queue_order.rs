//! First come, first served: of two waiters that a read showed in the queue, the one ahead is granted first, and before
//! anybody who asks later than the read. So neither a writer among readers starves nor a request for many permits.
//!
//! A waiter whose node is cut off, or too slow to take a grant, is rightly passed over. So only waiters of one node are
//! compared, which are passed over together; or any in times that were healthy throughout and in which all grants were
//! taken. Of a lock that several may hold at once, waiters of one node may be granted at once, and one of them take it too
//! late: there, too, all grants must have been taken. And only a waiter counts as passed over that has kept its place: it
//! made one call, which was answered. Of two at one node both have to have kept it: one who comes anew may find the lock
//! free before the other has been heard of again.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::attempt::Attempt;
use crate::conditions::HealthyTimes;
use crate::history::{History, Operation};
use crate::holds::{Hold, Lock, fences_known};
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
    let newcomers = Newcomers::of(lock);
    let mut violations: BTreeMap<(u64, u64), Violation> = BTreeMap::new();
    for read in lock.operations.iter().filter(|read| !queue_seen(read).is_empty()) {
        let queue = queue_seen(read).iter().filter_map(|owner| waiters.by_owner.get(&**owner));
        let queue: Vec<_> = queue.collect();
        for ahead in &queue {
            let came_later = newcomers.let_in_before(ahead, read).find(|(_, grant)| {
                were_all_reached(grant, read, &times) && were_all_taken(grant, read, history)
            });
            if let Some((call, grant)) = came_later {
                let key = (ahead.call.id, grant.id);
                violations.entry(key).or_insert_with(|| violation(ahead, call, grant, read));
            }
        }
        for (ahead, behind, grant) in passed_over(queue, read, lock, history, &times) {
            let key = (ahead.call.id, grant.id);
            violations.entry(key).or_insert_with(|| violation(ahead, behind.call, grant, read));
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
    /// It asked once.
    is_one_call: bool,
    /// It kept its place until it had this fence, or until this moment.
    kept_until: Option<Kept>,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Granted(u64),
    Moment(u64),
}

impl Kept {
    /// Whether it still waited when this fence was granted, which was told at a moment.
    fn is_longer_than(self, fence: u64, told: u64) -> bool {
        match self {
            Self::Granted(own) => fence < own,
            Self::Moment(until) => told < until,
        }
    }
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
    Some(Waiter { call, node: is_one_node.then_some(&*call.node), grant, fence, is_one_call, kept_until })
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

/// All who were granted the lock, by the time that they first asked for it.
struct Newcomers<'a, 'b> {
    by_asking: Vec<(&'b Hold<'a>, &'a Operation)>,
    /// For each, the lowest fence, and the earliest answer, of it and all who asked later.
    best_since: Vec<(u64, u64)>,
    calls: HashMap<u64, &'a Operation>,
}

impl<'a, 'b> Newcomers<'a, 'b> {
    fn of(lock: &'b Lock<'a>) -> Self {
        let told = |hold: &'b Hold<'a>| {
            let calls = &lock.attempt_of(hold)?.calls;
            let told =
                calls.iter().filter(|call| call.granted().is_some_and(|(fence, _)| fence == hold.fence));
            Some((hold, *told.min_by_key(|call| call.completed)?))
        };
        let mut by_asking: Vec<_> = lock.holds.iter().filter_map(told).collect();
        by_asking.sort_by_key(|(hold, _)| hold.asked);
        let mut best_since: Vec<_> =
            by_asking.iter().map(|(hold, grant)| (hold.fence, grant.completed)).collect();
        for at in (1..best_since.len()).rev() {
            let (fence, told) = best_since[at];
            let before = &mut best_since[at - 1];
            *before = (before.0.min(fence), before.1.min(told));
        }
        let first_call = |hold: &Hold<'a>| Some((hold.fence, lock.attempt_of(hold)?.acquires().next()?));
        let calls = by_asking.iter().filter_map(|(hold, _)| first_call(hold)).collect();
        Self { by_asking, best_since, calls }
    }

    /// Those who first asked after a read had shown this one to wait, and were granted the lock before it: what they asked,
    /// and what told them.
    fn let_in_before(
        &self,
        ahead: &Waiter<'_>,
        read: &Operation,
    ) -> impl Iterator<Item = (&'a Operation, &'a Operation)> {
        let later = self.by_asking.partition_point(|(hold, _)| hold.asked <= read.completed);
        let is_any = |kept: &Kept| {
            self.best_since.get(later).is_some_and(|(fence, told)| kept.is_longer_than(*fence, *told))
        };
        let kept = ahead.kept_until.filter(is_any);
        let later = self.by_asking[later..].iter().filter(move |(hold, grant)| {
            kept.is_some_and(|kept| kept.is_longer_than(hold.fence, grant.completed))
        });
        later.filter(move |_| kept.is_some()).map(|(hold, grant)| (self.calls[&hold.fence], *grant))
    }
}

/// Pairs of a queue of which the one behind was granted before the one ahead, and that grant. For each one ahead the first
/// of them.
fn passed_over<'a, 'b>(
    queue: Vec<&'b Waiter<'a>>,
    read: &Operation,
    lock: &Lock<'_>,
    history: &History,
    times: &HealthyTimes,
) -> Vec<(&'b Waiter<'a>, &'b Waiter<'a>, &'a Operation)> {
    let mut pairs = Vec::new();
    for (at, ahead) in queue.iter().enumerate() {
        let Some(kept) = ahead.kept_until else { continue };
        let went_first = |behind: &&'b Waiter<'a>| {
            let (fence, grant) = (behind.fence?, behind.grant?);
            kept.is_longer_than(fence, grant.completed).then_some((*ahead, *behind, grant))
        };
        let is_rightly_ahead = |(_, behind, grant): &(&Waiter<'_>, &Waiter<'_>, &Operation)| {
            let are_together = are_together(ahead, behind) && behind.is_one_call;
            are_together && lock.is_plain
                || (are_together || were_all_reached(grant, read, times))
                    && were_all_taken(grant, read, history)
        };
        pairs.extend(queue[at + 1..].iter().filter_map(went_first).find(is_rightly_ahead));
    }
    pairs
}

fn are_together(one: &Waiter<'_>, other: &Waiter<'_>) -> bool {
    one.node.is_some() && one.node == other.node
}

fn were_all_reached(grant: &Operation, read: &Operation, times: &HealthyTimes) -> bool {
    let settled = read.invoked.checked_sub(SETTLED_NS);
    settled.is_some_and(|settled| times.throughout(settled, grant.completed))
}

/// Whether somebody was told of every grant from a while before the read to this one. One that nobody was told of may have
/// been the one ahead's, or one of its node's, which did not take it in time and was passed over.
fn were_all_taken(grant: &Operation, read: &Operation, history: &History) -> bool {
    let (Some((until, _)), Some(settled)) = (grant.granted(), read.invoked.checked_sub(SETTLED_NS)) else {
        return false;
    };
    let before = history.operations.iter().filter(|operation| operation.completed < settled);
    let after = before.flat_map(fences_known).max().unwrap_or(0);
    let told = history.operations.iter().filter_map(fence_told);
    let told: HashSet<u64> = told.filter(|fence| after < *fence && *fence < until).collect();
    told.len() as u64 == until.saturating_sub(after + 1)
}

/// The fence that its own attempt was told of.
fn fence_told(operation: &Operation) -> Option<u64> {
    match operation.outcome {
        Outcome::Ok(Answer::Granted { fence, .. }) => Some(fence),
        Outcome::Ok(Answer::Released { fence }) => fence,
        Outcome::Ok(Answer::Seen { .. } | Answer::Limited { .. } | Answer::Forced { .. })
        | Outcome::Refused(_)
        | Outcome::Unknown { .. } => None,
    }
}

fn violation(ahead: &Waiter<'_>, behind: &Operation, grant: &Operation, read: &Operation) -> Violation {
    let what = format!(
        "{} waited ahead of {}, which was granted at {} while it still waited",
        ahead.call.request.attempt().expect("an acquire has one"),
        behind.request.attempt().expect("an acquire has one"),
        ms(grant.completed)
    );
    Violation::new(Check::QueueOrder, what, &[ahead.call, behind, read, grant])
}

#[cfg(test)]
mod tests {
    use crate::checks::story::Story;
    use crate::share::Share;
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
    fn one_who_comes_anew_through_the_same_node_may_find_the_lock_free() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..6_000, 200, 9_000).granted(3);
        story.waits("c", 90..4_500, 200, 4_000).unknown();
        story.waits("c", 4_600..5_000, 200, 4_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn of_two_of_one_node_that_were_granted_at_once_one_may_take_it_too_late() {
        let tell = |other_fence| {
            let mut story = Story::default();
            queue_of_two(&mut story);
            story.at("db").takes_waiting((1, 2), "b", 100..6_000, 200, 9_000).granted(4);
            story.at("db").takes_waiting((1, 2), "c", 90..5_000, 200, 9_000).granted(3);
            story.at("another").acquires("d", 4_500..4_600, 1_000).granted(other_fence);
            story
        };
        // Nobody was told of fence 2: it may have been b's.
        tell(5).assert_clean();
        tell(2).assert_found(QueueOrder, "b waited ahead of c");
    }

    #[test]
    fn a_waiter_whose_wait_was_over_may_be_passed_over() {
        let mut story = Story::default();
        queue_of_two(&mut story);
        story.waits("b", 100..8_200, 200, 4_000).refused("wait_timeout");
        story.waits("c", 90..5_000, 200, 9_000).granted(2);
        story.assert_clean();
    }

    #[test]
    fn a_reader_that_is_let_in_past_a_waiting_writer_is_found_in_healthy_times_only() {
        for (is_healthy, found) in [(true, 1), (false, 0)] {
            let mut story = Story::default();
            if is_healthy {
                story.healthy(0);
            }
            story.reader("a", 1..5, 6_000).granted(1);
            story.reads(4_000..4_010).sees(&[("a", 1)], &["writer"]);
            story.waits("writer", 100..7_000, 200, 9_000).granted(3);
            story.reader("b", 4_020..4_030, 2_000).granted(2);
            assert_eq!(story.verdict().of(QueueOrder).count(), found);
        }
    }

    #[test]
    fn a_large_request_that_small_ones_pass_until_its_wait_is_over_is_found() {
        let mut story = Story::default();
        story.healthy(0);
        story.takes((2, 5), "a", 1..5, 9_000).granted(1);
        story.reads(4_000..4_010).sees_shares_and_queue(&[("a", 1, Share::Permits(2))], &["large"]);
        story.through("n2").takes_waiting((4, 5), "large", 100..8_200, 200, 8_000).refused("wait_timeout");
        story.takes((1, 5), "b", 4_020..4_030, 2_000).granted(2);
        story.assert_found(QueueOrder, "large waited ahead of b");
    }

    #[test]
    fn one_who_asked_before_the_read_was_answered_may_have_come_first() {
        let mut story = Story::default();
        story.healthy(0);
        story.reader("a", 1..5, 6_000).granted(1);
        story.reads(4_000..4_010).sees(&[("a", 1)], &["writer"]);
        story.waits("writer", 100..7_000, 200, 9_000).granted(3);
        story.reader("b", 4_005..4_030, 2_000).granted(2);
        assert_eq!(story.verdict().of(QueueOrder).count(), 0);
    }
}
