//! Who waits and is there, and who has gone.

use std::collections::BTreeMap;

use holdfast_core::{Answer, Cause, Fence, Home, NodeId, Op, Rejection, VOUCH_MS};

use crate::deed::{ALICE, BOB, CAROL, DAVE, abandon, acquire, release, renew, unclaim};
use crate::story::Story;

fn vouch(node: u64, boot: u32) -> Op {
    Op::Vouch { node: NodeId(node), boot }
}

/// Alice holds `db`; Bob at node 2 and then Carol at node 3 wait for it, for a minute.
fn bob_and_carol_wait() -> Story {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(600_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(60_000));
    story
}

#[test]
fn a_waiter_whose_node_is_dead_is_skipped_within_two_seconds() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.tick(2_000);
    assert_eq!(story.queue("db"), ["carol"]);
    story.releases(2_000, release(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

#[test]
fn two_hundred_dead_waiters_cost_as_little_as_one() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(600_000));
    for n in 0..200 {
        story.queues(0, acquire(BOB, "db").token(&format!("crowd {n}")).wait_ms(600_000));
    }
    story.queues(0, acquire(CAROL, "db").wait_ms(600_000));
    story.kill(2);
    story.tick(VOUCH_MS);
    story.releases(VOUCH_MS, release(ALICE, "db"));
    assert_eq!(story.so_far().grant_to(CAROL).at_ms, VOUCH_MS);
    assert_eq!(story.table.last_fence(), 2);
}

#[test]
fn a_waiter_of_a_living_node_waits_as_long_as_it_likes() {
    let mut story = bob_and_carol_wait();
    story.tick(59_999);
    assert_eq!(story.queue("db"), ["bob", "carol"]);
}

#[test]
fn an_absent_waiter_keeps_its_place_for_a_client_that_comes_back_through_another_node() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.tick(10_000);
    assert_eq!(story.queue("db"), ["carol"]);
    assert_eq!(story.queues(10_000, acquire(BOB, "db").wait_ms(60_000).through(1)), 1);
    assert_eq!(story.queue("db"), ["bob", "carol"]);
    story.releases(10_001, release(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
}

#[test]
fn an_absent_waiter_is_present_again_when_its_node_is() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.tick(10_000);
    story.reconnect(2);
    story.tick(10_500);
    assert_eq!(story.queue("db"), ["bob", "carol"]);
}

#[test]
fn an_absent_waiters_wait_ends_in_its_time() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    assert_eq!(story.tick(60_000).leavings_of(BOB), [(60_000, Cause::WaitTimeout)]);
}

#[test]
fn a_restart_makes_a_nodes_former_waiters_absent_and_ends_none() {
    let mut story = bob_and_carol_wait();
    story.restart(2);
    story.tick(500);
    assert_eq!(story.queue("db"), ["carol"]);
    // The client connects anew and finds its place, through the same node or another.
    assert_eq!(story.queues(600, acquire(BOB, "db").wait_ms(60_000)), 1);
    assert_eq!(story.queue("db"), ["bob", "carol"]);
}

#[test]
fn a_late_word_of_a_nodes_former_start_counts_for_nothing() {
    let mut story = bob_and_carol_wait();
    story.restart(2);
    story.tick(500);
    assert_eq!(story.leader_does(600, vouch(2, 1)), Ok(Answer::Done));
    assert_eq!(story.queue("db"), ["carol"]);
    // It does not take the word of the present start back either.
    story.queues(700, acquire(DAVE, "db").wait_ms(9_000).through(2));
    story.leader_does(800, vouch(2, 1)).unwrap();
    assert_eq!(story.queue("db"), ["carol", "dave"]);
}

#[test]
fn a_free_lock_whose_waiters_are_all_absent_goes_to_a_newcomer_at_once() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.kill(3);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "db"));
    assert_eq!((story.holder("db"), story.lock("db").queue_length), (None, 0));
    story.grants(3_001, acquire(DAVE, "db"));
    // Those who are away have still their places.
    assert_eq!(story.queues(3_002, acquire(CAROL, "db").wait_ms(60_000).through(1)), 2);
}

