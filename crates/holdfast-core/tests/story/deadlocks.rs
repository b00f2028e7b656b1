//! Waits that would close a cycle of waits are refused.

use holdfast_core::{Answer, Rejection};

use crate::deed::{ALICE, BOB, CAROL, DAVE, Person, acquire, open_session, release};
use crate::many_deed::acquire_many;
use crate::story::Story;

const WAIT_MS: u64 = 60_000;

#[track_caller]
fn cycle(rejection: Rejection) -> Vec<String> {
    match rejection {
        Rejection::Deadlock { cycle } => cycle.iter().map(ToString::to_string).collect(),
        other => panic!("no deadlock: {other:?}"),
    }
}

#[track_caller]
fn is_deadlock(story: &mut Story, at_ms: u64, who: Person, lock: &str) -> Vec<String> {
    cycle(story.refuses(at_ms, acquire(who, lock).wait_ms(WAIT_MS)))
}

#[test]
fn the_wait_that_closes_a_cycle_is_refused_with_its_locks_and_changes_nothing() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.grants(0, acquire(BOB, "b"));
    story.queues(0, acquire(ALICE, "b").wait_ms(WAIT_MS));
    let seq = story.table.seq();
    assert_eq!(is_deadlock(&mut story, 1, BOB, "a"), ["a", "b"]);
    assert_eq!((story.table.seq(), story.queue("a")), (seq, vec![]));
    story.releases(2, release(BOB, "b"));
    assert_eq!(story.holder("b").as_deref(), Some("alice"));
    story.queues(3, acquire(BOB, "a").wait_ms(WAIT_MS));
}

#[test]
fn a_cycle_of_many_is_found_whoever_comes_last() {
    const RING: u64 = 100;
    for last in [0, 1, RING / 2, RING - 1] {
        let mut story = Story::default();
        let ask = |holder: u64, lock: u64| {
            acquire(ALICE, &format!("lock {lock}"))
                .owner(&format!("party {holder}"))
                .token(&format!("{holder}"))
        };
        for n in 0..RING {
            story.grants(0, ask(n, n));
        }
        for n in (0..RING).filter(|n| *n != last) {
            story.queues(0, ask(n, (n + 1) % RING).wait_ms(WAIT_MS));
        }
        let names = cycle(story.refuses(1, ask(last, (last + 1) % RING).wait_ms(WAIT_MS)));
        assert_eq!(names.len() as u64, RING);
        assert_eq!(names[0], format!("lock {}", (last + 1) % RING));
        assert_eq!(names[names.len() - 1], format!("lock {last}"));
    }
}

#[test]
fn a_cycle_through_one_who_waits_for_many_is_found() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    let waits = acquire_many(BOB, &["a", "b"]).wait_ms(WAIT_MS);
    assert!(matches!(story.does_many(0, &waits), Ok(Answer::Queued { .. })));
    // Bob is first in the queue of `b`, which is free.
    assert_eq!(is_deadlock(&mut story, 1, ALICE, "b"), ["b", "a"]);
}

#[test]
fn an_attempt_at_many_that_closes_a_cycle_is_refused() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.grants(0, acquire(BOB, "b"));
    story.queues(0, acquire(ALICE, "b").wait_ms(WAIT_MS));
    let refused = story.does_many(1, &acquire_many(BOB, &["c", "a"]).wait_ms(WAIT_MS)).unwrap_err();
    assert_eq!(cycle(refused), ["a", "b"]);
    assert_eq!(story.queue("c"), Vec::<String>::new());
}

#[test]
fn a_cycle_that_leads_past_a_waiting_writer_is_found() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.grants(0, acquire(BOB, "b").shared());
    story.queues(0, acquire(CAROL, "b").wait_ms(WAIT_MS));
    story.queues(0, acquire(BOB, "a").wait_ms(WAIT_MS));
    // Alice would fit beside Bob, but Carol is in front of her.
    let refused = story.refuses(1, acquire(ALICE, "b").shared().wait_ms(WAIT_MS));
    assert_eq!(cycle(refused), ["b", "a"]);
}

#[test]
fn permits_that_others_will_give_back_make_no_cycle() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.grants(0, acquire(BOB, "pool").permits(1, 2));
    story.grants(0, acquire(CAROL, "pool").permits(1, 2));
    story.queues(0, acquire(BOB, "a").wait_ms(WAIT_MS));
    story.queues(0, acquire(ALICE, "pool").permits(1, 2).wait_ms(WAIT_MS));
    // Nobody is left who could give one back.
    assert_eq!(is_deadlock(&mut story, 1, CAROL, "a"), ["a", "pool"]);
}

