//! What attempts agree on beside the TTL: a delay after a loss, a least and a longest hold.

use holdfast_core::{Answer, Cause, Fence, Rejection, Standing};

use crate::deed::{ALICE, BOB, CAROL, DAVE, acquire, hand_over, open_session, proclaim, release, renew};
use crate::story::Story;

fn later(fence: Fence, effective_in_ms: u64) -> Answer {
    Answer::ReleasedOnTerms { fence, effective_in_ms, is_done: false }
}

#[test]
fn after_a_lost_holder_nobody_is_granted_the_lock_until_the_delay_is_over() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000).delay_ms(3_000));
    story.queues(500, acquire(BOB, "db").wait_ms(60_000));
    story.queues(600, acquire(CAROL, "db").wait_ms(60_000));
    assert_eq!(story.tick(3_999).grants(), []);
    assert_eq!((story.holder("db"), story.lock("db").delay_ms), (None, Some(1)));
    let then = story.tick(4_000);
    assert_eq!(then.grant_to(BOB).at_ms, 4_000);
    assert_eq!((story.queue("db"), story.lock("db").delay_ms), (vec!["carol".into()], None));
}

#[test]
fn whoever_does_not_wait_is_told_of_the_delay() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000).delay_ms(3_000));
    story.tick(1_000);
    let told = Rejection::Delayed { holder: None, queue_length: 0, delay_ms: 2_500 };
    assert_eq!(story.refuses(1_500, acquire(BOB, "db")), told);
    // Whoever lost it is no better off.
    assert_eq!(story.refuses(1_500, acquire(ALICE, "db").token("another")), told);
    assert_eq!(story.names(), ["db"]);
    story.tick(4_000);
    assert_eq!(story.names(), [""; 0]);
    story.grants(4_000, acquire(BOB, "db"));
}

#[test]
fn whoever_stops_waiting_in_a_delay_is_told_of_it_and_leaves_the_queue() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000).delay_ms(3_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.tick(2_000);
    let told = Rejection::Delayed { holder: None, queue_length: 0, delay_ms: 2_000 };
    assert_eq!(story.refuses(2_000, acquire(BOB, "db")), told);
    assert_eq!(story.tick(5_000).grants(), []);
}

#[test]
fn what_its_holder_gives_back_is_free_at_once() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").delay_ms(300_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000).delay_ms(300_000));
    story.releases(10, release(ALICE, "db"));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    story.queues(20, acquire(CAROL, "db").wait_ms(60_000));
    story.does(30, &hand_over(BOB, "db", "carol")).unwrap();
    assert_eq!(story.holder("db").as_deref(), Some("carol"));
}

/// The delay is the one that the lost holder had asked for; nobody else's counts.
#[test]
fn without_a_delay_the_next_one_follows_a_lost_holder_at_once() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000).delay_ms(5_000));
    assert_eq!(story.tick(1_000).grant_to(BOB).at_ms, 1_000);
}

#[test]
fn a_delay_keeps_others_out_beside_those_who_share_and_the_longest_counts() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").shared().ttl_ms(1_000).delay_ms(5_000));
    story.grants(0, acquire(BOB, "db").shared().ttl_ms(2_000).delay_ms(1_000));
    story.grants(0, acquire(CAROL, "db").shared().ttl_ms(60_000));
    story.tick(2_000);
    let told = story.refuses(2_000, acquire(DAVE, "db").shared());
    let Rejection::Delayed { holder: Some(holder), delay_ms: 4_000, .. } = told else { panic!("{told:?}") };
    assert_eq!(holder.owner.as_str(), "carol");
    story.renews(2_500, renew(CAROL, "db"));
    story.queues(2_500, acquire(DAVE, "db").shared().wait_ms(60_000));
    assert_eq!(story.tick(6_000).grant_to(DAVE).at_ms, 6_000);
}

