//! Readers and writers, and locks that count permits.

use holdfast_core::{Answer, Cause, Rejection};

use crate::deed::{ALICE, BOB, CAROL, DAVE, acquire, release, renew, set_limit, unclaim};
use crate::story::Story;

#[test]
fn readers_hold_a_lock_together_each_with_a_fence_and_a_lease_of_its_own() {
    let mut story = Story::default();
    let alice = story.grants(0, acquire(ALICE, "db").shared().ttl_ms(1_000));
    let bob = story.grants(0, acquire(BOB, "db").shared().ttl_ms(5_000));
    assert!(bob.fence > alice.fence);
    assert_eq!(story.holders("db"), ["alice", "bob"]);
    assert!(matches!(story.refuses(0, acquire(CAROL, "db")), Rejection::Held { .. }));
    assert_eq!(story.tick(1_000).endings_of(ALICE), [(1_000, alice.fence, Cause::Expired)]);
    assert_eq!(story.renews(1_000, renew(BOB, "db")).fence, bob.fence);
    assert_eq!(story.holders("db"), ["bob"]);
    assert_eq!(story.releases(1_000, release(BOB, "db")), Some(bob.fence));
    story.grants(1_000, acquire(CAROL, "db"));
}

#[test]
fn a_waiting_writer_keeps_later_readers_out_and_they_come_in_together_after_it() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").shared());
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    for (who, name) in [(CAROL, "carol"), (DAVE, "dave")] {
        assert!(matches!(story.refuses(0, acquire(who, "db").shared().token(name)), Rejection::Held { .. }));
        story.queues(0, acquire(who, "db").shared().wait_ms(60_000).token(&format!("{name} waits")));
    }
    story.releases(1, release(ALICE, "db"));
    assert_eq!(story.holders("db"), ["bob"]);
    story.releases(2, release(BOB, "db"));
    assert_eq!(story.holders("db"), ["carol", "dave"]);
}

#[test]
fn readers_behind_a_writer_that_gives_up_come_in_at_once() {
    let gives_up: [fn(&mut Story); 3] = [
        |story| assert_eq!(story.releases(10, release(BOB, "db")), None),
        |story| story.abandons(10, crate::deed::abandon(BOB, "db")),
        |story| drop(story.tick(500)),
    ];
    for give_up in gives_up {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "db").shared());
        story.queues(0, acquire(BOB, "db").wait_ms(500));
        story.queues(0, acquire(CAROL, "db").shared().wait_ms(60_000));
        give_up(&mut story);
        assert_eq!(story.holders("db"), ["alice", "carol"]);
    }
}

/// Nobody says anything at that moment: the leader has to speak by itself.
#[test]
fn readers_behind_a_writer_whose_node_is_dead_come_in_within_two_seconds() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").shared().ttl_ms(600_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.queues(0, acquire(CAROL, "db").shared().wait_ms(60_000));
    story.kill(2);
    story.tick(2_000);
    assert_eq!(story.holders("db"), ["alice", "carol"]);
}

#[test]
fn no_more_permits_are_out_than_there_are() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(2, 3));
    assert!(matches!(story.refuses(0, acquire(BOB, "pool").permits(2, 3)), Rejection::Held { .. }));
    story.grants(0, acquire(CAROL, "pool").permits(1, 3));
    let view = story.lock("pool");
    assert_eq!((view.limit, view.permits_out()), (Some(3), 3));
    story.releases(1, release(ALICE, "pool"));
    story.grants(1, acquire(DAVE, "pool").permits(2, 3));
}

#[test]
fn a_large_request_is_served_in_its_turn_and_small_ones_wait_behind_it() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(2, 3));
    story.queues(0, acquire(BOB, "pool").permits(3, 3).wait_ms(60_000));
    assert!(matches!(story.refuses(0, acquire(CAROL, "pool").permits(1, 3)), Rejection::Held { .. }));
    story.queues(0, acquire(DAVE, "pool").permits(1, 3).wait_ms(60_000));
    story.releases(1, release(ALICE, "pool"));
    assert_eq!(story.holders("pool"), ["bob"]);
    story.releases(2, release(BOB, "pool"));
    assert_eq!(story.holders("pool"), ["dave"]);
}

