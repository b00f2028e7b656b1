//! Many locks at once: all or none.

use holdfast_core::{Answer, Cause, Fence, ManyGrant, Rejection, Standing};

use crate::deed::{ALICE, BOB, CAROL, DAVE, Deed, abandon, acquire, release, renew, set_limit, unclaim};
use crate::many_deed::{ManyDeed, acquire_many, release_many, renew_many};
use crate::story::Story;

const WAIT_MS: u64 = 60_000;

#[track_caller]
fn granted(story: &mut Story, at_ms: u64, deed: ManyDeed) -> ManyGrant {
    match story.does_many(at_ms, &deed) {
        Ok(Answer::GrantedMany(grant)) => grant,
        other => panic!("not granted: {other:?}\n{deed:?}"),
    }
}

#[track_caller]
fn queued(story: &mut Story, at_ms: u64, deed: ManyDeed) {
    let outcome = story.does_many(at_ms, &deed);
    assert!(matches!(outcome, Ok(Answer::Queued { .. })), "not queued: {outcome:?}\n{deed:?}");
}

#[track_caller]
fn refused(story: &mut Story, at_ms: u64, deed: ManyDeed) -> Rejection {
    story.does_many(at_ms, &deed).expect_err("it is refused")
}

/// The lock that the refusal is about, and what is said of it.
fn parts(rejection: Rejection) -> (String, Rejection) {
    match rejection {
        Rejection::Of { lock, why } => (lock.to_string(), *why),
        other => panic!("of no lock: {other:?}"),
    }
}

fn fences(grant: &ManyGrant) -> Vec<(&str, u64)> {
    grant.fences.iter().map(|(lock, fence)| (lock.as_str(), fence.0)).collect()
}

#[test]
fn all_of_them_are_granted_in_one_entry_each_with_a_fence_of_its_own() {
    let mut story = Story::default();
    let grant = granted(&mut story, 0, acquire_many(ALICE, &["b", "a", "c"]).ttl_ms(1_000));
    assert_eq!(fences(&grant), [("b", 1), ("a", 2), ("c", 3)]);
    assert_eq!((grant.ttl.ms(), grant.expires_in_ms), (1_000, 1_000));
    let happened = story.tick(1_000);
    assert_eq!(
        happened
            .endings_of(ALICE)
            .iter()
            .filter(|(at, _, cause)| (*at, *cause) == (1_000, Cause::Expired))
            .count(),
        3
    );
}

#[test]
fn one_busy_lock_leaves_the_others_alone_and_is_named() {
    let mut story = Story::default();
    story.grants(0, acquire(BOB, "b"));
    let (lock, why) = parts(refused(&mut story, 0, acquire_many(ALICE, &["a", "b"])));
    assert_eq!(lock, "b");
    let Rejection::Held { holder: Some(holder), queue_length: 0 } = why else { panic!("{why:?}") };
    assert_eq!(holder.owner.as_str(), "bob");
    assert_eq!(story.holder("a"), None);
    story.grants(0, acquire(CAROL, "a"));
}

#[test]
fn whoever_waits_for_many_gets_all_when_the_last_is_free_and_nothing_before() {
    let mut story = Story::default();
    let held = story.grants(0, acquire(BOB, "b"));
    story.grants(0, acquire(CAROL, "c"));
    queued(&mut story, 0, acquire_many(ALICE, &["a", "b", "c"]).wait_ms(WAIT_MS));
    assert_eq!(story.holder("a"), None);
    story.releases(1, release(BOB, "b"));
    assert_eq!((story.holder("a"), story.holder("b")), (None, None));
    story.releases(2, release(CAROL, "c"));
    for lock in ["a", "b", "c"] {
        assert_eq!(story.holder(lock).as_deref(), Some("alice"));
        assert!(story.lock(lock).holders[0].fence > held.fence);
    }
}

/// Whoever came later does not pass, also where there is room for him.
#[test]
fn a_free_lock_is_kept_for_whoever_waits_for_it_and_for_another() {
    let mut story = Story::default();
    story.grants(0, acquire(BOB, "b"));
    queued(&mut story, 0, acquire_many(ALICE, &["a", "b"]).wait_ms(WAIT_MS));
    let why = story.refuses(0, acquire(CAROL, "a"));
    assert_eq!(why, Rejection::Held { holder: None, queue_length: 1 });
    story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS));
    story.releases(1, release(BOB, "b"));
    assert_eq!((story.holder("a").as_deref(), story.queue("a")), (Some("alice"), vec!["carol".into()]));
    story.does_many(2, &release_many(ALICE)).unwrap();
    assert_eq!(story.holder("a").as_deref(), Some("carol"));
}

