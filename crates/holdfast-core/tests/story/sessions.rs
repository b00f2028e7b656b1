//! One keep-alive for many locks.

use holdfast_core::{
    Answer, Cause, ENDING_KEPT_MS, Op, Rejection, SESSION_LEN_MAX, SessionId, SessionRef, Standing,
};

use crate::deed::{
    ALICE, BOB, CAROL, DAVE, abandon, acquire, end_session, open_session, release, renew, renew_session,
    session_key, unclaim,
};
use crate::story::Story;

/// Alice's session of 1 s holds `a` and `b` and waits for `busy`, which Bob holds.
fn alice_keeps_three() -> (Story, SessionId) {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(BOB, "busy").ttl_ms(600_000));
    story.grants(0, acquire(ALICE, "a").session(id));
    story.grants(0, acquire(ALICE, "b").session(id));
    story.queues(0, acquire(ALICE, "busy").session(id).wait_ms(60_000));
    (story, id)
}

fn nothing() -> (Vec<String>, Vec<String>) {
    (vec![], vec![])
}

#[test]
fn one_renewal_keeps_everything_that_the_session_holds_and_waits_for() {
    let (mut story, id) = alice_keeps_three();
    for at_ms in (900..10_000).step_by(900) {
        assert_eq!(story.keeps(at_ms, renew_session(ALICE, id)).expires_in_ms, 1_000);
    }
    assert_eq!(story.kept_by(id), (vec!["a".into(), "b".into()], vec!["busy".into()]));
    assert_eq!((story.holder("a").as_deref(), story.queue("busy")), (Some("alice"), vec!["alice".into()]));
    let holder = &story.lock("a").holders[0];
    assert_eq!((holder.session, holder.ttl.ms(), holder.expires_in_ms), (Some(id), 1_000, 1_000));
}

#[test]
fn a_session_that_is_over_frees_all_that_it_holds_and_ends_all_its_waits_at_one_moment() {
    let (mut story, id) = alice_keeps_three();
    story.queues(0, acquire(CAROL, "a").wait_ms(60_000));
    let happened = story.tick(1_000);
    assert_eq!(happened.leavings_of(ALICE), [(1_000, Cause::SessionExpired)]);
    let endings: Vec<_> = happened.endings_of(ALICE).iter().map(|(at, _, cause)| (*at, *cause)).collect();
    assert_eq!(endings, [(1_000, Cause::SessionExpired); 2]);
    assert_eq!((story.holder("a").as_deref(), story.holder("b")), (Some("carol"), None));
    assert_eq!(story.session(id), None);
    assert_eq!(story.tick(200_000).endings_of(ALICE), []);
}

#[test]
fn ending_a_session_frees_everything_in_one_entry_and_says_how_much_however_often() {
    let (mut story, id) = alice_keeps_three();
    story.queues(0, acquire(CAROL, "b").wait_ms(60_000));
    for at_ms in [500, 501, 40_000] {
        assert_eq!(
            story.leader_does(at_ms, end_session(ALICE, id)),
            Ok(Answer::SessionEnded { released: 2 })
        );
    }
    assert_eq!(story.so_far().leavings_of(ALICE), [(500, Cause::SessionEnded)]);
    assert_eq!(story.so_far().grant_to(CAROL).at_ms, 500);
    assert_eq!(story.holder("a"), None);
}

#[test]
fn nobody_waits_for_what_his_own_ended_session_has_freed() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(ALICE, "db").session(id));
    story.queues(0, acquire(ALICE, "db").session(id).token("another").wait_ms(60_000));
    story.queues(0, acquire(BOB, "db").wait_ms(60_000));
    story.leader_does(500, end_session(ALICE, id)).unwrap();
    assert_eq!(story.holder("db").as_deref(), Some("bob"));
    assert_eq!(story.table.last_fence(), 2);
}