#[test]
fn the_end_of_a_session_by_silence_brings_the_delay_and_its_owners_end_does_not() {
    let mut story = Story::default();
    for (lock, ends) in [("lost", false), ("ended", true)] {
        let now = story.table.now().0;
        let session = story.keeps(now, open_session(ALICE, 1_000)).id;
        story.grants(now, acquire(ALICE, lock).session(session).delay_ms(60_000));
        if ends {
            story.leader_does(now, crate::deed::end_session(ALICE, session)).unwrap();
        }
        story.tick(now + 1_000);
        assert_eq!(story.lock(lock).delay_ms.is_some(), !ends, "{lock}");
        story.tick(now + 100_000); // The token of the session is forgotten.
    }
}

#[test]
fn a_limit_that_nobody_uses_does_not_outlive_its_users_in_a_delay() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").permits(1, 5).ttl_ms(1_000).delay_ms(3_000));
    story.tick(1_000);
    assert_eq!(story.lock("db").limit, None);
    story.queues(1_000, acquire(BOB, "db").permits(2, 2).wait_ms(60_000));
    assert_eq!(story.tick(4_000).grant_to(BOB).at_ms, 4_000);
    assert_eq!(story.lock("db").limit, Some(2));
}

#[test]
fn an_early_release_takes_effect_when_the_least_hold_is_over_whatever_the_ttl() {
    for ttl_ms in [1_000, 60_000] {
        let mut story = Story::default();
        let fence = story.grants(0, acquire(ALICE, "db").ttl_ms(ttl_ms).min_hold_ms(5_000)).fence;
        story.queues(0, acquire(BOB, "db").wait_ms(60_000));
        assert_eq!(story.does(500, &release(ALICE, "db")), Ok(later(fence, 4_500)));
        let holder = &story.lock("db").holders[0];
        assert_eq!((holder.is_releasing, holder.expires_in_ms), (true, 4_500));
        // Again: the same success.
        assert_eq!(story.does(4_000, &release(ALICE, "db")), Ok(later(fence, 1_000)));
        let then = story.tick(5_000);
        assert_eq!(then.endings_of(ALICE), [(5_000, fence, Cause::Released)]);
        assert_eq!(then.grant_to(BOB).at_ms, 5_000);
        assert_eq!(story.releases(5_001, release(ALICE, "db")), Some(fence));
    }
}

#[test]
fn a_release_after_the_least_hold_and_an_expiry_before_it_are_as_ever() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").min_hold_ms(5_000));
    story.releases(5_000, release(ALICE, "db"));
    assert_eq!(story.holder("db"), None);
    story.grants(5_000, acquire(BOB, "db").ttl_ms(1_000).min_hold_ms(5_000));
    assert_eq!(story.tick(6_000).endings_of(BOB).len(), 1);
}

#[test]
fn a_hold_that_was_given_back_early_can_do_nothing_more() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").min_hold_ms(5_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.does(500, &release(ALICE, "db")).unwrap();
    let mine = || acquire(ALICE, "db").min_hold_ms(5_000);
    for deed in [mine(), renew(ALICE, "db"), proclaim(ALICE, "db", "1"), hand_over(ALICE, "db", "bob")] {
        assert_eq!(story.refuses(600, deed), Rejection::LeaseReleased);
    }
    assert_eq!(story.standing(&mine(), "db"), Standing::Ended(Cause::Released));
    assert_eq!(story.holder("db").as_deref(), Some("alice"));
}

/// Whoever waits elsewhere for what goes by itself is in no cycle.
#[test]
fn a_hold_that_was_given_back_early_closes_no_cycle() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a").min_hold_ms(5_000));
    story.grants(0, acquire(BOB, "b"));
    story.does(10, &release(ALICE, "a")).unwrap();
    story.queues(20, acquire(ALICE, "b").wait_ms(60_000));
    story.queues(20, acquire(BOB, "a").wait_ms(60_000));
}

