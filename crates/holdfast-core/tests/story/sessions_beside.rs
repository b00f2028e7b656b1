//! Sessions beside the other ways of holding: leads, and many locks at once.

use holdfast_core::{Answer, Cause, LockName, Rejection, SessionId};

use crate::deed::{
    ALICE, BOB, CAROL, DAVE, Deed, Person, acquire, end_session, hand_over, open_session, proclaim, release,
    renew_session, unclaim,
};
use crate::many_deed::acquire_many;
use crate::story::Story;

const WAIT_MS: u64 = 60_000;

fn campaign(who: Person) -> Deed {
    acquire(who, "job").ttl_ms(600_000).wait_ms(WAIT_MS)
}

/// Alice leads. Carol campaigns, and then Bob at node 2, in a session of 1 s.
fn bob_campaigns_in_a_session() -> (Story, SessionId) {
    let mut story = Story::default();
    story.grants(0, campaign(ALICE));
    story.queues(0, campaign(CAROL));
    let id = story.keeps(0, open_session(BOB, 1_000)).id;
    story.queues(0, campaign(BOB).session(id));
    (story, id)
}

fn jobs(count: usize) -> Vec<String> {
    vec!["job".into(); count]
}

#[test]
fn a_lead_that_is_handed_to_a_candidate_of_a_session_lives_as_long_as_the_session() {
    let (mut story, id) = bob_campaigns_in_a_session();
    story.releases(400, hand_over(ALICE, "job", "bob"));
    assert_eq!(story.kept_by(id), (jobs(1), jobs(0)));
    let holder = &story.lock("job").holders[0];
    assert_eq!((holder.session, holder.expires_in_ms), (Some(id), 600));
    assert_eq!(story.keeps(900, renew_session(BOB, id)).expires_in_ms, 1_000);
    story.tick(1_900);
    let bob: Vec<_> = story.so_far().endings_of(BOB).iter().map(|(at, _, cause)| (*at, *cause)).collect();
    assert_eq!(bob, [(1_900, Cause::SessionExpired)]);
    assert_eq!(story.holder("job").as_deref(), Some("carol"));
}

#[test]
fn a_lead_that_a_session_kept_has_left_it_once_it_is_handed_over() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    let alice = story.grants(0, campaign(ALICE).session(id)).fence;
    story.queues(0, campaign(BOB));
    for at_ms in [500, 501] {
        assert_eq!(story.releases(at_ms, hand_over(ALICE, "job", "bob")), Some(alice));
    }
    assert_eq!(story.kept_by(id), (jobs(0), jobs(0)));
    assert_eq!(story.leader_does(600, end_session(ALICE, id)), Ok(Answer::SessionEnded { released: 0 }));
    assert_eq!(story.holder("job").as_deref(), Some("bob"));
    assert_eq!(story.releases(700, hand_over(ALICE, "job", "bob")), Some(alice));
    assert_eq!(story.refuses(700, campaign(ALICE).session(id)), Rejection::SessionExpired);
    assert_eq!(story.refuses(700, campaign(ALICE)), Rejection::HandedOver);
}

#[test]
fn a_session_that_ends_takes_along_a_lead_that_was_handed_to_it_and_that_nobody_has_claimed() {
    let (mut story, id) = bob_campaigns_in_a_session();
    story.kill(2);
    let alice = story.releases(100, hand_over(ALICE, "job", "bob"));
    let fence = story.so_far().grant_to(BOB).fence;
    assert_eq!(story.leader_does(200, end_session(BOB, id)), Ok(Answer::SessionEnded { released: 1 }));
    assert_eq!(story.holder("job").as_deref(), Some("carol"));
    // The leader had made up its mind to take it back.
    assert_eq!(story.leader_does(201, unclaim("job", fence)), Err(Rejection::NotHolder));
    assert_eq!(story.releases(202, hand_over(ALICE, "job", "bob")), alice);
}

#[test]
fn a_lead_that_was_handed_to_a_session_and_that_nobody_claims_goes_back_to_its_place_in_the_session() {
    let (mut story, id) = bob_campaigns_in_a_session();
    story.kill(2);
    story.releases(100, hand_over(ALICE, "job", "bob"));
    let fence = story.so_far().grant_to(BOB).fence;
    story.leader_does(600, unclaim("job", fence)).unwrap();
    assert_eq!((story.holder("job").as_deref(), story.kept_by(id)), (Some("carol"), (jobs(0), jobs(1))));
    assert_eq!(story.tick(1_000).leavings_of(BOB), [(1_000, Cause::SessionExpired)]);
}