#[test]
fn whoever_has_no_label_or_waits_for_himself_or_not_at_all_is_not_in_a_cycle() {
    let mut story = Story::default();
    let nobody = |lock: &str, token: &str| acquire(DAVE, lock).owner("anonymous").token(token);
    story.grants(0, nobody("a", "one"));
    story.grants(0, nobody("b", "two"));
    story.queues(0, nobody("b", "three").wait_ms(WAIT_MS));
    story.queues(0, nobody("a", "four").wait_ms(WAIT_MS));
    story.grants(0, acquire(ALICE, "c"));
    story.queues(0, acquire(ALICE, "c").token("another").wait_ms(WAIT_MS));
    story.grants(0, acquire(BOB, "d"));
    story.queues(0, acquire(ALICE, "d").wait_ms(WAIT_MS));
    assert!(matches!(story.refuses(0, acquire(BOB, "c")), Rejection::Held { .. }));
    assert_eq!(is_deadlock(&mut story, 0, BOB, "c"), ["c", "d"]);
}

/// Each wait ends by itself once its lock is free: neither holds anything.
#[test]
fn waits_for_two_locks_in_opposite_orders_are_no_cycle_unless_something_is_held() {
    let mut story = Story::default();
    story.grants(0, acquire(CAROL, "a"));
    story.grants(0, acquire(CAROL, "b"));
    for (who, lock) in [(ALICE, "a"), (BOB, "a"), (BOB, "b"), (ALICE, "b")] {
        story.queues(0, acquire(who, lock).wait_ms(WAIT_MS));
    }
}

/// Readers that share a label come after the writer, also beside one of theirs that still reads.
#[test]
fn a_party_that_asks_for_more_of_what_it_holds_waits_like_anybody() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a").shared());
    story.queues(0, acquire(BOB, "a").wait_ms(WAIT_MS));
    story.queues(0, acquire(ALICE, "a").shared().token("another").wait_ms(WAIT_MS));
}

#[test]
fn one_who_waits_for_many_without_a_label_is_in_a_cycle_all_the_same() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    let waits = acquire_many(Person { name: "anonymous", node: 2 }, &["a", "b"]).wait_ms(WAIT_MS);
    assert!(matches!(story.does_many(0, &waits), Ok(Answer::Queued { .. })));
    assert_eq!(is_deadlock(&mut story, 1, ALICE, "b"), ["b", "a"]);
}

#[test]
fn a_wait_whose_client_has_gone_closes_no_cycle() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a").ttl_ms(600_000));
    story.grants(0, acquire(BOB, "b").ttl_ms(600_000));
    story.queues(0, acquire(BOB, "a").wait_ms(WAIT_MS));
    story.kill(2);
    story.tick(2_500);
    story.queues(2_500, acquire(ALICE, "b").wait_ms(WAIT_MS));
}

#[test]
fn a_second_attempt_with_the_holders_label_may_wait_behind_another() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.queues(0, acquire(BOB, "a").wait_ms(WAIT_MS));
    story.queues(1, acquire(ALICE, "a").token("another worker").wait_ms(WAIT_MS));
}

#[test]
fn the_attempts_of_a_session_are_one_party_whatever_their_labels() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 600_000)).id;
    let in_session = |lock: &str, owner: &str| acquire(ALICE, lock).session(id).owner(owner).token(owner);
    story.grants(0, in_session("a", "one"));
    story.grants(0, acquire(BOB, "b"));
    story.queues(0, in_session("b", "anonymous").wait_ms(WAIT_MS));
    assert_eq!(is_deadlock(&mut story, 1, BOB, "a"), ["a", "b"]);
    // It does not wait for itself.
    story.queues(1, in_session("a", "three").wait_ms(WAIT_MS));
}

#[test]
fn a_label_outside_of_the_session_is_another_party() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 600_000)).id;
    story.grants(0, acquire(ALICE, "a").session(id));
    story.grants(0, acquire(BOB, "b"));
    story.queues(0, acquire(ALICE, "b").wait_ms(WAIT_MS));
    // The session waits for nothing: it may end its hold at any time.
    story.queues(1, acquire(BOB, "a").wait_ms(WAIT_MS));
    assert_eq!(
        cycle(story.refuses(2, acquire(ALICE, "b").session(id).token("another").wait_ms(WAIT_MS))),
        ["b", "a"]
    );
}

#[test]
fn a_cycle_through_sessions_and_one_who_waits_for_many_is_found_and_is_none_once_a_session_is_over() {
    let mut story = Story::default();
    let alice = story.keeps(0, open_session(ALICE, 600_000)).id;
    let carol = story.keeps(0, open_session(CAROL, 1_000)).id;
    story.grants(0, acquire(ALICE, "a").session(alice));
    story.grants(0, acquire(CAROL, "c").session(carol));
    story.grants(0, acquire(BOB, "b").ttl_ms(600_000));
    assert!(matches!(
        story.does_many(0, &acquire_many(BOB, &["free", "c"]).wait_ms(WAIT_MS)),
        Ok(Answer::Queued { .. })
    ));
    story.queues(0, acquire(CAROL, "a").session(carol).wait_ms(WAIT_MS));
    let wants_b = || acquire(ALICE, "b").session(alice).wait_ms(WAIT_MS);
    assert_eq!(cycle(story.refuses(1, wants_b())), ["b", "c", "a"]);
    story.tick(1_000);
    story.queues(1_000, wants_b());
}