#[test]
fn a_free_lock_goes_to_the_first_waiter_that_comes_back() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.kill(3);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "db"));
    story.reconnect(3);
    assert_eq!(story.tick(3_500).grant_to(CAROL).at_ms, 3_500);
}

#[test]
fn a_client_that_comes_back_to_a_free_lock_is_granted_at_once() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.kill(3);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "db"));
    assert_eq!(story.grants(3_100, acquire(CAROL, "db").wait_ms(60_000).through(1)).fence, Fence(2));
    assert_eq!(story.grants(3_200, acquire(CAROL, "db").wait_ms(0).through(1)).fence, Fence(2));
}

/// One node's word makes all its waiters present, on whatever locks.
#[test]
fn a_node_that_is_back_serves_all_locks_that_waited_for_it() {
    let mut story = Story::default();
    for name in ["a", "b", "c"] {
        story.grants(0, acquire(ALICE, name));
        story.queues(0, acquire(BOB, name).wait_ms(60_000));
    }
    story.kill(2);
    story.tick(5_000);
    for name in ["a", "b", "c"] {
        story.releases(5_000, release(ALICE, name));
    }
    story.leader_does(6_000, vouch(2, 1)).unwrap();
    assert!(["a", "b", "c"].iter().all(|name| story.holder(name).as_deref() == Some("bob")));
}

/// A call from a node is as good as its word: whoever else waits there is present, too.
#[test]
fn a_call_that_waits_vouches_for_its_node() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.kill(3);
    story.tick(5_000);
    story.releases(5_000, release(ALICE, "db"));
    story.grants(5_000, acquire(ALICE, "web"));
    story.queues(5_001, acquire(DAVE, "web").wait_ms(1_000).through(3));
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

#[test]
fn a_waiter_whose_client_hangs_up_gives_its_place_to_the_next() {
    let mut story = bob_and_carol_wait();
    story.abandons(1, abandon(BOB, "db"));
    assert_eq!(story.so_far().leavings_of(BOB), [(1, Cause::Abandoned)]);
    assert_eq!(story.queue("db"), ["carol"]);
}

#[test]
fn a_grant_whose_client_hangs_up_before_the_answer_is_free_again_at_once() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db")).fence;
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    story.abandons(5, abandon(ALICE, "db"));
    assert_eq!(story.so_far().endings_of(ALICE), [(5, fence, Cause::Abandoned)]);
    assert_eq!(story.so_far().grant_to(BOB).at_ms, 5);
    // To its client it looks like a release: nobody else can have ended it.
    assert_eq!(story.releases(6, release(ALICE, "db")), Some(fence));
}

/// A client that repeats its call elsewhere has two of them for a while, and the network may bring the first one in last.
#[test]
fn an_attempt_waits_for_as_long_as_any_of_its_calls_does() {
    for last in 0..3 {
        let mut story = bob_and_carol_wait();
        let mut calls = vec![story.last_call_of(&acquire(BOB, "db"))];
        for node in [1, 3] {
            story.queues(100, acquire(BOB, "db").wait_ms(60_000).through(node));
            calls.push(story.last_call_of(&acquire(BOB, "db")));
        }
        let last = calls.remove(last);
        for call in calls {
            story.abandons(200, abandon(BOB, "db").call(call));
            assert_eq!(story.queue("db"), ["bob", "carol"]);
        }
        story.abandons(300, abandon(BOB, "db").call(last));
        assert_eq!(story.queue("db"), ["carol"]);
    }
}

/// The client was told of its grant by one of its calls; the other one arrives late, and nobody is there to hear its answer.
#[test]
fn a_late_double_of_a_call_never_takes_the_hold_away() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db").ttl_ms(600_000)).fence;
    let first = story.last_call_of(&acquire(ALICE, "db"));
    story.grants(300, acquire(ALICE, "db").ttl_ms(600_000).through(3));
    let late = story.last_call_of(&acquire(ALICE, "db"));
    for call in [late, first, late] {
        story.abandons(400, abandon(ALICE, "db").call(call));
        assert_eq!(story.holder("db").as_deref(), Some("alice"));
    }
    assert_eq!(story.renews(500, renew(ALICE, "db")).fence, fence);
}