/// The leader was silent: the session is over in the same entry in which the lead is handed over.
#[test]
fn nobody_hands_over_to_a_candidate_whose_session_is_over() {
    let (mut story, _) = bob_campaigns_in_a_session();
    story.leap(1_000);
    assert_eq!(story.refuses(1_000, hand_over(ALICE, "job", "bob")), Rejection::NoSuchCandidate);
    assert_eq!(story.holder("job").as_deref(), Some("alice"));
}

#[test]
fn a_leader_in_a_session_proclaims_and_its_session_goes_on_as_before() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, campaign(ALICE).metadata("1").session(id));
    let grant = story.grants(300, proclaim(ALICE, "job", "2"));
    assert_eq!((grant.metadata.as_json(), grant.ttl.ms(), grant.expires_in_ms), ("2", 1_000, 700));
    for known in ["1", "2"] {
        let again = story.grants(400, campaign(ALICE).metadata(known).session(id));
        assert_eq!((again.metadata.as_json(), again.expires_in_ms), ("2", 600));
    }
    assert_eq!(story.tick(1_000).endings_of(ALICE).len(), 1);
    assert_eq!(story.refuses(1_000, proclaim(ALICE, "job", "3")), Rejection::LeaseExpired);
}

#[test]
fn the_end_of_a_session_lets_one_in_who_waits_for_all_that_it_held() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(ALICE, "plain").session(id));
    story.grants(0, acquire(ALICE, "pool").permits(2, 3).session(id));
    story.grants(0, acquire(ALICE, "shared").shared().session(id));
    let waits = acquire_many(BOB, &["shared", "pool", "plain"]).permits_of("pool", 2, 3).wait_ms(WAIT_MS);
    assert!(matches!(story.does_many(0, &waits), Ok(Answer::Queued { place: 1 })));
    story.queues(0, acquire(CAROL, "plain").wait_ms(WAIT_MS));
    let happened = story.tick(1_000);
    assert_eq!(happened.grants(), [("bob", "shared"), ("bob", "pool"), ("bob", "plain")]);
    assert_eq!((story.holder("plain").as_deref(), story.queue("plain")), (Some("bob"), vec!["carol".into()]));
}

#[test]
fn the_end_of_a_session_lets_one_in_who_waits_for_many_behind_it() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(DAVE, "a").shared());
    story.queues(0, acquire(ALICE, "a").session(id).wait_ms(WAIT_MS));
    let waits = acquire_many(BOB, &["b", "a"]).shared().wait_ms(WAIT_MS);
    assert!(matches!(story.does_many(0, &waits), Ok(Answer::Queued { place: 2 })));
    story.leader_does(500, end_session(ALICE, id)).unwrap();
    assert_eq!(story.holders("a"), ["dave", "bob"]);
    assert_eq!(story.holders("b"), ["bob"]);
}

#[test]
fn who_waits_for_many_behind_two_sessions_is_let_in_by_the_end_of_the_last() {
    let mut story = Story::default();
    let alice = story.keeps(0, open_session(ALICE, 1_000)).id;
    let carol = story.keeps(0, open_session(CAROL, 2_000)).id;
    story.grants(0, acquire(ALICE, "a").session(alice));
    story.grants(0, acquire(CAROL, "b").session(carol));
    let waits = acquire_many(BOB, &["a", "b"]).wait_ms(WAIT_MS);
    assert!(matches!(story.does_many(0, &waits), Ok(Answer::Queued { .. })));
    story.tick(1_000);
    assert_eq!((story.holder("a"), story.queue("a")), (None, vec!["bob".to_owned()]));
    story.tick(2_000);
    assert_eq!((story.holder("a").as_deref(), story.holder("b").as_deref()), (Some("bob"), Some("bob")));
    assert_eq!(story.so_far().grants().len(), 4);
}

#[test]
fn a_token_whose_wait_ended_with_its_session_takes_no_many_locks() {
    let mut story = Story::default();
    let id = story.keeps(0, open_session(ALICE, 1_000)).id;
    story.grants(0, acquire(BOB, "busy").ttl_ms(600_000));
    story.queues(0, acquire(ALICE, "busy").session(id).wait_ms(WAIT_MS));
    let many = acquire_many(ALICE, &["free", "busy"]).wait_ms(WAIT_MS);
    let at_busy = |why| Err(Rejection::Of { lock: name_of("busy"), why: Box::new(why) });
    assert_eq!(story.does_many(500, &many), at_busy(Rejection::TokenConflict));
    story.leader_does(600, end_session(ALICE, id)).unwrap();
    assert_eq!(story.does_many(700, &many), at_busy(Rejection::SessionExpired));
    assert_eq!(story.holder("free"), None);
    story.releases(800, release(BOB, "busy"));
}

fn name_of(lock: &str) -> LockName {
    LockName::new(lock).unwrap()
}
