//! Waiting: who is next, and who is not.

use holdfast_core::{Answer, Cause, Fence, Outcome, QUEUE_LEN_MAX, Rejection};

use crate::deed::{ALICE, BOB, CAROL, DAVE, Deed, abandon, acquire, release, renew};
use crate::story::Story;

/// The n-th of many who wait, through one of three nodes.
fn waiter(n: u64) -> Deed {
    let who = [ALICE, BOB, CAROL][(n % 3) as usize];
    acquire(who, "db").owner(&format!("w{n}")).token(&format!("waiter {n}")).wait_ms(600_000)
}

fn release_of_waiter(n: u64) -> Deed {
    release(ALICE, "db").token(&format!("waiter {n}"))
}

#[test]
fn those_who_wait_are_let_in_one_at_a_time_each_for_its_whole_ttl() {
    let mut story = Story::default();
    let outcomes = story.do_together(0, &[0, 1, 2, 3].map(|n| waiter(n).ttl_ms(5_000)));
    assert!(matches!(outcomes[0], Ok(Answer::Granted(_))));
    let then = story.tick(20_000);
    let times: Vec<_> = then.0.iter().map(|(at_ms, event)| (*at_ms, event.owner.to_string())).collect();
    let hand_overs = [(5_000, "w0", "w1"), (10_000, "w1", "w2"), (15_000, "w2", "w3")];
    let mut expected: Vec<_> = hand_overs
        .iter()
        .flat_map(|(at_ms, old, new)| [(*at_ms, (*old).to_owned()), (*at_ms, (*new).to_owned())])
        .collect();
    expected.push((20_000, "w3".to_owned()));
    assert_eq!(times, expected);
    assert_eq!(story.table.last_fence(), 4);
}

#[test]
fn one_release_wakes_one_waiter() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    for n in 0..500 {
        story.queues(0, waiter(n));
    }
    let before = story.table.seq();
    story.releases(100, release(ALICE, "db"));
    assert_eq!(story.table.seq() - before, 2); // One hold has ended, one has begun.
    assert_eq!(story.holder("db").as_deref(), Some("w0"));
    assert_eq!(story.lock("db").queue_length, 499);
}

/// Locks exclude attempts, not owners: tasks that share a label share nothing else.
#[test]
fn a_thousand_attempts_of_one_owner_exclude_each_other() {
    let mut story = Story::default();
    let attempt = |n: u64| acquire(ALICE, "db").token(&format!("task {n}")).wait_ms(600_000);
    let all: Vec<_> = (0..1_000).map(attempt).collect();
    story.do_together(0, &all);
    for n in 0..1_000 {
        assert_eq!(story.lock("db").holders[0].fence, Fence(n + 1));
        story.releases(0, release(ALICE, "db").token(&format!("task {n}")));
    }
    assert_eq!(story.holder("db"), None);
}

#[test]
fn grants_follow_the_order_of_the_log_over_all_nodes_however_often_calls_are_repeated() {
    let mut story = Story::default();
    story.grants(0, acquire(DAVE, "db"));
    for n in 0..25 {
        assert_eq!(story.queues(n * 50, waiter(n)), n + 1);
        // The leader dies in the middle: everybody so far repeats the call, in some other order, through another node.
        if n == 12 {
            for again in (0..=12).rev() {
                assert_eq!(story.queues(n * 50, waiter(again).through(again % 2 + 1)), again + 1);
            }
        }
    }
    let listed = story.queue("db");
    story.releases(2_000, release(DAVE, "db"));
    for n in 0..25 {
        assert_eq!(story.holder("db"), Some(listed[n as usize].clone()));
        story.releases(2_000 + n * 100, release_of_waiter(n));
    }
    let granted: Vec<_> = (0..25).map(|n| format!("w{n}")).collect();
    assert_eq!(story.so_far().grants()[1..].iter().map(|(who, _)| *who).collect::<Vec<_>>(), granted);
}