#[test]
fn a_session_that_ends_does_not_shorten_the_least_hold_of_what_was_given_back() {
    let mut story = Story::default();
    let session = story.keeps(0, open_session(ALICE, 1_000)).id;
    let fence = story.grants(0, acquire(ALICE, "db").session(session).min_hold_ms(5_000)).fence;
    assert_eq!(story.does(500, &release(ALICE, "db")), Ok(later(fence, 4_500)));
    assert_eq!(story.kept_by(session), (vec![], vec![]));
    story.tick(4_999);
    assert_eq!(story.holder("db").as_deref(), Some("alice"));
    assert_eq!(story.tick(5_000).endings_of(ALICE), [(5_000, fence, Cause::Released)]);
}

#[test]
fn renewals_do_not_reach_beyond_the_longest_hold_and_say_what_is_left() {
    let mut story = Story::default();
    let grant = story.grants(0, acquire(ALICE, "db").ttl_ms(2_000).max_hold_ms(5_000));
    assert_eq!((grant.expires_in_ms, grant.max_left_ms), (2_000, Some(5_000)));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    let grant = story.renews(1_500, renew(ALICE, "db"));
    assert_eq!((grant.expires_in_ms, grant.max_left_ms), (2_000, Some(3_500)));
    let grant = story.renews(3_000, renew(ALICE, "db").ttl_ms(60_000));
    assert_eq!((grant.ttl.ms(), grant.expires_in_ms, grant.max_left_ms), (60_000, 2_000, Some(2_000)));
    assert_eq!(story.lock("db").holders[0].max_left_ms, Some(2_000));
    assert_eq!(story.tick(4_999).grants(), []);
    let then = story.tick(5_000);
    assert_eq!(then.endings_of(ALICE), [(5_000, grant.fence, Cause::Expired)]);
    assert_eq!(then.grant_to(BOB).at_ms, 5_000);
    assert_eq!(story.refuses(5_001, renew(ALICE, "db")), Rejection::LeaseExpired);
}

#[test]
fn the_longest_hold_cuts_the_first_lease_too_and_begins_with_the_grant() {
    let mut story = Story::default();
    story.grants(0, acquire(BOB, "db").ttl_ms(3_000));
    story.queues(0, acquire(ALICE, "db").wait_ms(60_000).max_hold_ms(1_000));
    let fence = story.tick(3_000).grant_to(ALICE).fence;
    assert_eq!(story.lock("db").holders[0].expires_in_ms, 1_000);
    assert_eq!(story.tick(4_000).endings_of(ALICE), [(4_000, fence, Cause::Expired)]);
}

#[test]
fn a_session_keeps_a_hold_no_longer_than_its_longest_hold() {
    let mut story = Story::default();
    let session = story.keeps(0, open_session(ALICE, 60_000)).id;
    let grant = story.grants(0, acquire(ALICE, "db").session(session).max_hold_ms(5_000).delay_ms(1_000));
    assert_eq!((grant.expires_in_ms, grant.max_left_ms), (5_000, Some(5_000)));
    let then = story.tick(5_000);
    assert_eq!(then.endings_of(ALICE), [(5_000, grant.fence, Cause::Expired)]);
    assert_eq!((story.kept_by(session), story.lock("db").delay_ms), ((vec![], vec![]), Some(1_000)));
}

#[test]
fn a_repeated_acquire_must_name_the_same_terms() {
    let mut story = Story::default();
    let asked = || acquire(ALICE, "db").delay_ms(10).min_hold_ms(20).max_hold_ms(30_000).once_ms(40_000);
    let fence = story.grants(0, asked()).fence;
    assert_eq!(story.grants(1, asked()).fence, fence);
    let waiting = || acquire(BOB, "db").wait_ms(60_000).delay_ms(10);
    assert_eq!((story.queues(2, waiting()), story.queues(3, waiting())), (1, 1));
    for other in [
        acquire(ALICE, "db"),
        asked().delay_ms(11),
        asked().min_hold_ms(21),
        asked().max_hold_ms(30_001),
        asked().once_ms(40_001),
        acquire(BOB, "db").wait_ms(60_000),
    ] {
        assert_eq!(story.refuses(4, other), Rejection::TokenConflict);
    }
}
