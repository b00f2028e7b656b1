//! What an operator does to those who hold a lock or wait for it.

use holdfast_core::{
    Answer, Cause, Fence, Happening, Intervention, LockName, Lookup, Op, Outcome, Owner, Reason, Rejection,
    Standing,
};

use crate::deed::{ALICE, BOB, CAROL, acquire, open_session, release, renew};
use crate::story::Story;

fn by(reason: &str) -> Intervention {
    Intervention { by: Owner::new("olga").unwrap(), reason: Reason::new(reason).unwrap() }
}

fn force_release(story: &mut Story, at_ms: u64, lock: &str, fence: Fence) -> Outcome {
    let lock = LockName::new(lock).unwrap();
    story.leader_does(at_ms, Op::ForceRelease { lock, fence, by: by("it hangs") })
}

fn force_leave(story: &mut Story, at_ms: u64, lock: &str, owner: &str) -> Outcome {
    let (lock, owner) = (LockName::new(lock).unwrap(), Owner::new(owner).unwrap());
    story.leader_does(at_ms, Op::ForceLeave { lock, owner, by: by("not his turn") })
}

#[test]
fn a_hold_that_was_forced_is_over_for_its_owner_and_the_next_has_the_lock() {
    let mut story = Story::default();
    let old = story.grants(0, acquire(ALICE, "db")).fence;
    story.queues(10, acquire(BOB, "db").wait_ms(9_000));
    assert_eq!(force_release(&mut story, 20, "db", old), Ok(Answer::Released { fence: Some(old) }));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    assert_eq!(story.refuses(30, renew(ALICE, "db")), Rejection::LeaseForced);
    assert_eq!(story.refuses(30, release(ALICE, "db")), Rejection::LeaseForced);
    assert_eq!(story.refuses(30, acquire(ALICE, "db")), Rejection::LeaseForced);
    let event = story.so_far().0.iter().find(|(_, event)| event.by.is_some()).unwrap().1.clone();
    assert_eq!(event.what, Happening::Ended { fence: old, cause: Cause::Forced, held_ms: 20 });
    assert_eq!(*event.by.unwrap(), by("it hangs"));
}

#[test]
fn only_the_fence_that_was_named_is_ended() {
    let mut story = Story::default();
    let old = story.grants(0, acquire(ALICE, "db")).fence;
    story.releases(10, release(ALICE, "db"));
    story.grants(20, acquire(BOB, "db"));
    assert_eq!(force_release(&mut story, 30, "db", old), Err(Rejection::NotHolder));
    assert_eq!(force_release(&mut story, 30, "db", Fence(77)), Err(Rejection::NotHolder));
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
}

#[test]
fn whoever_forces_twice_with_a_lost_answer_is_told_of_the_same_success() {
    let mut story = Story::default();
    let old = story.grants(0, acquire(ALICE, "db")).fence;
    story.queues(10, acquire(BOB, "db").wait_ms(9_000));
    for at_ms in [20, 30] {
        assert_eq!(force_release(&mut story, at_ms, "db", old), Ok(Answer::Released { fence: Some(old) }));
    }
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    story.queues(40, acquire(CAROL, "db").wait_ms(9_000));
    assert_eq!(force_leave(&mut story, 50, "db", "carol"), Ok(Answer::Left { count: 1 }));
    assert_eq!(force_leave(&mut story, 60, "db", "carol"), Ok(Answer::Left { count: 0 }));
    assert_eq!(force_leave(&mut story, 60, "db", "dave"), Err(Rejection::NoSuchWaiter));
}

#[test]
fn a_waiter_that_was_made_to_leave_is_told_so_and_the_others_keep_their_order() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(10, acquire(BOB, "db").wait_ms(9_000));
    story.queues(20, acquire(CAROL, "db").wait_ms(9_000));
    force_leave(&mut story, 30, "db", "bob").unwrap();
    assert_eq!(story.queue("db"), ["carol"]);
    assert_eq!(story.standing(&acquire(BOB, "db"), "db"), Standing::Ended(Cause::Forced));
    assert_eq!(story.refuses(40, acquire(BOB, "db").wait_ms(9_000)), Rejection::LeaseForced);
}

/// A session keeps what it holds until somebody takes one of its locks away: the session itself goes on.
#[test]
fn a_hold_of_a_session_can_be_forced_by_itself() {
    let mut story = Story::default();
    let session = story.keeps(0, open_session(ALICE, 20_000)).id;
    let fence = story.grants(0, acquire(ALICE, "a").session(session)).fence;
    story.grants(0, acquire(ALICE, "b").session(session));
    force_release(&mut story, 10, "a", fence).unwrap();
    assert_eq!(story.kept_by(session).0, ["b"]);
    let ended = Lookup::Ended { cause: Cause::Forced, fence: Some(fence), ago_ms: 0 };
    let (key, now) = (acquire(ALICE, "a").key(), story.table.now());
    assert_eq!(story.table.look_up(&LockName::new("a").unwrap(), &key, now), ended);
}

/// The holder has not agreed to its end: it may be at work still.
#[test]
fn a_forced_end_brings_the_delay_that_its_holder_had_asked_for() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db").delay_ms(3_000)).fence;
    story.queues(10, acquire(BOB, "db").wait_ms(60_000));
    force_release(&mut story, 1_000, "db", fence).unwrap();
    assert_eq!((story.holder("db"), story.lock("db").delay_ms), (None, Some(3_000)));
    assert_eq!(story.tick(4_000).grant_to(BOB).at_ms, 4_000);
}

/// A run that an operator ends is not done, however long it was.
#[test]
fn a_forced_run_does_not_count_as_done() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "daily").once_ms(3_600_000)).fence;
    force_release(&mut story, 1_000, "daily", fence).unwrap();
    story.grants(2_000, acquire(BOB, "daily").once_ms(3_600_000));
}
