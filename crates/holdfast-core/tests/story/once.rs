//! Once per period: a run that was completed keeps others from making it again until its period is over.

use holdfast_core::{Answer, Cause, Rejection};

use crate::deed::{ALICE, BOB, CAROL, DAVE, Deed, Person, acquire, release, unclaim};
use crate::story::Story;

const HOUR: u64 = 3_600_000;

fn run(who: Person) -> Deed {
    acquire(who, "nightly").ttl_ms(600_000).once_ms(HOUR)
}

fn done_by(story: &mut Story, at_ms: u64, rejection: Rejection) -> (String, u64, u64) {
    let Rejection::AlreadyDone { owner, fence, next_in_ms, done_ms_ago } = rejection else {
        panic!("{rejection:?} at {at_ms}")
    };
    assert!(fence.0 <= story.table.last_fence());
    (owner.to_string(), next_in_ms, done_ms_ago)
}

#[test]
fn a_completed_run_is_told_to_whoever_asks_within_its_period_and_not_after() {
    let mut story = Story::default();
    let fence = story.grants(1_000, run(ALICE)).fence;
    let done = Answer::ReleasedOnTerms { fence, effective_in_ms: 0, is_done: true };
    assert_eq!(story.does(61_000, &release(ALICE, "nightly").done()), Ok(done.clone()));
    assert_eq!(story.holder("nightly"), None);
    let told = story.refuses(121_000, run(BOB));
    let told = done_by(&mut story, 121_000, told);
    // The period began with the grant.
    assert_eq!(told, ("alice".into(), HOUR - 120_000, 60_000));
    assert_eq!(story.does(62_000, &release(ALICE, "nightly").done()), Ok(done));
    story.refuses(HOUR + 999, run(BOB));
    story.grants(HOUR + 1_000, run(BOB));
}

#[test]
fn any_other_ending_completes_nothing() {
    let mut story = Story::default();
    story.grants(0, run(ALICE));
    story.releases(10, release(ALICE, "nightly"));
    story.grants(20, run(BOB).ttl_ms(1_000));
    story.tick(1_020);
    // Nor does it say anything of an attempt that asked for no period.
    let plain = story.grants(2_000, acquire(CAROL, "nightly")).fence;
    assert_eq!(story.releases(2_010, release(CAROL, "nightly").done()), Some(plain));
    story.grants(3_000, run(DAVE));
}

#[test]
fn whoever_waits_to_make_the_run_is_told_at_once_that_it_is_done() {
    let mut story = Story::default();
    story.grants(0, run(ALICE));
    story.queues(0, run(BOB).wait_ms(600_000));
    story.queues(0, acquire(CAROL, "nightly").wait_ms(600_000));
    story.queues(0, run(DAVE).wait_ms(600_000));
    story.does(5_000, &release(ALICE, "nightly").done()).unwrap();
    let left = [(5_000, Cause::AlreadyDone)];
    assert_eq!(
        (story.so_far().leavings_of(BOB), story.so_far().leavings_of(DAVE)),
        (left.into(), left.into())
    );
    // Who asks for no period is not affected.
    assert_eq!(story.holder("nightly").as_deref(), Some("carol"));
    let told = story.refuses(5_000, run(BOB).wait_ms(600_000));
    assert_eq!(done_by(&mut story, 5_000, told).0, "alice");
}

#[test]
fn a_failed_run_leaves_the_next_one_its_turn() {
    let mut story = Story::default();
    story.grants(0, run(ALICE));
    story.queues(0, run(BOB).wait_ms(600_000));
    story.releases(5_000, release(ALICE, "nightly"));
    assert_eq!(story.holder("nightly").as_deref(), Some("bob"));
}

#[test]
fn a_run_that_took_longer_than_its_period_keeps_nobody_from_the_next() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "nightly").once_ms(1_000));
    let answer = story.does(1_000, &release(ALICE, "nightly").done());
    assert!(matches!(answer, Ok(Answer::Released { fence: Some(_) })), "{answer:?}");
    story.grants(1_000, acquire(BOB, "nightly").once_ms(1_000));
}

#[test]
fn with_a_least_hold_it_is_done_from_the_release_on() {
    let mut story = Story::default();
    let fence = story.grants(0, run(ALICE).min_hold_ms(60_000)).fence;
    story.queues(0, run(BOB).wait_ms(600_000));
    story.queues(0, acquire(CAROL, "nightly").wait_ms(600_000));
    let done = Answer::ReleasedOnTerms { fence, effective_in_ms: 55_000, is_done: true };
    assert_eq!(story.does(5_000, &release(ALICE, "nightly").done()), Ok(done));
    assert_eq!(story.so_far().leavings_of(BOB), [(5_000, Cause::AlreadyDone)]);
    let told = story.refuses(6_000, run(DAVE));
    assert_eq!(done_by(&mut story, 6_000, told), ("alice".into(), HOUR - 6_000, 1_000));
    assert_eq!(story.tick(60_000).grant_to(CAROL).at_ms, 60_000);
}

/// The first word counts: a copy of the call may come later, and say less.
#[test]
fn a_second_release_changes_nothing_of_what_the_first_one_said() {
    let mut story = Story::default();
    story.grants(0, run(ALICE).min_hold_ms(60_000));
    story.does(5_000, &release(ALICE, "nightly")).unwrap();
    let again = story.does(6_000, &release(ALICE, "nightly").done());
    assert!(matches!(again, Ok(Answer::ReleasedOnTerms { is_done: false, .. })), "{again:?}");
}

/// A grant from the queue that nobody claims goes back to its place; there its run may have been made meanwhile.
#[test]
fn a_grant_that_is_taken_back_after_the_run_was_made_waits_for_nothing() {
    let mut story = Story::default();
    let permits = |who| run(who).permits(1, 2);
    story.grants(0, permits(ALICE));
    story.grants(0, permits(BOB));
    story.queues(0, permits(CAROL).wait_ms(600_000));
    story.kill(3);
    story.releases(10, release(BOB, "nightly"));
    let granted = story.so_far().grant_to(CAROL).fence;
    story.does(20, &release(ALICE, "nightly").done()).unwrap();
    story.leader_does(600, unclaim("nightly", granted)).unwrap();
    assert_eq!(story.so_far().leavings_of(CAROL), [(600, Cause::AlreadyDone)]);
    assert_eq!(story.names(), [""; 0]);
}

#[test]
fn a_lock_that_only_remembers_a_run_is_free_and_forgotten_once_its_period_is_over() {
    let mut story = Story::default();
    story.grants(0, run(ALICE).permits(1, 3));
    story.does(10, &release(ALICE, "nightly").done()).unwrap();
    assert_eq!((story.names(), story.table.counts()), (vec![], (0, 0)));
    assert_eq!((story.lock("nightly").limit, story.lock("nightly").seq), (None, story.table.seq()));
    // Its limit is anybody's to name again.
    story.grants(20, acquire(BOB, "nightly").permits(2, 2));
    story.releases(30, release(BOB, "nightly"));
    assert!(story.table.is_busy() && story.table.is_in_no_hurry());
    story.tick(HOUR);
    assert!(!story.table.is_busy());
}
