//! One token, one attempt: every call can be repeated, and nobody else's hold is touched.

use holdfast_core::{Cause, ENDING_KEPT_MS, Rejection, Standing};

use crate::deed::{ALICE, BOB, CAROL, Deed, abandon, acquire, release, renew};
use crate::story::Story;

#[test]
fn a_repeated_acquire_gets_the_same_grant_and_the_whole_ttl_again() {
    let mut story = Story::default();
    let first = story.grants(0, acquire(ALICE, "db").ttl_ms(10_000).metadata(r#"{"job":7}"#));
    let again = story.grants(4_000, acquire(ALICE, "db").ttl_ms(10_000).metadata(r#"{"job":7}"#).through(2));
    assert_eq!(again, first);
    assert!(story.tick(13_999).is_nothing());
    assert_eq!(story.tick(14_000).endings_of(ALICE).len(), 1);
}

#[test]
fn a_repeated_acquire_never_shortens_a_lease_that_a_renewal_has_made_longer() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.renews(500, renew(ALICE, "db").ttl_ms(60_000));
    assert_eq!(story.grants(600, acquire(ALICE, "db").ttl_ms(1_000)).expires_in_ms, 60_000);
}

#[test]
fn a_repeated_acquire_finds_the_same_place_and_later_the_grant() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(10_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(10_000));
    assert_eq!(story.queues(100, acquire(BOB, "db").wait_ms(10_000).through(3)), 1);
    assert_eq!(story.lock("db").queue_length, 2);
    story.releases(200, release(ALICE, "db"));
    let fence = story.so_far().grant_to(BOB).fence;
    assert_eq!(story.grants(300, acquire(BOB, "db").wait_ms(10_000)).fence, fence);
    assert_eq!(story.table.last_fence(), 2);
}

#[test]
fn an_acquire_after_the_hold_has_ended_is_told_how_it_ended() {
    type End = fn(&mut Story);
    let ends: [(End, Rejection); 3] = [
        (|story| assert!(!story.tick(1_000).is_nothing()), Rejection::LeaseExpired),
        (|story| assert!(story.releases(900, release(ALICE, "db")).is_some()), Rejection::LeaseReleased),
        (|story| story.abandons(900, abandon(ALICE, "db")), Rejection::LeaseReleased),
    ];
    for (end, rejection) in ends {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
        end(&mut story);
        // Whether the lock is free or not.
        assert_eq!(story.refuses(1_000, acquire(ALICE, "db").ttl_ms(1_000)), rejection);
        assert_eq!(story.refuses(1_000, renew(ALICE, "db")), rejection);
        story.grants(2_000, acquire(BOB, "db"));
        assert_eq!(story.refuses(2_000, acquire(ALICE, "db").ttl_ms(1_000).wait_ms(9_000)), rejection);
    }
}

#[test]
fn an_ending_is_remembered_for_more_than_a_minute_and_then_forgotten() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.tick(1_000);
    let last = 1_000 + ENDING_KEPT_MS - 1;
    assert!(last > 61_000);
    assert_eq!(story.refuses(last, renew(ALICE, "db")), Rejection::LeaseExpired);
    assert_eq!(story.standing(&acquire(ALICE, "db"), "db"), Standing::Ended(Cause::Expired));
    assert_eq!(story.refuses(last + 1, renew(ALICE, "db")), Rejection::NotHolder);
    assert_eq!(story.standing(&acquire(ALICE, "db"), "db"), Standing::Unknown);
    story.grants(last + 1, acquire(ALICE, "db"));
}

/// Endings that are due to be forgotten in large numbers are forgotten at once for those who ask.
#[test]
fn ten_thousand_old_endings_are_forgotten_in_the_same_moment() {
    let mut story = Story::default();
    let attempt = |n: u64| acquire(ALICE, "db").token(&format!("attempt {n}"));
    for n in 0..10_000 {
        story.do_together(n / 100, &[attempt(n), release(ALICE, "db").token(&format!("attempt {n}"))]);
    }
    assert_eq!(story.refuses(ENDING_KEPT_MS + 98, attempt(9_999)), Rejection::LeaseReleased);
    for n in [0, 5_000, 9_999] {
        story.leap(ENDING_KEPT_MS + 99);
        assert_eq!(story.standing(&attempt(n), "db"), Standing::Unknown);
    }
    story.grants(ENDING_KEPT_MS + 99, attempt(9_999));
}

/// An attempt that was told that its wait is over is done: the same token again is a new attempt, at the end.
#[test]
fn a_wait_that_is_over_or_given_up_by_its_client_is_not_remembered() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(100));
    story.tick(100);
    assert_eq!(story.refuses(100, release(BOB, "db")), Rejection::NotHolder);
    story.queues(100, acquire(CAROL, "db").wait_ms(9_000));
    assert_eq!(story.queues(100, acquire(BOB, "db").wait_ms(9_000)), 2);
    story.abandons(200, abandon(BOB, "db"));
    assert_eq!(story.queues(300, acquire(BOB, "db").wait_ms(9_000)), 2);
}