#[test]
fn everybody_has_to_name_the_same_limit_while_the_lock_is_in_use() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(1, 3));
    let conflict = Rejection::LimitConflict { limit: Some(3) };
    assert_eq!(story.refuses(0, acquire(BOB, "pool").permits(1, 4).wait_ms(1_000)), conflict);
    assert_eq!(story.refuses(0, acquire(BOB, "pool")), conflict);
    assert_eq!(story.refuses(0, acquire(BOB, "pool").shared()), conflict);
    story.releases(1, release(ALICE, "pool"));
    story.grants(1, acquire(BOB, "pool"));
    let conflict = Rejection::LimitConflict { limit: None };
    assert_eq!(story.refuses(1, acquire(CAROL, "pool").permits(1, 4)), conflict);
}

#[test]
fn the_share_belongs_to_what_stays_the_same_under_a_token() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").shared());
    assert_eq!(story.refuses(1, acquire(ALICE, "db")), Rejection::TokenConflict);
    story.grants(1, acquire(BOB, "pool").permits(1, 3));
    assert_eq!(story.refuses(1, acquire(BOB, "pool").permits(2, 3)), Rejection::TokenConflict);
    story.grants(2, acquire(ALICE, "db").shared());
    story.grants(2, acquire(BOB, "pool").permits(1, 3));
}

#[test]
fn a_limit_that_is_raised_lets_those_in_who_wait() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(2, 2));
    story.queues(0, acquire(BOB, "pool").permits(1, 2).wait_ms(60_000));
    assert_eq!(story.leader_does(1, set_limit("pool", 3)), Ok(Answer::Done));
    assert_eq!(story.holders("pool"), ["alice", "bob"]);
    assert_eq!(
        story.refuses(2, acquire(CAROL, "pool").permits(1, 2)),
        Rejection::LimitConflict { limit: Some(3) }
    );
}

#[test]
fn a_limit_that_is_lowered_takes_nothing_from_holders_and_ends_waits_for_more_than_there_is() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(3, 3));
    story.queues(0, acquire(BOB, "pool").permits(3, 3).wait_ms(60_000));
    story.queues(0, acquire(CAROL, "pool").permits(1, 3).wait_ms(60_000));
    story.leader_does(1, set_limit("pool", 2)).unwrap();
    assert_eq!(story.so_far().leavings_of(BOB), [(1, Cause::LimitChanged)]);
    assert_eq!((story.holders("pool"), story.queue("pool")), (vec!["alice".into()], vec!["carol".into()]));
    story.releases(2, release(ALICE, "pool"));
    assert_eq!(story.holders("pool"), ["carol"]);
}

#[test]
fn a_lock_that_counts_no_permits_has_no_limit_to_change() {
    let mut story = Story::default();
    assert_eq!(story.leader_does(0, set_limit("pool", 2)), Err(Rejection::NoLimit));
    story.grants(0, acquire(ALICE, "pool").shared());
    assert_eq!(story.leader_does(1, set_limit("pool", 2)), Err(Rejection::NoLimit));
}

#[test]
fn a_grant_of_permits_that_nobody_claims_is_taken_back_and_keeps_its_place() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(2, 2).ttl_ms(600_000));
    story.queues(0, acquire(BOB, "pool").permits(2, 2).wait_ms(60_000));
    story.queues(0, acquire(CAROL, "pool").permits(1, 2).wait_ms(60_000));
    story.releases(1, release(ALICE, "pool"));
    let fence = story.so_far().grant_to(BOB).fence;
    story.kill(2);
    story.leader_does(500, unclaim("pool", fence)).unwrap();
    assert_eq!(story.holders("pool"), ["carol"]);
    story.reconnect(2);
    story.tick(3_000);
    assert_eq!(story.queue("pool"), ["bob"]);
}

#[test]
fn a_grant_that_is_taken_back_does_not_wait_for_more_than_a_lowered_limit() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(3, 4));
    story.queues(0, acquire(BOB, "pool").permits(3, 4).wait_ms(60_000));
    story.queues(0, acquire(CAROL, "pool").permits(2, 4).wait_ms(60_000));
    story.releases(1, release(ALICE, "pool"));
    let fence = story.so_far().grant_to(BOB).fence;
    story.leader_does(2, set_limit("pool", 2)).unwrap();
    story.leader_does(3, unclaim("pool", fence)).unwrap();
    assert_eq!(story.so_far().leavings_of(BOB), [(3, Cause::LimitChanged)]);
    assert_eq!(story.holders("pool"), ["carol"]);
}