/// The leader was silent: a lease and two sessions are over when it speaks again.
#[test]
fn a_waiter_whose_session_is_over_is_not_granted_what_was_free_before() {
    let mut story = Story::default();
    let (alice, carol) =
        (story.keeps(0, open_session(ALICE, 1_000)).id, story.keeps(0, open_session(CAROL, 900)).id);
    story.grants(0, acquire(BOB, "bobs").ttl_ms(500));
    story.grants(0, acquire(CAROL, "carols").session(carol));
    for lock in ["bobs", "carols"] {
        story.queues(0, acquire(ALICE, lock).session(alice).wait_ms(60_000));
        story.queues(0, acquire(DAVE, lock).wait_ms(60_000));
    }
    let happened = story.leap(1_500);
    assert_eq!(happened.leavings_of(ALICE), [(1_500, Cause::SessionExpired); 2]);
    story.tick(2_000);
    assert_eq!(story.so_far().grants().iter().filter(|(owner, _)| *owner == "alice").count(), 0);
    assert_eq!(
        (story.holder("bobs").as_deref(), story.holder("carols").as_deref()),
        (Some("dave"), Some("dave"))
    );
}

#[test]
fn the_same_token_finds_the_same_session_and_sets_its_time_again() {
    let mut story = Story::default();
    let first = story.keeps(0, open_session(ALICE, 1_000));
    let again = story.keeps(900, open_session(ALICE, 1_000));
    assert_eq!((again.id, again.expires_in_ms), (first.id, 1_000));
    assert_eq!(story.leader_does(900, open_session(ALICE, 2_000)), Err(Rejection::TokenConflict));
    let Op::OpenSession { key, ttl, .. } = open_session(ALICE, 1_000) else { panic!("it opens") };
    let other_owner = Op::OpenSession { key, owner: holdfast_core::Owner::default(), ttl };
    assert_eq!(story.leader_does(900, other_owner), Err(Rejection::TokenConflict));
    assert_ne!(story.keeps(900, open_session(BOB, 1_000)).id, first.id);
    // It is over at 1,900.
    assert_eq!(story.leader_does(1_900, open_session(ALICE, 1_000)), Err(Rejection::SessionExpired));
    let anew = story.keeps(1_900 + ENDING_KEPT_MS, open_session(ALICE, 1_000));
    assert_ne!(anew.id, first.id);
    assert_eq!(story.keeps(1_901 + ENDING_KEPT_MS, open_session(ALICE, 1_000)).id, anew.id);
}

#[test]
fn a_session_that_is_over_is_never_revived_and_known_for_as_long_as_an_attempt_is() {
    let (mut story, id) = alice_keeps_three();
    let until = 1_000 + ENDING_KEPT_MS;
    for at_ms in [1_000, until - 1] {
        assert_eq!(story.leader_does(at_ms, renew_session(ALICE, id)), Err(Rejection::SessionExpired));
        assert_eq!(story.leader_does(at_ms, end_session(ALICE, id)), Err(Rejection::SessionExpired));
        assert_eq!(story.refuses(at_ms, acquire(ALICE, "c").session(id)), Rejection::SessionExpired);
    }
    for op in [renew_session(ALICE, id), end_session(ALICE, id)] {
        assert_eq!(story.leader_does(until, op), Err(Rejection::SessionNotFound));
    }
    assert_eq!(story.refuses(until, acquire(ALICE, "c").session(id)), Rejection::SessionNotFound);
}

#[test]
fn only_the_token_of_a_session_uses_it_whether_it_lives_or_not() {
    let (mut story, id) = alice_keeps_three();
    for at_ms in [500, 1_500] {
        for op in [renew_session(BOB, id), end_session(BOB, id)] {
            assert_eq!(story.leader_does(at_ms, op), Err(Rejection::SessionNotYours));
        }
        let stolen = acquire(BOB, "c").session(id);
        assert_eq!(story.refuses(at_ms, stolen), Rejection::SessionNotYours);
    }
    let unknown = SessionRef { id: SessionId(9_999), key: session_key("alice") };
    assert_eq!(story.leader_does(1_500, Op::RenewSession(unknown)), Err(Rejection::SessionNotFound));
}

#[test]
fn a_repeated_acquire_in_a_session_finds_its_grant_or_its_place() {
    let (mut story, id) = alice_keeps_three();
    let first = story.grants(300, acquire(ALICE, "a").session(id));
    assert_eq!(first.expires_in_ms, 700);
    assert_eq!(story.queues(300, acquire(ALICE, "busy").session(id).wait_ms(60_000)), 1);
    assert_eq!(story.kept_by(id).0, ["a", "b"]);
    let other = story.keeps(300, open_session(CAROL, 30_000)).id;
    for lock in ["a", "busy"] {
        let elsewhere = acquire(ALICE, lock).session(other).session_token("carol").wait_ms(60_000);
        assert_eq!(story.refuses(300, elsewhere), Rejection::TokenConflict);
        assert_eq!(story.refuses(300, acquire(ALICE, lock).wait_ms(60_000)), Rejection::TokenConflict);
    }
    assert_eq!(
        story.refuses(300, acquire(BOB, "busy").session(id).session_token("alice")),
        Rejection::TokenConflict
    );
}

