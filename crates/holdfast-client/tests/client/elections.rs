//! Campaigns, leads, hand-overs and observers.

use std::time::Duration;

use holdfast_client::api::ErrorCode;
use holdfast_client::{AcquireError, HandOverError, Leadership, LossReason, OBSERVE_EVERY, Standing};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, agree, handed_over, problem};
use crate::{LONG, agreeing, client};

async fn leads(fake: &Fake, ttl: Duration) -> Leadership {
    client(&[fake]).election("db").owner("tester").ttl(ttl).campaign(json!("http://me/")).await.unwrap()
}

/// Whatever the script says to one kind of call; everything else is agreed to.
async fn answering(action: &'static str, reply: Reply) -> Fake {
    let ttl_ms = u64::try_from(LONG.as_millis()).unwrap();
    Fake::start(move |seen| if seen.action == action { reply.clone() } else { agree(seen, ttl_ms) }).await
}

#[tokio::test]
async fn a_campaign_waits_says_its_value_and_keeps_the_lead() {
    let fake = agreeing(Duration::from_millis(900)).await;
    let mut lead = leads(&fake, Duration::from_millis(900)).await;
    let asked = &fake.seen("campaign")[0];
    assert_eq!((asked.path.as_str(), asked.wait_ms()), ("/v1/elections/db/campaign", 600_000));
    assert_eq!((&asked.body["value"], asked.body.get("metadata")), (&json!("http://me/"), None));
    assert_eq!((lead.fence(), lead.owner(), lead.token().expose()), (7, "tester", asked.token()));
    fake.until_seen("renew", 2).await;
    assert!(lead.is_held());
    lead.resign().await.unwrap();
    assert_eq!(lead.standing(), Standing::Released);
}

#[tokio::test]
async fn a_campaign_without_a_wait_is_told_that_somebody_leads() {
    let fake = answering("campaign", problem(409, "held")).await;
    let election = client(&[&fake]).election("db").wait(Duration::ZERO);
    assert!(matches!(election.campaign(Value::Null).await, Err(AcquireError::Busy { .. })));
    let asked = &fake.seen("campaign")[0];
    assert_eq!((asked.wait_ms(), asked.body.get("value")), (0, None));
}

#[tokio::test]
async fn a_campaign_that_is_stopped_gives_its_place_back() {
    let fake = answering("campaign", Reply::Hang).await;
    let election = client(&[&fake]).election("db");
    let stopped = election.campaign_until(Value::Null, fake.until_seen("campaign", 1)).await;
    assert_eq!(stopped.err(), Some(AcquireError::Stopped));
    assert_eq!(fake.seen("release")[0].token(), fake.seen("campaign")[0].token());
}

#[tokio::test]
async fn a_proclamation_is_repeated_until_it_is_answered() {
    let first = answering("proclaim", problem(504, "unknown_outcome")).await;
    let second = agreeing(LONG).await;
    let client = client(&[&first, &second]);
    let mut lead = client.election("db").ttl(LONG).campaign(Value::Null).await.unwrap();
    lead.proclaim(&json!([1])).await.unwrap();
    for fake in [&first, &second] {
        let asked = &fake.seen("proclaim")[0];
        assert_eq!((asked.token(), &asked.body["value"]), (lead.token().expose(), &json!([1])));
    }
    lead.resign().await.unwrap();
}

#[tokio::test]
async fn a_proclamation_that_finds_the_lead_over_loses_it() {
    let fake = answering("proclaim", problem(409, "lease_expired")).await;
    let lead = leads(&fake, LONG).await;
    assert!(lead.proclaim(&json!(1)).await.unwrap_err().is_refused_with(ErrorCode::LeaseExpired));
    assert_eq!(lead.lost().await, Some(LossReason::Expired));
}

