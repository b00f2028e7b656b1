//! Leaders that say who they are, and choose their successor.

use holdfast_core::{Answer, Cause, Happening, Rejection, Standing};

use crate::deed::{
    ALICE, BOB, CAROL, DAVE, Deed, Person, abandon, acquire, hand_over, proclaim, release, renew, unclaim,
};
use crate::story::Story;

fn campaign(who: Person) -> Deed {
    acquire(who, "job").ttl_ms(600_000).wait_ms(60_000)
}

/// Alice leads; Bob at node 2 and then Carol at node 3 campaign, for a minute.
fn alice_leads() -> Story {
    let mut story = Story::default();
    story.grants(0, campaign(ALICE));
    story.queues(0, campaign(BOB));
    story.queues(0, campaign(CAROL));
    story
}

fn value(story: &Story) -> String {
    story.lock("job").holders[0].metadata.as_json().to_owned()
}

#[test]
fn a_leader_proclaims_a_new_value_and_watchers_are_told_once() {
    let mut story = alice_leads();
    let grant = story.grants(100, proclaim(ALICE, "job", "\"http://a/\""));
    assert_eq!((grant.metadata.as_json(), grant.expires_in_ms), ("\"http://a/\"", 599_900));
    let (_, event) = story.so_far().0.last().unwrap().clone();
    assert_eq!(event.what, Happening::Changed { fence: grant.fence, metadata: grant.metadata.clone() });
    let seq = story.table.seq();
    assert_eq!(story.grants(200, proclaim(ALICE, "job", "\"http://a/\"")).metadata, grant.metadata);
    assert_eq!((story.table.seq(), value(&story)), (seq, "\"http://a/\"".into()));
}

#[test]
fn a_campaign_may_be_repeated_with_the_value_it_asked_for_or_the_one_in_force() {
    let mut story = Story::default();
    story.grants(0, campaign(ALICE).metadata("1"));
    story.grants(1, proclaim(ALICE, "job", "2"));
    story.grants(2, proclaim(ALICE, "job", "3"));
    for known in ["1", "3"] {
        assert_eq!(story.grants(3, campaign(ALICE).metadata(known)).metadata.as_json(), "3");
    }
    assert_eq!(story.refuses(3, campaign(ALICE).metadata("2")), Rejection::TokenConflict);
    story.grants(4, proclaim(ALICE, "job", "1"));
    assert_eq!(story.refuses(5, campaign(ALICE).metadata("3")), Rejection::TokenConflict);
}

#[test]
fn a_waiting_campaign_keeps_its_value() {
    let mut story = alice_leads();
    assert_eq!(story.refuses(1, campaign(BOB).metadata("1")), Rejection::TokenConflict);
    assert_eq!(story.refuses(1, proclaim(BOB, "job", "1")), Rejection::NotHolder);
    assert_eq!(story.queues(1, campaign(BOB)), 1);
}

#[test]
fn only_the_token_that_leads_proclaims_and_hands_over() {
    let mut story = alice_leads();
    for deed in [proclaim(ALICE, "job", "1"), hand_over(ALICE, "job", "bob")] {
        assert_eq!(story.refuses(1, deed.token("another")), Rejection::NotHolder);
    }
    assert_eq!(story.refuses(1, hand_over(BOB, "job", "carol")), Rejection::NotHolder);
    story.releases(2, release(ALICE, "job"));
    for deed in [proclaim(ALICE, "job", "1"), hand_over(ALICE, "job", "carol")] {
        assert_eq!(story.refuses(3, deed), Rejection::LeaseReleased);
    }
    assert_eq!((story.holder("job").as_deref(), value(&story).as_str()), (Some("bob"), "{}"));
}

#[test]
fn a_hand_over_goes_past_those_who_wait_in_front_and_they_keep_their_places() {
    let mut story = alice_leads();
    let alice = story.lock("job").holders[0].fence;
    assert_eq!(story.releases(500, hand_over(ALICE, "job", "carol")), Some(alice));
    let carol = story.so_far().grant_to(CAROL);
    assert!(carol.fence > alice && carol.at_ms == 500);
    assert_eq!((story.holder("job").as_deref(), story.queue("job")), (Some("carol"), vec!["bob".into()]));
    assert_eq!(story.so_far().endings_of(ALICE), [(500, alice, Cause::HandedOver)]);
    assert_eq!(story.lock("job").holders[0].expires_in_ms, 600_000);
}

#[test]
fn the_first_of_several_attempts_of_the_named_owner_leads() {
    let mut story = alice_leads();
    story.queues(1, campaign(CAROL).token("carol again"));
    story.releases(2, hand_over(ALICE, "job", "carol"));
    assert_eq!(story.queue("job"), ["bob", "carol"]);
    assert!(matches!(story.standing(&campaign(CAROL), "job"), Standing::Held(_)));
}