#[test]
fn an_attempt_released_while_it_waited_is_remembered() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    assert_eq!(story.releases(100, release(BOB, "db")), None);
    assert_eq!(story.releases(200, release(BOB, "db")), None);
    assert_eq!(story.refuses(300, acquire(BOB, "db").wait_ms(9_000)), Rejection::LeaseReleased);
    assert_eq!(story.refuses(300, renew(BOB, "db")), Rejection::NotHolder, "it has never held the lock");
}

#[test]
fn a_repeat_may_name_the_first_ttl_or_the_one_of_the_last_renewal() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.renews(0, renew(ALICE, "db").ttl_ms(2_000));
    for ttl_ms in [1_000, 2_000] {
        let grant = story.grants(500, acquire(ALICE, "db").ttl_ms(ttl_ms));
        assert_eq!((grant.fence.0, grant.expires_in_ms), (1, 2_000));
    }
    assert_eq!(story.refuses(500, acquire(ALICE, "db").ttl_ms(3_000)), Rejection::TokenConflict);
}

#[test]
fn a_token_in_use_with_other_parameters_is_a_conflict_and_changes_nothing() {
    let changed: [fn(Deed) -> Deed; 3] =
        [|deed| deed.owner("mallory"), |deed| deed.ttl_ms(29_999), |deed| deed.metadata(r#"{"a":1}"#)];
    for change in changed {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "db"));
        story.queues(0, acquire(BOB, "db").wait_ms(9_000));
        assert_eq!(story.refuses(5_000, change(acquire(ALICE, "db"))), Rejection::TokenConflict);
        assert_eq!(story.refuses(5_000, change(acquire(BOB, "db").wait_ms(9_000))), Rejection::TokenConflict);
        assert_eq!(story.lock("db").holders[0].expires_in_ms, 25_000);
        assert_eq!(story.tick(9_000).leavings_of(BOB).len(), 1);
    }
}

#[test]
fn another_wait_is_no_conflict() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.grants(0, acquire(ALICE, "db").wait_ms(5_000));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    story.queues(0, acquire(BOB, "db").wait_ms(5_000));
}

#[test]
fn a_token_of_an_ended_attempt_is_told_its_end_whatever_else_is_asked_for() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.releases(1, release(ALICE, "db"));
    assert_eq!(story.refuses(2, acquire(ALICE, "db").ttl_ms(777)), Rejection::LeaseReleased);
}

#[test]
fn the_same_token_on_another_lock_is_another_attempt() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.grants(0, acquire(ALICE, "web").ttl_ms(2_000));
    story.releases(1, release(ALICE, "db"));
    assert_eq!(story.holder("web").as_deref(), Some("alice"));
    story.renews(2, renew(ALICE, "web"));
}

#[test]
fn releasing_again_is_a_success_that_touches_nobody() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db")).fence;
    assert_eq!(story.releases(1, release(ALICE, "db")), Some(fence));
    assert_eq!(story.releases(2, release(ALICE, "db")), Some(fence));
    story.grants(3, acquire(BOB, "db"));
    assert_eq!(story.releases(4, release(ALICE, "db")), Some(fence));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    assert_eq!(story.so_far().endings_of(ALICE).len(), 1);
}

