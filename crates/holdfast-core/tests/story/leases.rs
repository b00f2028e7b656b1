//! How long a hold lasts.

use holdfast_core::{Cause, ClusterTime, LockName, Rejection};

use crate::deed::{ALICE, BOB, CAROL, acquire, release, renew};
use crate::story::Story;

#[test]
fn a_lease_lasts_its_whole_ttl_and_not_a_millisecond_longer() {
    for ttl_ms in [100, 1_000, 2_000, 5_000, 30_000, 600_000] {
        let mut story = Story::default();
        let grant = story.grants(7, acquire(ALICE, "db").ttl_ms(ttl_ms));
        assert_eq!((grant.ttl.ms(), grant.expires_in_ms), (ttl_ms, ttl_ms));
        story.queues(7, acquire(BOB, "db").wait_ms(600_000));
        assert!(story.tick(7 + ttl_ms - 1).is_nothing());
        let then = story.tick(7 + ttl_ms);
        assert_eq!(then.endings_of(ALICE), [(7 + ttl_ms, grant.fence, Cause::Expired)]);
        assert_eq!(then.grant_to(BOB).at_ms, 7 + ttl_ms);
    }
}

#[test]
fn the_longest_lease_lasts_a_day() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(86_400_000));
    story.leap(86_399_999);
    assert_eq!(story.holder("db").as_deref(), Some("alice"));
    story.leap(86_400_000);
    assert_eq!(story.holder("db"), None);
}

/// A frequently renewed lock must not end hours in the future: then a crash of its holder would block it for hours.
#[test]
fn fifty_renewals_leave_no_more_time_than_one() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(10_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    for n in 1..=50 {
        assert_eq!(story.renews(n * 100, renew(ALICE, "db")).expires_in_ms, 10_000);
    }
    assert!(story.tick(14_999).is_nothing());
    assert_eq!(story.tick(15_000).grant_to(BOB).at_ms, 15_000);
}

#[test]
fn a_renewal_can_bring_a_longer_or_a_shorter_ttl_which_stays_in_force() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    assert_eq!(story.renews(500, renew(ALICE, "db").ttl_ms(60_000)).expires_in_ms, 60_000);
    assert_eq!(story.renews(1_000, renew(ALICE, "db")).ttl.ms(), 60_000);
    assert_eq!(story.renews(2_000, renew(ALICE, "db").ttl_ms(200)).expires_in_ms, 200);
    assert_eq!(story.tick(2_200).endings_of(ALICE).len(), 1);
}

#[test]
fn a_renewal_after_the_lease_is_over_revives_nothing_and_uses_up_no_fence() {
    let mut story = Story::default();
    let first = story.grants(0, acquire(ALICE, "db").ttl_ms(2_000));
    assert_eq!(story.refuses(3_000, renew(ALICE, "db")), Rejection::LeaseExpired);
    assert_eq!(story.holder("db"), None);

    let second = story.grants(4_000, acquire(BOB, "db"));
    story.releases(5_000, release(BOB, "db"));
    assert_eq!(story.refuses(6_000, renew(ALICE, "db")), Rejection::LeaseExpired);
    assert_eq!(story.holder("db"), None);

    let third = story.grants(7_000, acquire(CAROL, "db").ttl_ms(10_000));
    assert_eq!(story.refuses(8_000, renew(ALICE, "db")), Rejection::LeaseExpired);
    assert_eq!(story.lock("db").holders[0].expires_in_ms, 9_000);
    assert_eq!([first, second, third].map(|grant| grant.fence.0), [1, 2, 3]);
}

#[test]
fn a_renewal_at_the_very_deadline_comes_too_late() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.renews(999, renew(ALICE, "db"));
    assert_eq!(story.refuses(1_999, renew(ALICE, "db")), Rejection::LeaseExpired);
}

#[test]
fn a_late_release_leaves_the_next_holder_alone() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(3_000));
    story.grants(4_000, acquire(BOB, "db").ttl_ms(30_000));
    assert_eq!(story.refuses(5_000, release(ALICE, "db")), Rejection::LeaseExpired);
    assert_eq!(story.lock("db").holders[0].expires_in_ms, 29_000);
    assert!(matches!(story.refuses(6_000, acquire(CAROL, "db")), Rejection::Held { .. }));
}

/// Somebody with a short lease in mind does not shorten the lease of the one who holds the lock.
#[test]
fn a_contenders_own_ttl_says_nothing_about_the_holders_lease() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(30_000));
    for second in 1..25 {
        let attempt = acquire(BOB, "db").ttl_ms(1_000).wait_ms(900).token(&format!("try {second}"));
        story.queues(second * 1_000, attempt);
    }
    assert!(story.so_far().grants().iter().all(|(who, _)| *who != "bob"));
    assert_eq!(story.renews(29_999, renew(ALICE, "db")).fence.0, 1);
}