#[test]
fn a_repeated_hand_over_is_the_same_success_and_the_old_leader_is_told_what_it_did() {
    let mut story = alice_leads();
    let fence = story.releases(1, hand_over(ALICE, "job", "carol"));
    let seq = story.table.seq();
    assert_eq!(story.releases(2, hand_over(ALICE, "job", "carol")), fence);
    assert_eq!(story.releases(2, release(ALICE, "job")), fence);
    for deed in
        [hand_over(ALICE, "job", "bob"), renew(ALICE, "job"), proclaim(ALICE, "job", "1"), campaign(ALICE)]
    {
        assert_eq!(story.refuses(3, deed), Rejection::HandedOver);
    }
    assert_eq!((story.table.seq(), story.holder("job").as_deref()), (seq, Some("carol")));
}

#[test]
fn without_a_candidate_of_that_name_the_leader_goes_on_leading() {
    let mut story = alice_leads();
    for to in ["nobody", "alice", "Bob"] {
        assert_eq!(story.refuses(1, hand_over(ALICE, "job", to)), Rejection::NoSuchCandidate);
    }
    assert_eq!(story.holder("job").as_deref(), Some("alice"));
    story.renews(2, renew(ALICE, "job"));
}

#[test]
fn a_candidate_whose_wait_is_over_that_moment_is_none() {
    for (at_ms, leads) in [(59_999, "bob"), (60_000, "alice")] {
        let mut story = alice_leads();
        drop(story.does(at_ms, &hand_over(ALICE, "job", "bob")));
        assert_eq!(story.holder("job").as_deref(), Some(leads), "at {at_ms} ms");
        story.tick(61_000);
        assert_eq!(story.holder("job").as_deref(), Some(leads), "its wait does not end its lead");
    }
}

#[test]
fn a_candidate_that_has_hung_up_or_whose_node_is_dead_is_none() {
    let mut story = alice_leads();
    story.abandons(10, abandon(CAROL, "job"));
    assert_eq!(story.refuses(11, hand_over(ALICE, "job", "carol")), Rejection::NoSuchCandidate);
    story.kill(2);
    story.tick(2_500);
    assert_eq!(story.refuses(2_501, hand_over(ALICE, "job", "bob")), Rejection::NoSuchCandidate);
    assert_eq!(story.holder("job").as_deref(), Some("alice"));
}

#[test]
fn a_lead_that_the_candidates_node_does_not_claim_goes_to_the_first_who_waits() {
    let mut story = alice_leads();
    story.queues(0, campaign(DAVE));
    story.releases(100, hand_over(ALICE, "job", "carol"));
    let fence = story.so_far().grant_to(CAROL).fence;
    story.kill(3);
    story.leader_does(600, unclaim("job", fence)).unwrap();
    assert_eq!(story.holder("job").as_deref(), Some("bob"));
    story.reconnect(3);
    story.tick(3_000);
    assert_eq!(story.queue("job"), ["carol", "dave"], "it is back at its place");
    assert_eq!(
        story.releases(3_000, hand_over(BOB, "job", "carol")),
        Some(story.so_far().grant_to(BOB).fence)
    );
}

/// The grant that nobody has claimed yet is no excuse: whoever says so has been told.
#[test]
fn a_leader_that_has_just_been_granted_may_hand_over_at_once() {
    let mut story = alice_leads();
    story.releases(1, hand_over(ALICE, "job", "carol"));
    let fence = story.so_far().grant_to(CAROL).fence;
    story.grants(2, proclaim(CAROL, "job", "1"));
    assert_eq!(story.leader_does(2, unclaim("job", fence)), Err(Rejection::NotHolder));
    story.releases(3, hand_over(CAROL, "job", "bob"));
    assert_eq!(story.holder("job").as_deref(), Some("bob"));
}

#[test]
fn in_one_entry_a_hand_over_and_a_resignation_leave_one_leader() {
    let mut story = alice_leads();
    let outcomes = story.do_together(5, &[hand_over(ALICE, "job", "carol"), release(ALICE, "job")]);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Answer::Released { fence: Some(_) }))));
    assert_eq!(story.holder("job").as_deref(), Some("carol"));
    let mut story = alice_leads();
    let outcomes = story.do_together(5, &[release(ALICE, "job"), hand_over(ALICE, "job", "carol")]);
    assert_eq!(outcomes[1], Err(Rejection::LeaseReleased));
    assert_eq!(story.holder("job").as_deref(), Some("bob"));
}

#[test]
fn readers_and_holders_of_permits_have_no_lead_to_hand_over() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "job").shared());
    story.queues(0, campaign(BOB));
    assert_eq!(story.refuses(1, hand_over(ALICE, "job", "bob")), Rejection::NoSuchCandidate);
    let mut story = Story::default();
    story.grants(0, campaign(ALICE));
    story.queues(0, acquire(BOB, "job").shared().wait_ms(60_000));
    assert_eq!(story.refuses(1, hand_over(ALICE, "job", "bob")), Rejection::NoSuchCandidate);
}