#[test]
fn a_waiter_is_granted_at_once_however_the_hold_before_it_ends() {
    type End = fn(&mut Story);
    let ends: [End; 4] = [
        |story| assert!(story.releases(1_000, release(ALICE, "db")).is_some()),
        |story| assert!(story.releases(1_000, release(ALICE, "db").through(3)).is_some()),
        |story| story.abandons(1_000, abandon(ALICE, "db")),
        |story| {
            story.renews(500, renew(ALICE, "db").ttl_ms(500));
            story.tick(1_000);
        },
    ];
    for end in ends {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "db"));
        story.queues(0, acquire(BOB, "db").wait_ms(60_000));
        end(&mut story);
        assert_eq!(story.so_far().grant_to(BOB).at_ms, 1_000);
    }
}

#[test]
fn those_who_gave_up_never_hold_the_lock_and_hold_nobody_up() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(60_000));
    story.queues(0, acquire(BOB, "db").wait_ms(1_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(50_000));
    story.refuses(0, acquire(DAVE, "db"));
    story.queues(0, acquire(DAVE, "db").token("patient").owner("erin").wait_ms(50_000));
    story.abandons(500, abandon(CAROL, "db"));
    assert_eq!(story.tick(1_000).leavings_of(BOB), [(1_000, Cause::WaitTimeout)]);
    assert_eq!(story.queue("db"), ["erin"]);
    story.releases(5_000, release(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("erin"));
    assert_eq!(story.table.last_fence(), 2);
}

#[test]
fn a_try_that_does_not_wait_is_told_who_is_in_the_way_and_takes_no_place() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db").ttl_ms(10_000)).fence;
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    match story.refuses(4_000, acquire(CAROL, "db")) {
        Rejection::Held { holder: Some(holder), queue_length } => {
            assert_eq!((holder.owner.as_str(), holder.fence, holder.expires_in_ms), ("alice", fence, 6_000));
            assert_eq!(queue_length, 1);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(story.queue("db"), ["bob"]);
}

/// A wait is not shortened by all the hand-overs that it sees go by.
#[test]
fn a_wait_lasts_as_long_as_was_asked_for_however_often_the_lock_changes_hands() {
    let mut story = Story::default();
    story.grants(0, waiter(0));
    for n in 1..200 {
        story.queues(0, waiter(n));
    }
    story.queues(0, acquire(DAVE, "db").wait_ms(30_000));
    for n in 0..149 {
        story.releases((n + 1) * 200, release_of_waiter(n));
    }
    assert_eq!(story.queue("db").last().map(String::as_str), Some("dave"));
    assert!(story.tick(29_999).leavings_of(DAVE).is_empty());
    assert_eq!(story.tick(30_000).leavings_of(DAVE), [(30_000, Cause::WaitTimeout)]);
}

#[test]
fn ten_minutes_of_waiting_cost_nobody_the_place() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(600_000));
    story.queues(0, acquire(BOB, "db").wait_ms(600_000));
    story.queues(1, acquire(CAROL, "db").wait_ms(600_000));
    story.queues(400_000, acquire(DAVE, "db").wait_ms(600_000));
    story.releases(500_000, release(ALICE, "db"));
    for (at_ms, who) in [(500_000, BOB), (501_000, CAROL), (502_000, DAVE)] {
        assert_eq!(story.holder("db").as_deref(), Some(who.name));
        assert_eq!(story.so_far().grant_to(who).at_ms, at_ms);
        story.releases(at_ms + 1_000, release(who, "db"));
    }
}