/// Whatever somebody knows of a hold, be it its owner or its fence: only its token ends it.
#[test]
fn nobody_else_can_release_renew_or_give_up_a_hold() {
    let mut story = Story::default();
    story.grants(0, acquire(BOB, "db").token("an old one"));
    story.releases(0, release(BOB, "db").token("an old one"));
    story.grants(0, acquire(ALICE, "db").token("a secret"));
    for guess in ["alice", "a secre", "a secret ", "A SECRET", "an old one"] {
        assert!(story.does(1, &renew(BOB, "db").token(guess).owner("alice")).is_err());
        drop(story.does(1, &release(BOB, "db").token(guess).owner("alice")));
        let call = story.last_call_of(&acquire(ALICE, "db").token("a secret"));
        story.abandons(1, abandon(BOB, "db").token(guess).call(call));
    }
    assert_eq!(story.holder("db").as_deref(), Some("alice"));
    assert_eq!(story.lock("db").holders[0].expires_in_ms, 29_999);
}

#[test]
fn each_way_of_not_holding_a_lock_has_an_answer_of_its_own() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "expired").ttl_ms(100));
    story.grants(0, acquire(ALICE, "released").ttl_ms(100));
    story.releases(0, release(ALICE, "released"));
    story.grants(200, acquire(BOB, "busy"));
    assert!(matches!(story.refuses(200, acquire(ALICE, "busy")), Rejection::Held { .. }));
    assert_eq!(story.refuses(200, renew(ALICE, "busy")), Rejection::NotHolder);
    assert_eq!(story.refuses(200, release(ALICE, "busy")), Rejection::NotHolder);
    assert_eq!(story.refuses(200, renew(ALICE, "never used")), Rejection::NotHolder);
    assert_eq!(story.refuses(200, release(ALICE, "never used")), Rejection::NotHolder);
    assert_eq!(story.refuses(200, renew(ALICE, "expired")), Rejection::LeaseExpired);
    assert_eq!(story.refuses(200, release(ALICE, "expired")), Rejection::LeaseExpired);
    assert_eq!(story.refuses(200, renew(ALICE, "released")), Rejection::LeaseReleased);
}

/// Late, repeated and unknown calls after a take-over, on many locks: each is answered, and nothing breaks.
#[test]
fn late_calls_after_a_take_over_do_no_harm() {
    let mut story = Story::default();
    let names: Vec<_> = (0..50).map(|n| format!("lock {n}")).collect();
    for name in &names {
        story.grants(0, acquire(ALICE, name).ttl_ms(1_000));
    }
    for name in &names {
        story.grants(1_000, acquire(BOB, name));
    }
    for name in names.iter().chain(&names) {
        assert_eq!(story.refuses(2_000, release(ALICE, name)), Rejection::LeaseExpired);
        assert_eq!(story.refuses(2_000, renew(ALICE, name)), Rejection::LeaseExpired);
        assert_eq!(story.refuses(2_000, release(CAROL, name)), Rejection::NotHolder);
        assert_eq!(story.refuses(2_000, renew(CAROL, name)), Rejection::NotHolder);
        story.abandons(2_000, abandon(ALICE, name));
        let call = story.last_call_of(&acquire(ALICE, name));
        story.abandons(2_000, abandon(CAROL, name).call(call));
    }
    assert!(names.iter().all(|name| story.holder(name).as_deref() == Some("bob")));
}

#[test]
fn the_standing_of_an_attempt_tells_its_whole_life() {
    let mut story = Story::default();
    let attempt = acquire(BOB, "db").wait_ms(9_000);
    assert_eq!(story.standing(&attempt, "db"), Standing::Unknown);
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, attempt.clone());
    assert_eq!(story.standing(&attempt, "db"), Standing::Queued);
    story.releases(1, release(ALICE, "db"));
    assert!(matches!(story.standing(&attempt, "db"), Standing::Held(grant) if grant.fence.0 == 2));
    story.releases(2, release(BOB, "db"));
    assert_eq!(story.standing(&attempt, "db"), Standing::Ended(Cause::Released));
}