#[test]
fn two_who_name_the_same_locks_in_opposite_orders_come_one_after_the_other() {
    let mut story = Story::default();
    granted(&mut story, 0, acquire_many(CAROL, &["a", "b"]));
    queued(&mut story, 0, acquire_many(ALICE, &["a", "b"]).wait_ms(WAIT_MS));
    queued(&mut story, 0, acquire_many(BOB, &["b", "a"]).wait_ms(WAIT_MS));
    assert_eq!((story.queue("a"), story.queue("b")), (story.queue("b"), vec!["alice".into(), "bob".into()]));
    story.does_many(1, &release_many(CAROL)).unwrap();
    story.does_many(2, &release_many(ALICE)).unwrap();
    assert_eq!((story.holder("a").as_deref(), story.holder("b").as_deref()), (Some("bob"), Some("bob")));
}

/// A grant of many makes room in other queues than the one that was left.
#[test]
fn readers_behind_one_who_gets_many_come_in_with_him() {
    let mut story = Story::default();
    story.grants(0, acquire(BOB, "b"));
    queued(&mut story, 0, acquire_many(ALICE, &["a", "b"]).shared().wait_ms(WAIT_MS));
    story.queues(0, acquire(CAROL, "a").shared().wait_ms(WAIT_MS));
    story.releases(1, release(BOB, "b"));
    assert_eq!(story.holders("a"), ["alice", "carol"]);
}

#[test]
fn an_absent_one_keeps_nobody_out_of_a_free_lock_and_gets_all_when_it_is_back() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "b").ttl_ms(600_000));
    queued(&mut story, 0, acquire_many(BOB, &["a", "b"]).wait_ms(WAIT_MS));
    story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS).ttl_ms(5_000));
    story.kill(2);
    story.tick(2_000);
    assert_eq!(story.holder("a").as_deref(), Some("carol"));
    story.releases(3_000, release(ALICE, "b"));
    story.tick(8_000);
    assert_eq!((story.holder("a"), story.holder("b")), (None, None));
    story.reconnect(2);
    story.tick(9_000);
    assert_eq!((story.holder("a").as_deref(), story.holder("b").as_deref()), (Some("bob"), Some("bob")));
}

#[test]
fn a_lock_that_was_kept_free_goes_on_when_the_last_call_at_a_living_node_is_given_up() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "b").ttl_ms(600_000));
    queued(&mut story, 0, acquire_many(BOB, &["b", "a"]).wait_ms(WAIT_MS));
    queued(&mut story, 0, acquire_many(BOB, &["b", "a"]).wait_ms(WAIT_MS).through(3));
    story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS));
    story.kill(2);
    story.tick(2_500);
    assert_eq!(story.holder("a"), None);
    let last = story.last_call_of(&acquire(BOB, "b"));
    story.abandons(2_500, abandon(BOB, "b").call(last));
    assert_eq!(story.holder("a").as_deref(), Some("carol"));
}

#[test]
fn an_end_of_the_wait_ends_it_in_all_queues() {
    type End = fn(&mut Story);
    let ends: [(End, Cause); 4] = [
        (|story| drop(story.tick(500)), Cause::WaitTimeout),
        (|story| drop(story.does_many(10, &release_many(BOB)).unwrap()), Cause::Released),
        (|story| assert_eq!(story.releases(10, release(BOB, "a")), None), Cause::Released),
        (
            |story| story.abandons(10, abandon(BOB, "a").call(story.last_call_of(&key_of_bob()))),
            Cause::Abandoned,
        ),
    ];
    for (end, cause) in ends {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, "b"));
        queued(&mut story, 0, acquire_many(BOB, &["a", "b"]).wait_ms(500));
        story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS));
        end(&mut story);
        let left: Vec<_> = story.so_far().leavings_of(BOB).into_iter().map(|(_, cause)| cause).collect();
        assert_eq!(left, [cause, cause]);
        assert_eq!(story.holder("a").as_deref(), Some("carol"), "{cause:?}");
        assert_eq!(story.queue("b"), Vec::<String>::new());
        granted(&mut story, 600, acquire_many(DAVE, &["c", "d"]));
    }
}