#[test]
fn a_call_that_its_node_proposes_twice_can_still_give_the_grant_up() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    let call = story.last_call_of(&acquire(ALICE, "db"));
    story.leader_does(1, acquire(ALICE, "db").op(call, &BTreeMap::new())).unwrap();
    story.abandons(2, abandon(ALICE, "db").call(call));
    assert_eq!(story.holder("db"), None);
}

/// One of its calls claims the grant, whichever it is; the end of the other one changes nothing.
#[test]
fn a_grant_from_the_queue_stays_while_one_call_of_its_attempt_is_there() {
    let mut story = bob_and_carol_wait();
    let first = story.last_call_of(&acquire(BOB, "db"));
    story.queues(100, acquire(BOB, "db").wait_ms(60_000).through(3));
    let second = story.last_call_of(&acquire(BOB, "db"));
    story.releases(200, release(ALICE, "db"));
    story.abandons(300, abandon(BOB, "db").call(second));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    story.abandons(400, abandon(BOB, "db").call(first));
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

#[test]
fn only_a_call_of_the_attempt_gives_it_up() {
    let mut story = bob_and_carol_wait();
    let call = story.last_call_of(&acquire(ALICE, "db"));
    for other in [Home { call: 99, ..call }, Home { boot: 9, ..call }, Home { node: NodeId(2), ..call }] {
        story.abandons(500, abandon(ALICE, "db").call(other));
    }
    assert_eq!(story.holder("db").as_deref(), Some("alice"));
    story.abandons(600, abandon(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
}

/// Bob was granted the lock while he waited at node 2, and his node does not answer for it.
fn bob_does_not_claim() -> (Story, Fence) {
    let mut story = bob_and_carol_wait();
    story.releases(1_000, release(ALICE, "db"));
    let fence = story.so_far().grant_to(BOB).fence;
    (story, fence)
}

#[test]
fn a_grant_that_nobody_claims_goes_to_the_next_who_is_present() {
    let (mut story, fence) = bob_does_not_claim();
    story.kill(2);
    assert_eq!(story.leader_does(1_300, unclaim("db", fence)), Ok(Answer::Done));
    assert_eq!(story.so_far().endings_of(BOB), [(1_300, fence, Cause::Unclaimed)]);
    assert_eq!(story.so_far().grant_to(CAROL).at_ms, 1_300);
    assert!(story.so_far().grant_to(CAROL).fence > fence);
}

#[test]
fn an_attempt_that_did_not_claim_is_back_at_its_place_with_what_was_left_of_its_wait() {
    let (mut story, fence) = bob_does_not_claim();
    story.kill(2);
    story.leader_does(1_300, unclaim("db", fence)).unwrap();
    story.renews(1_400, renew(CAROL, "db").ttl_ms(600_000));
    story.queues(1_400, acquire(DAVE, "db").wait_ms(60_000));
    assert_eq!(story.queue("db"), ["dave"]);
    story.reconnect(2);
    story.tick(2_000);
    let queue = story.lock("db").queue;
    assert_eq!((queue[0].owner.as_str(), queue[0].waiting_ms), ("bob", 2_000)); // As if nothing had been.
    assert_eq!(story.tick(60_000).leavings_of(BOB), [(60_000, Cause::WaitTimeout)]);
}

#[test]
fn an_attempt_that_did_not_claim_and_comes_back_gets_another_fence() {
    let (mut story, fence) = bob_does_not_claim();
    story.kill(2);
    story.leader_does(1_300, unclaim("db", fence)).unwrap();
    assert_eq!(story.refuses(1_350, renew(BOB, "db")), Rejection::NotHolder);
    story.queues(1_400, acquire(BOB, "db").wait_ms(60_000).through(1));
    story.releases(1_500, release(CAROL, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    assert_eq!(story.table.last_fence(), fence.0 + 2);
}

#[test]
fn an_unclaimed_grant_of_a_wait_that_is_over_leaves_nothing_behind() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(100));
    story.releases(50, release(ALICE, "db"));
    let fence = story.so_far().grant_to(BOB).fence;
    story.leader_does(100, unclaim("db", fence)).unwrap();
    assert_eq!(story.so_far().leavings_of(BOB), [(100, Cause::WaitTimeout)]);
    assert_eq!((story.holder("db"), story.table.is_busy()), (None, false));
}

/// The leader makes up its mind, and meanwhile the client comes back and is told of its grant: then it holds the lock.
#[test]
fn a_grant_that_a_repeated_call_was_told_of_is_not_taken_back() {
    let (mut story, fence) = bob_does_not_claim();
    assert_eq!(story.grants(1_200, acquire(BOB, "db").wait_ms(60_000).through(1)).fence, fence);
    assert_eq!(story.leader_does(1_300, unclaim("db", fence)), Err(Rejection::NotHolder));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
}

#[test]
fn a_grant_that_a_renewal_was_told_of_is_not_taken_back() {
    let (mut story, fence) = bob_does_not_claim();
    story.renews(1_200, renew(BOB, "db"));
    assert_eq!(story.leader_does(1_300, unclaim("db", fence)), Err(Rejection::NotHolder));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
}

#[test]
fn a_grant_from_the_queue_that_was_the_answer_of_a_call_is_not_taken_back() {
    let mut story = bob_and_carol_wait();
    story.kill(2);
    story.kill(3);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "db"));
    let fence = story.grants(3_100, acquire(BOB, "db").wait_ms(60_000).through(1)).fence;
    assert_eq!(story.leader_does(3_200, unclaim("db", fence)), Err(Rejection::NotHolder));
}

#[test]
fn only_the_grant_that_is_named_is_taken_back() {
    let (mut story, fence) = bob_does_not_claim();
    assert_eq!(story.leader_does(1_100, unclaim("db", Fence(fence.0 - 1))), Err(Rejection::NotHolder));
    assert_eq!(story.leader_does(1_100, unclaim("web", fence)), Err(Rejection::NotHolder));
    story.releases(1_200, release(BOB, "db"));
    assert_eq!(story.leader_does(1_300, unclaim("db", fence)), Err(Rejection::NotHolder));
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

#[test]
fn a_grant_that_was_given_at_once_is_never_taken_back() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db")).fence;
    assert_eq!(story.leader_does(1, unclaim("db", fence)), Err(Rejection::NotHolder));
}

#[test]
fn a_grant_that_a_nodes_former_start_did_not_claim_says_nothing_of_its_present_one() {
    let (mut story, fence) = bob_does_not_claim();
    story.restart(2);
    story.queues(1_100, acquire(DAVE, "db").wait_ms(60_000).through(2));
    story.leader_does(1_200, unclaim("db", fence)).unwrap();
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
    assert_eq!(story.queue("db"), ["dave"]);
}

/// The calls that it has left are at a node that is dead.
#[test]
fn one_who_is_there_no_more_when_one_of_its_calls_is_given_up_keeps_nobody_out() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").permits(3, 5).ttl_ms(600_000));
    story.queues(0, acquire(BOB, "db").permits(4, 5).wait_ms(60_000));
    story.queues(0, acquire(BOB, "db").permits(4, 5).wait_ms(60_000).through(3));
    story.queues(0, acquire(CAROL, "db").permits(1, 5).wait_ms(60_000));
    story.kill(2);
    story.tick(2_500);
    assert_eq!(
        (story.holders("db"), story.queue("db")),
        (vec!["alice".into()], vec!["bob".into(), "carol".into()])
    );
    story.abandons(2_500, abandon(BOB, "db"));
    assert_eq!(story.holders("db"), ["alice", "carol"]);
}