#[tokio::test]
async fn after_a_hand_over_nothing_is_held_and_nothing_was_lost() {
    let fake = agreeing(LONG).await;
    let mut lead = leads(&fake, LONG).await;
    let lost = lead.lost();
    lead.hand_over("other").await.unwrap();
    assert_eq!(fake.seen("hand-over")[0].body["to"], "other");
    assert_eq!((lost.await, lead.is_held()), (None, false));
    assert_eq!(lead.hand_over("other").await, Err(HandOverError::Lost(LossReason::Released)));
    lead.resign().await.unwrap();
    assert!(fake.seen("release").is_empty(), "there is nothing to give back");
}

/// A renewal would be told of the hand-over before the leader is, and take it for a loss.
#[tokio::test]
async fn renewals_rest_while_a_hand_over_is_under_way() {
    let ttl = Duration::from_millis(1_500);
    let fake = agreeing(ttl).await;
    let mut lead = leads(&fake, ttl).await;
    let lost = lead.lost();
    fake.now(move |seen| match seen.action.as_str() {
        "hand-over" => handed_over(seen, 7).later(ttl / 2),
        _ => problem(409, "lease_released"),
    });
    lead.hand_over("other").await.unwrap();
    assert!(fake.seen("renew").iter().all(|renewal| renewal.at < fake.seen("hand-over")[0].at));
    assert_eq!(lost.await, None);
}

#[tokio::test]
async fn without_the_candidate_the_leader_goes_on_leading_and_renewing() {
    let fake = answering("hand-over", problem(409, "no_such_candidate")).await;
    let mut lead = leads(&fake, LONG).await;
    assert_eq!(lead.hand_over("other").await, Err(HandOverError::NoSuchCandidate));
    assert!(lead.is_held());
    fake.until_seen("renew", 1).await;
    lead.resign().await.unwrap();
}

#[tokio::test]
async fn a_hand_over_that_nobody_answers_ends_with_the_lead() {
    let ttl = Duration::from_secs(1);
    let fake = answering("hand-over", Reply::Hang).await;
    let mut lead = leads(&fake, ttl).await;
    assert!(matches!(lead.hand_over("other").await, Err(HandOverError::NotConfirmed(_))));
    assert_eq!(lead.standing(), Standing::Lost(LossReason::Deadline));
}

fn look(leader: &Value) -> Reply {
    let look = json!({"name": "db", "leader": leader, "candidates": [], "candidate_count": 0, "seq": 1});
    Reply::Body(200, look.to_string())
}

#[tokio::test]
async fn an_observer_tells_each_change_of_leader_and_value_once() {
    let leader = |fence: u64, value: u64, left: u64| {
        look(&json!({"owner": "a", "fence": fence, "value": value, "expires_in_ms": left}))
    };
    let fake = Fake::replying([
        look(&Value::Null),
        leader(1, 1, 900),
        leader(1, 1, 800),
        leader(1, 2, 700),
        look(&Value::Null),
        leader(2, 2, 900),
    ])
    .await;
    let election = client(&[&fake]).election("db");
    let mut observer = election.observe();
    let mut told = Vec::new();
    while told.len() < 5 {
        told.push(observer.next().await.unwrap().map(|leader| (leader.fence, leader.value)));
    }
    assert_eq!(told, [None, Some((1, json!(1))), Some((1, json!(2))), None, Some((2, json!(2)))]);
    assert_eq!(election.leader().await.unwrap().unwrap().owner, "a");
    let looks = fake.all();
    assert!(looks[..6].windows(2).all(|pair| pair[1].at - pair[0].at > OBSERVE_EVERY / 2));
}

#[tokio::test]
async fn an_observer_goes_on_after_an_error() {
    let fake = Fake::replying([problem(400, "invalid_argument"), look(&Value::Null)]).await;
    let mut observer = client(&[&fake]).election("db").observe();
    assert!(observer.next().await.unwrap_err().is_refused_with(ErrorCode::InvalidArgument));
    assert_eq!(observer.next().await.unwrap(), None);
}