fn key_of_bob() -> Deed {
    acquire(BOB, "a")
}

#[test]
fn a_repeat_gets_the_same_grants_or_the_same_places() {
    let mut story = Story::default();
    let deed = acquire_many(ALICE, &["a", "b"]).ttl_ms(1_000);
    let first = granted(&mut story, 0, deed.clone());
    let again = granted(&mut story, 900, deed.clone().through(2));
    assert_eq!((&again.fences, again.expires_in_ms), (&first.fences, 1_000));
    for other in [
        acquire_many(ALICE, &["a", "b", "c"]).ttl_ms(1_000),
        acquire_many(ALICE, &["a"]).ttl_ms(1_000),
        acquire_many(ALICE, &["b", "a"]).ttl_ms(1_000),
        acquire_many(ALICE, &["a", "b"]).ttl_ms(2_000),
        deed.clone().shared(),
    ] {
        let why = refused(&mut story, 900, other);
        assert!(why == Rejection::TokenConflict || parts(why).1 == Rejection::TokenConflict);
    }
    let waits = acquire_many(BOB, &["b", "a"]).wait_ms(WAIT_MS);
    queued(&mut story, 900, waits.clone());
    queued(&mut story, 950, waits.clone().through(3));
    assert_eq!((story.queue("a"), story.queue("b")), (vec!["bob".into()], vec!["bob".into()]));
    assert_eq!(refused(&mut story, 950, waits.shared()), Rejection::TokenConflict);
    let reordered = acquire_many(BOB, &["a", "b"]).wait_ms(WAIT_MS);
    assert_eq!(refused(&mut story, 950, reordered), Rejection::TokenConflict);
    assert_eq!(story.refuses(950, acquire(BOB, "a").wait_ms(WAIT_MS)), Rejection::TokenConflict);
}

#[test]
fn renewal_and_release_act_on_all_of_them_or_on_those_that_are_named() {
    let mut story = Story::default();
    let grant = granted(&mut story, 0, acquire_many(ALICE, &["a", "b", "c"]).ttl_ms(1_000));
    let fence = |at: usize| grant.fences[at].1;
    assert_eq!(granted(&mut story, 500, renew_many(ALICE)).fences, grant.fences);
    let one = granted(&mut story, 600, renew_many(ALICE).named(&["c"]).ttl_ms(5_000));
    assert_eq!((fences(&one), one.ttl.ms()), (vec![("c", 3)], 5_000));
    let Ok(Answer::ReleasedMany { fences }) = story.does_many(700, &release_many(ALICE).named(&["b"])) else {
        panic!("it is released")
    };
    assert_eq!(fences[0].1, Some(fence(1)));
    assert_eq!(
        (story.holder("a").is_some(), story.holder("b"), story.holder("c").is_some()),
        (true, None, true)
    );
    let (lock, why) = parts(refused(&mut story, 700, renew_many(ALICE).named(&["a", "b"])));
    assert_eq!((lock.as_str(), why), ("b", Rejection::LeaseReleased));
    let rest = granted(&mut story, 800, renew_many(ALICE));
    assert_eq!((rest.fences.len(), rest.ttl.ms(), rest.expires_in_ms), (2, 1_000, 1_000));
    story.tick(1_800);
    assert_eq!(story.standing(&acquire(ALICE, "a"), "a"), Standing::Ended(Cause::Expired));
    story.does_many(1_900, &release_many(ALICE)).unwrap();
    assert_eq!(story.holder("c"), None);
}

#[test]
fn releasing_again_is_a_success_also_without_names() {
    let mut story = Story::default();
    let grant = granted(&mut story, 0, acquire_many(ALICE, &["a", "b"]));
    story.does_many(1, &release_many(ALICE)).unwrap();
    let named = story.does_many(2, &release_many(ALICE).named(&["b", "a"]));
    let fences =
        vec![(grant.fences[1].0.clone(), Some(Fence(2))), (grant.fences[0].0.clone(), Some(Fence(1)))];
    assert_eq!(named, Ok(Answer::ReleasedMany { fences }));
    assert_eq!(story.does_many(3, &release_many(ALICE)), Ok(Answer::ReleasedMany { fences: vec![] }));
    assert_eq!(parts(refused(&mut story, 4, acquire_many(ALICE, &["a", "b"]))).1, Rejection::LeaseReleased);
    assert_eq!(refused(&mut story, 4, renew_many(ALICE)), Rejection::LeaseReleased);
    assert_eq!(refused(&mut story, 4, release_many(BOB)), Rejection::NotHolder);
    granted(&mut story, 5, acquire_many(BOB, &["a", "b"]).ttl_ms(100));
    story.tick(200);
    assert_eq!(refused(&mut story, 200, release_many(BOB)), Rejection::LeaseExpired);
}