#[test]
fn a_hold_of_a_session_is_not_renewed_by_itself_and_is_released_by_itself() {
    let (mut story, id) = alice_keeps_three();
    let grant = story.renews(400, renew(ALICE, "a").ttl_ms(60_000));
    assert_eq!((grant.ttl.ms(), grant.expires_in_ms), (1_000, 600));
    assert_eq!(story.releases(500, release(ALICE, "a")), Some(grant.fence));
    assert_eq!(story.releases(500, release(ALICE, "busy")), None);
    assert_eq!(story.kept_by(id), (vec!["b".into()], vec![]));
    story.tick(1_000);
    assert_eq!(
        story.so_far().endings_of(ALICE).last().map(|(at, _, cause)| (*at, *cause)),
        Some((1_000, Cause::SessionExpired))
    );
}

#[test]
fn a_hold_that_its_session_took_along_ends_as_its_session_did() {
    let (mut story, _) = alice_keeps_three();
    story.tick(1_000);
    assert_eq!(story.refuses(1_000, renew(ALICE, "a")), Rejection::LeaseExpired);
    assert_eq!(story.refuses(1_000, release(ALICE, "a")), Rejection::LeaseExpired);
    let (mut story, id) = alice_keeps_three();
    story.leader_does(10, end_session(ALICE, id)).unwrap();
    assert_eq!(story.refuses(10, renew(ALICE, "a")), Rejection::LeaseReleased);
    assert!(story.releases(10, release(ALICE, "a")).is_some());
}

#[test]
fn a_wait_that_its_session_took_along_is_over_with_the_session() {
    let (mut story, id) = alice_keeps_three();
    story.leader_does(10, end_session(ALICE, id)).unwrap();
    assert_eq!(story.standing(&acquire(ALICE, "busy"), "busy"), Standing::Ended(Cause::SessionEnded));
    assert_eq!(story.refuses(10, acquire(ALICE, "busy").session(id)), Rejection::SessionExpired);
    assert_eq!(story.refuses(10, acquire(ALICE, "busy").wait_ms(1_000)), Rejection::SessionExpired);
    assert_eq!(story.refuses(10, release(ALICE, "busy")), Rejection::SessionExpired);
    assert_eq!(story.refuses(10, renew(ALICE, "busy")), Rejection::NotHolder);
}

#[test]
fn a_waiter_of_a_session_gets_the_lock_for_as_long_as_the_session_lives() {
    let (mut story, id) = alice_keeps_three();
    story.releases(300, release(BOB, "busy"));
    assert_eq!(story.kept_by(id), (vec!["a".into(), "b".into(), "busy".into()], vec![]));
    assert_eq!(story.grants(400, acquire(ALICE, "busy").session(id)).expires_in_ms, 600);
    assert_eq!(story.tick(1_000).endings_of(ALICE).len(), 3);
}

#[test]
fn a_grant_in_a_session_that_nobody_claims_goes_back_to_its_place_in_the_session() {
    let (mut story, id) = alice_keeps_three();
    story.releases(100, release(BOB, "busy"));
    let fence = story.lock("busy").holders[0].fence;
    story.kill(1);
    story.leader_does(200, unclaim("busy", fence)).unwrap();
    assert_eq!(story.kept_by(id), (vec!["a".into(), "b".into()], vec!["busy".into()]));
    assert_eq!(story.tick(1_000).leavings_of(ALICE), [(1_000, Cause::SessionExpired)]);
    assert_eq!(story.lock("busy").queue_length, 0);
}

