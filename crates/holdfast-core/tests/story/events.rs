//! What watchers are told.

use holdfast_core::{Cause, Fence, Happening, Metadata, Ttl};

use crate::deed::{ALICE, BOB, CAROL, abandon, acquire, release, renew, unclaim};
use crate::story::Story;

/// Everything that happened to one person's attempts.
fn told(story: &Story, owner: &str) -> Vec<Happening> {
    let events = story.so_far().0.iter();
    events.filter(|(_, event)| event.owner.as_str() == owner).map(|(_, event)| event.what.clone()).collect()
}

fn acquired(fence: u64, waited_ms: Option<u64>) -> Happening {
    Happening::Acquired {
        fence: Fence(fence),
        ttl: Ttl::default(),
        expires_in_ms: Ttl::default().ms(),
        metadata: Metadata::default(),
        from_queue: waited_ms.is_some(),
        waited_ms,
        max_left_ms: None,
    }
}

fn ended(fence: u64, cause: Cause, held_ms: u64) -> Happening {
    Happening::Ended { fence: Fence(fence), cause, held_ms }
}

#[test]
fn every_end_of_a_hold_is_told_with_its_cause_its_fence_and_how_long_it_was() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "released"));
    story.releases(40, release(ALICE, "released"));
    story.grants(50, acquire(BOB, "expired"));
    story.grants(60, acquire(CAROL, "abandoned"));
    story.abandons(70, abandon(CAROL, "abandoned"));
    story.tick(60_000);
    assert_eq!(told(&story, "alice"), [acquired(1, None), ended(1, Cause::Released, 40)]);
    assert_eq!(told(&story, "bob"), [acquired(2, None), ended(2, Cause::Expired, 30_000)]);
    assert_eq!(told(&story, "carol"), [acquired(3, None), ended(3, Cause::Abandoned, 10)]);
}

#[test]
fn a_wait_is_told_from_its_beginning_to_its_grant_or_its_end() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(500));
    story.tick(500);
    story.releases(600, release(ALICE, "db"));
    assert_eq!(told(&story, "bob"), [Happening::Queued, acquired(2, Some(600))]);
    assert_eq!(told(&story, "carol"), [Happening::Queued, Happening::Left(Cause::WaitTimeout)]);
}

#[test]
fn a_hand_over_is_told_as_the_end_and_then_the_beginning() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    story.releases(100, release(ALICE, "db"));
    let last: Vec<_> = story.so_far().0.iter().rev().take(2).map(|(_, event)| event.what.clone()).collect();
    assert_eq!(last, [acquired(2, Some(100)), ended(1, Cause::Released, 100)]);
}

#[test]
fn an_unclaimed_grant_is_told_and_the_attempt_does_not_queue_again() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    story.releases(100, release(ALICE, "db"));
    story.leader_does(300, unclaim("db", Fence(2))).unwrap();
    assert_eq!(
        told(&story, "bob"),
        [Happening::Queued, acquired(2, Some(100)), ended(2, Cause::Unclaimed, 200)]
    );
}

#[test]
fn renewals_repeats_and_refusals_are_no_events() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.queues(0, acquire(BOB, "db").wait_ms(9_000));
    let seq = story.table.seq();
    story.renews(1, renew(ALICE, "db"));
    story.grants(2, acquire(ALICE, "db"));
    story.queues(3, acquire(BOB, "db").wait_ms(9_000));
    story.refuses(4, acquire(CAROL, "db"));
    story.refuses(5, release(CAROL, "db"));
    assert_eq!(story.table.seq(), seq);
}

/// So that a node can tell whether one of its calls, and no other one, has to answer for a grant.
#[test]
fn a_grant_names_the_attempt_and_its_call_if_there_is_only_one() {
    for calls in [1, 2] {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "db"));
        let attempt = acquire(BOB, "db").wait_ms(9_000);
        for node in 1..=calls {
            story.queues(1, attempt.clone().through(node));
        }
        let only_call = (calls == 1).then(|| story.last_call_of(&attempt));
        story.releases(2, release(ALICE, "db"));
        let (_, grant) = story.so_far().0.last().unwrap();
        assert_eq!((grant.key, grant.home), (attempt.key(), only_call));
    }
}