#[test]
fn each_of_them_can_be_renewed_and_released_alone() {
    let mut story = Story::default();
    let grant = granted(&mut story, 0, acquire_many(ALICE, &["a", "b"]).ttl_ms(1_000));
    assert_eq!(story.renews(500, renew(ALICE, "b")).fence, grant.fences[1].1);
    assert_eq!(story.tick(1_000).endings_of(ALICE).len(), 1);
    assert_eq!(story.releases(1_000, release(ALICE, "b")), Some(grant.fences[1].1));
}

#[test]
fn a_client_that_hangs_up_before_it_was_told_gives_all_of_them_up() {
    let mut story = Story::default();
    granted(&mut story, 0, acquire_many(ALICE, &["a", "b"]));
    let call = story.last_call_of(&acquire(ALICE, "a"));
    story.abandons(1, abandon(ALICE, "a").call(call));
    assert_eq!((story.holder("a"), story.holder("b")), (None, None));
    granted(&mut story, 2, acquire_many(BOB, &["a", "b"]));
    let call = story.last_call_of(&acquire(BOB, "a"));
    story.renews(3, renew(BOB, "b"));
    story.abandons(4, abandon(BOB, "a").call(call));
    assert_eq!((story.holder("a").is_some(), story.holder("b").is_some()), (true, true));
}

#[test]
fn grants_that_nobody_claims_are_all_taken_back_and_keep_their_places() {
    let mut story = Story::default();
    granted(&mut story, 0, acquire_many(ALICE, &["a", "b"]).ttl_ms(600_000));
    queued(&mut story, 0, acquire_many(BOB, &["b", "a"]).wait_ms(WAIT_MS));
    story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS).ttl_ms(1_000));
    story.does_many(1, &release_many(ALICE)).unwrap();
    let claimed = story.lock("b").holders[0].fence;
    assert_eq!(story.holder("a").as_deref(), Some("bob"));
    story.kill(2);
    story.leader_does(500, unclaim("b", claimed)).unwrap();
    assert_eq!((story.holder("a").as_deref(), story.holder("b")), (Some("carol"), None));
    story.reconnect(2);
    story.tick(3_000);
    assert_eq!((story.holder("a").as_deref(), story.holder("b").as_deref()), (Some("bob"), Some("bob")));
    assert_eq!(story.queue("a"), Vec::<String>::new());
}

#[test]
fn a_grant_of_which_one_lock_was_renewed_is_not_taken_back() {
    let mut story = Story::default();
    granted(&mut story, 0, acquire_many(ALICE, &["a", "b"]));
    queued(&mut story, 0, acquire_many(BOB, &["a", "b"]).wait_ms(WAIT_MS));
    story.does_many(1, &release_many(ALICE)).unwrap();
    let fence = story.lock("a").holders[0].fence;
    story.renews(2, renew(BOB, "b"));
    assert_eq!(story.leader_does(3, unclaim("a", fence)), Err(Rejection::NotHolder));
    assert_eq!(story.holder("a").as_deref(), Some("bob"));
}

#[test]
fn a_limit_that_is_lowered_below_one_of_them_ends_the_whole_wait() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "pool").permits(2, 3));
    queued(&mut story, 0, acquire_many(BOB, &["a", "pool"]).permits_of("pool", 3, 3).wait_ms(WAIT_MS));
    story.queues(0, acquire(CAROL, "a").wait_ms(WAIT_MS));
    story.leader_does(1, set_limit("pool", 2)).unwrap();
    assert_eq!(story.so_far().leavings_of(BOB).len(), 2);
    assert_eq!(story.holder("a").as_deref(), Some("carol"));
    let (lock, why) =
        parts(refused(&mut story, 2, acquire_many(DAVE, &["d", "pool"]).permits_of("pool", 1, 3)));
    assert_eq!((lock.as_str(), why), ("pool", Rejection::LimitConflict { limit: Some(2) }));
}