/// A newcomer need not watch a dead holder's lock for a lease of its own.
#[test]
fn a_dead_holders_lock_goes_to_whoever_asks_first_after_its_ttl() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(10_000));
    assert!(matches!(story.refuses(9_999, acquire(BOB, "db")), Rejection::Held { .. }));
    story.grants(10_000, acquire(CAROL, "db"));
}

/// A try that fails leaves nothing behind that could keep the lock taken.
#[test]
fn failing_tries_do_not_keep_a_dead_holders_lock_alive() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(5_000));
    let mut granted_at = Vec::new();
    for at_ms in (1_000..9_000).step_by(300) {
        let attempt = acquire(BOB, "db").ttl_ms(5_000).token(&format!("try at {at_ms}"));
        match story.does(at_ms, &attempt) {
            Ok(_) => granted_at.push(at_ms),
            Err(rejection) => assert!(matches!(rejection, Rejection::Held { queue_length: 0, .. })),
        }
    }
    assert_eq!(granted_at, [5_200]);
}

#[test]
fn what_is_left_of_a_lease_is_never_below_zero_nor_above_the_ttl() {
    let mut story = Story::default();
    story.grants(10_000, acquire(ALICE, "db").ttl_ms(4_000));
    let db = LockName::new("db").unwrap();
    // Whatever a leader's clock says: behind the table's, at the deadline, far beyond it.
    for (now, left) in [(0, 4_000), (10_000, 4_000), (13_999, 1), (14_000, 0), (u64::MAX, 0)] {
        let holder = &story.table.view(&db, ClusterTime(now)).holders[0];
        assert_eq!(holder.expires_in_ms, left);
        assert_eq!(holder.held_ms, now.max(10_000) - 10_000);
    }
}

/// A new leader whose clock starts low cannot bring any deadline forward or push it back.
#[test]
fn an_entry_stamped_in_the_past_moves_nothing() {
    let mut story = Story::default();
    story.grants(50_000, acquire(ALICE, "db").ttl_ms(1_000));
    story.leap(3);
    assert_eq!(story.table.now(), ClusterTime(50_000));
    let grant = story.grants(4, acquire(BOB, "web").ttl_ms(1_000));
    assert_eq!(grant.expires_in_ms, 1_000);
    assert!(story.leap(50_999).is_nothing());
    assert_eq!(story.leap(51_000).endings_of(ALICE).len(), 1);
}

/// Time stands still without a leader; the first entry afterwards ends what is due by then, earliest deadline first.
#[test]
fn a_late_entry_ends_everything_that_is_due_in_order_of_deadlines() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "slow").ttl_ms(900));
    story.grants(0, acquire(BOB, "fast").ttl_ms(300));
    story.grants(0, acquire(CAROL, "also fast").ttl_ms(300));
    let ended: Vec<_> = story.leap(5_000).0.iter().map(|(_, event)| event.lock.to_string()).collect();
    assert_eq!(ended, ["fast", "also fast", "slow"]);
}

#[test]
fn a_lease_granted_from_the_queue_begins_at_the_grant() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(60_000));
    story.queues(0, acquire(BOB, "db").ttl_ms(1_000).wait_ms(60_000));
    story.releases(40_000, release(ALICE, "db"));
    assert_eq!(story.lock("db").holders[0].expires_in_ms, 1_000);
    assert_eq!(story.tick(41_000).endings_of(BOB).len(), 1);
}

/// Even if the entry that made the grant came long after the former lease was over.
#[test]
fn a_late_grant_still_lasts_its_whole_ttl() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(500));
    story.queues(0, acquire(BOB, "db").ttl_ms(700).wait_ms(60_000));
    assert_eq!(story.leap(1_900).grant_to(BOB).at_ms, 1_900);
    assert!(story.leap(2_599).is_nothing());
    assert_eq!(story.leap(2_600).endings_of(BOB).len(), 1);
}

/// Commands of one entry come after its time: a lease that is over cannot take part in them.
#[test]
fn a_release_in_the_entry_that_ends_the_lease_finds_it_over() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    let outcomes = story.do_together(1_000, &[release(ALICE, "db"), acquire(BOB, "db")]);
    assert_eq!(outcomes[0], Err(Rejection::LeaseExpired));
    assert!(outcomes[1].is_ok());
}

#[test]
fn the_leader_has_to_speak_at_the_next_deadline_and_is_idle_without_one() {
    let mut story = Story::default();
    assert_eq!((story.table.next_due(), story.table.is_busy()), (None, false));
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.queues(0, acquire(BOB, "db").wait_ms(400));
    assert_eq!(story.table.next_due(), Some(ClusterTime(400)));
    story.tick(400);
    assert_eq!(story.table.next_due(), Some(ClusterTime(1_000)));
    story.renews(500, renew(ALICE, "db"));
    assert_eq!(story.table.next_due(), Some(ClusterTime(1_500)));
    story.releases(600, release(ALICE, "db"));
    assert_eq!((story.table.next_due(), story.table.is_busy()), (None, false));
}