#[test]
fn a_session_that_is_over_takes_along_a_grant_that_nobody_has_claimed_yet() {
    let ends: [fn(&mut Story, SessionId); 2] = [
        |story, _| drop(story.tick(1_000)),
        |story, id| drop(story.leader_does(1_000, end_session(ALICE, id))),
    ];
    for end in ends {
        let (mut story, id) = alice_keeps_three();
        story.queues(0, acquire(CAROL, "busy").wait_ms(60_000));
        story.releases(100, release(BOB, "busy"));
        assert_eq!(story.holder("busy").as_deref(), Some("alice"));
        let fence = story.lock("busy").holders[0].fence;
        end(&mut story, id);
        assert_eq!(story.holder("busy").as_deref(), Some("carol"));
        // The leader had made up its mind to take it back.
        assert_eq!(story.leader_does(1_001, unclaim("busy", fence)), Err(Rejection::NotHolder));
    }
}

#[test]
fn an_attempt_that_ends_in_any_way_leaves_nothing_in_its_session() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 600_000)).id;
    story.grants(0, acquire(BOB, "busy").ttl_ms(600_000));
    assert!(matches!(story.refuses(0, acquire(ALICE, "busy").session(id)), Rejection::Held { .. }));
    assert_eq!(story.kept_by(id), nothing());
    story.queues(0, acquire(ALICE, "busy").session(id).wait_ms(100).token("times out"));
    story.queues(0, acquire(ALICE, "busy").session(id).wait_ms(60_000).token("hangs up"));
    story.queues(0, acquire(ALICE, "busy").session(id).wait_ms(60_000).token("stops"));
    story.grants(0, acquire(ALICE, "free").session(id));
    story.abandons(50, abandon(ALICE, "busy").token("hangs up"));
    story.abandons(50, abandon(ALICE, "free"));
    assert!(matches!(
        story.refuses(50, acquire(ALICE, "busy").session(id).token("stops")),
        Rejection::Held { .. }
    ));
    story.tick(100);
    assert_eq!(story.kept_by(id), nothing());
    assert_eq!(story.leader_does(200, end_session(ALICE, id)), Ok(Answer::SessionEnded { released: 0 }));
}

#[test]
fn a_session_keeps_shares_and_permits_as_it_keeps_whole_locks() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(ALICE, "db").shared().session(id));
    story.grants(0, acquire(BOB, "db").shared().ttl_ms(60_000));
    story.grants(0, acquire(ALICE, "pool").permits(2, 3).session(id));
    story.queues(0, acquire(CAROL, "pool").permits(3, 3).wait_ms(60_000));
    assert_eq!(story.refuses(0, acquire(ALICE, "pool").permits(1, 3).session(id)), Rejection::TokenConflict);
    story.tick(1_000);
    assert_eq!((story.holders("db"), story.holders("pool")), (vec!["bob".into()], vec!["carol".into()]));
}

#[test]
fn a_full_session_takes_nothing_more_and_ends_as_a_whole() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 30_000)).id;
    for n in 0..SESSION_LEN_MAX {
        story.grants(0, acquire(ALICE, &format!("lock {n}")).session(id));
    }
    assert_eq!(story.refuses(0, acquire(ALICE, "one more").session(id)), Rejection::SessionFull);
    story.grants(0, acquire(ALICE, "lock 7").session(id));
    story.releases(1, release(ALICE, "lock 7"));
    story.grants(1, acquire(ALICE, "one more").session(id));
    let released = SESSION_LEN_MAX as u64;
    assert_eq!(story.leader_does(2, end_session(ALICE, id)), Ok(Answer::SessionEnded { released }));
    assert_eq!(story.table.counts(), (0, 0));
}

#[test]
fn sessions_are_listed_in_the_order_in_which_they_were_opened() {
    let (mut story, alice) = alice_keeps_three();
    let bob = story.keeps(10, open_session(BOB, 60_000)).id;
    let carol = story.keeps(10, open_session(CAROL, 60_000)).id;
    let page = story.table.list_sessions(None, 2, story.table.now());
    assert_eq!(page.sessions.iter().map(|session| session.id).collect::<Vec<_>>(), [alice, bob]);
    assert_eq!((page.sessions[0].held, page.sessions[0].waiting), (2, 1));
    assert_eq!((page.next, page.sessions[0].expires_in_ms), (Some(bob), 990));
    let page = story.table.list_sessions(page.next, 2, story.table.now());
    assert_eq!((page.sessions[0].id, page.sessions.len(), page.next), (carol, 1, None));
    story.leader_does(20, end_session(BOB, bob)).unwrap();
    assert_eq!(story.table.sessions_len(), 2);
}