#[test]
fn a_repeated_wait_is_set_anew_longer_or_shorter_and_keeps_its_place() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(600_000));
    story.queues(0, acquire(BOB, "db").wait_ms(10_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(60_000));
    assert_eq!(story.queues(5_000, acquire(BOB, "db").wait_ms(10_000)), 1);
    assert_eq!(story.queues(6_000, acquire(CAROL, "db").wait_ms(1_000)), 2);
    let then = story.tick(20_000);
    assert_eq!(then.leavings_of(BOB), [(15_000, Cause::WaitTimeout)]);
    assert_eq!(then.leavings_of(CAROL), [(7_000, Cause::WaitTimeout)]);
}

#[test]
fn a_repeat_that_does_not_wait_gives_up_the_place() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(10_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(10_000));
    let rejection = story.refuses(1, acquire(BOB, "db"));
    assert!(matches!(rejection, Rejection::Held { queue_length: 1, .. }), "{rejection:?}");
    assert_eq!(story.queue("db"), ["carol"]);
    assert_eq!(story.so_far().leavings_of(BOB), [(1, Cause::WaitTimeout)]);
}

#[test]
fn a_release_takes_an_attempt_out_of_the_queue_and_the_others_move_up() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    for who in [BOB, CAROL, DAVE] {
        story.queues(0, acquire(who, "db").wait_ms(10_000));
    }
    assert_eq!(story.releases(1, release(CAROL, "db")), None);
    assert_eq!(story.so_far().leavings_of(CAROL), [(1, Cause::Released)]);
    assert_eq!(story.queue("db"), ["bob", "dave"]);
    assert_eq!(story.queues(2, acquire(DAVE, "db").wait_ms(10_000)), 2);
}

#[test]
fn a_newcomer_in_the_same_entry_as_the_release_does_not_overtake_those_who_wait() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(10_000));
    let outcomes: Vec<Outcome> =
        story.do_together(1, &[release(ALICE, "db"), acquire(CAROL, "db"), acquire(DAVE, "db").wait_ms(500)]);
    assert_eq!(outcomes[0], Ok(Answer::Released { fence: Some(Fence(1)) }));
    assert!(
        matches!(&outcomes[1], Err(Rejection::Held { holder: Some(holder), .. }) if holder.owner.as_str() == "bob")
    );
    assert_eq!(outcomes[2], Ok(Answer::Queued { place: 1 }));
}

#[test]
fn a_wait_that_is_over_at_the_moment_of_the_release_is_over() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(1_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(1_001));
    story.releases(1_000, release(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

/// A wait and the lease before it can be over in the same entry: the earlier deadline comes first.
#[test]
fn a_lease_that_is_over_before_the_wait_lets_the_waiter_in() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(500));
    story.queues(0, acquire(BOB, "db").wait_ms(499));
    story.queues(0, acquire(CAROL, "db").wait_ms(501));
    let then = story.leap(1_000);
    assert_eq!(then.leavings_of(BOB), [(1_000, Cause::WaitTimeout)]);
    assert_eq!(then.grants(), [("carol", "db")]);
}

#[test]
fn a_place_gives_no_right_to_renew() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(10_000));
    assert_eq!(story.refuses(1, renew(BOB, "db")), Rejection::NotHolder);
    assert_eq!(story.queue("db"), ["bob"]);
}

#[test]
fn a_full_queue_refuses_newcomers_and_knows_those_who_wait() {
    let mut story = Story::default();
    story.grants(0, acquire(DAVE, "db"));
    let all: Vec<_> = (0..QUEUE_LEN_MAX as u64).map(waiter).collect();
    assert!(story.do_together(1, &all).iter().all(|outcome| matches!(outcome, Ok(Answer::Queued { .. }))));
    assert_eq!(story.refuses(2, acquire(DAVE, "db").token("late").wait_ms(1)), Rejection::QueueFull);
    assert_eq!(story.queues(2, waiter(77)), 78);
    assert_eq!(story.lock("db").queue.len(), 100);
    story.releases(3, release_of_waiter(50_000));
    assert_eq!(story.queues(4, acquire(DAVE, "db").token("late").wait_ms(1)), QUEUE_LEN_MAX as u64);
}
