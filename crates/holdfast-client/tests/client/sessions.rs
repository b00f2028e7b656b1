//! A session keeps itself and its locks, and its loss is theirs.

use std::time::Duration;

use holdfast_client::api::ErrorCode;
use holdfast_client::{AcquireError, Client, HandOverError, LossReason, ReleaseError, Session, Standing};
use serde_json::json;

use crate::fake::{Fake, Reply, Seen, agree, problem, released};
use crate::{LONG, SHORT, client};

/// Opens, renews and ends session 17, and agrees to everything else.
fn keep(seen: &Seen, ttl: Duration) -> Reply {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    let session = json!({
        "id": "17", "owner": "tester", "token": seen.token(), "ttl_ms": ttl_ms, "expires_in_ms": ttl_ms,
    });
    match (seen.path.starts_with("/v1/sessions"), seen.action.as_str()) {
        (true, "end") => Reply::Body(200, json!({"id": "17", "ended": true, "released": 2}).to_string()),
        (true, _) => Reply::Body(200, session.to_string()),
        _ => agree(seen, ttl_ms),
    }
}

async fn keeping(ttl: Duration) -> Fake {
    Fake::start(move |seen| keep(seen, ttl)).await
}

async fn open(client: &Client, ttl: Duration) -> Session {
    client.session().ttl(ttl).owner("tester").open().await.unwrap()
}

#[tokio::test]
async fn one_renewal_keeps_all_locks_of_a_session() {
    let ttl = Duration::from_secs(2);
    let fake = keeping(ttl).await;
    let client = client(&[&fake]);
    let mut session = open(&client, ttl).await;
    let mut first = client.lock("a").session(&session).acquire().await.unwrap();
    let second = client.lock("b").session(&session).acquire().await.unwrap();
    fake.until_seen("renew", 4).await; // Longer than one TTL.
    assert!(first.is_held() && second.is_held());
    assert!(fake.seen("renew").iter().all(|seen| seen.path == "/v1/sessions/17/renew"));
    let acquire = &fake.seen("acquire")[0].body;
    assert_eq!(
        (&acquire["session"], &acquire["session_token"]),
        (&json!("17"), &json!(session.token().expose()))
    );
    assert_eq!(acquire["ttl_ms"], json!(null));
    first.release().await.unwrap();
    assert_eq!(session.end().await.unwrap(), 2);
    assert_eq!((second.lost().await, session.lost().await), (Some(LossReason::Session), None));
    assert_eq!(first.standing(), Standing::Released);
}

#[tokio::test]
async fn a_session_that_the_service_says_is_over_is_lost_with_all_its_locks_at_once() {
    for (status, code, reason) in [
        (409, "session_expired", LossReason::Expired),
        (404, "session_not_found", LossReason::NotHolder),
        (409, "session_not_yours", LossReason::NotHolder),
    ] {
        let ttl = Duration::from_secs(3);
        let fake = Fake::start(move |seen| match seen.action.as_str() {
            "renew" => problem(status, code),
            _ => keep(seen, ttl),
        })
        .await;
        let client = client(&[&fake]);
        let session = open(&client, ttl).await;
        let guard = client.lock("a").session(&session).acquire().await.unwrap();
        assert_eq!((session.lost().await, guard.lost().await), (Some(reason), Some(LossReason::Session)));
        assert!(!session.is_alive() && !guard.is_held());
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_lost_with_all_its_locks_before_it_is_over() {
    let fake = keeping(SHORT).await;
    let client = client(&[&fake]);
    let session = open(&client, SHORT).await;
    let guard = client.lock("a").session(&session).acquire().await.unwrap();
    fake.until_seen("renew", 1).await;
    fake.now(|_| Reply::Hang);
    let last_good = fake.all().last().unwrap().at;
    assert_eq!(guard.lost().await, Some(LossReason::Session));
    assert_eq!(session.standing(), Standing::Lost(LossReason::Deadline));
    assert!(last_good.elapsed() < SHORT, "told after {:?}", last_good.elapsed());
}

#[tokio::test]
async fn a_dropped_session_is_ended() {
    let fake = keeping(LONG).await;
    let client = client(&[&fake]);
    let session = open(&client, LONG).await;
    let (guard, token) =
        (client.lock("a").session(&session).acquire().await.unwrap(), session.token().clone());
    drop(session);
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, Some(LossReason::Session));
    fake.until_seen("end", 1).await;
    assert_eq!(fake.seen("end")[0].token(), token.expose());
}

#[tokio::test]
async fn an_end_that_is_not_confirmed_may_be_asked_for_again() {
    let fake = keeping(LONG).await;
    let client = Client::builder().endpoints([fake.url()]).timeout(SHORT).build().unwrap();
    let mut session = open(&client, LONG).await;
    fake.now(|_| problem(503, "no_leader"));
    assert!(session.end().await.is_err());
    assert!(session.is_alive());
    fake.now(|seen| keep(seen, LONG));
    assert_eq!(session.end().await.unwrap(), 2);
    assert_eq!(session.standing(), Standing::Released);
}

#[tokio::test]
async fn an_acquire_in_a_session_that_is_over_says_so_and_the_session_learns_of_it() {
    let fake = keeping(LONG).await;
    let client = client(&[&fake]);
    let session = open(&client, LONG).await;
    let guard = client.lock("a").session(&session).acquire().await.unwrap();
    fake.now(|_| problem(409, "session_expired"));
    let refused = client.lock("b").session(&session).acquire().await.unwrap_err();
    assert_eq!(refused, AcquireError::SessionOver);
    assert_eq!(session.lost().await, Some(LossReason::Expired));
    assert_eq!(guard.lost().await, Some(LossReason::Session));
    assert!(fake.seen("end").is_empty());
}

#[tokio::test]
async fn a_grant_that_comes_when_the_session_is_lost_is_given_back() {
    let fake = keeping(SHORT).await;
    let client = client(&[&fake]);
    let session = open(&client, SHORT).await;
    fake.now(|seen| match seen.action.as_str() {
        "acquire" => agree(seen, 30_000).later(2 * SHORT),
        "release" => released(7),
        _ => Reply::Hang,
    });
    let lock = client.lock("a").wait(LONG).session(&session);
    assert_eq!(lock.acquire().await.unwrap_err(), AcquireError::Lost(LossReason::Session));
    fake.until_seen("release", 1).await;
    assert_eq!(fake.seen("release")[0].token(), fake.seen("acquire")[0].token());
}

#[tokio::test]
async fn a_lead_in_a_session_is_renewed_by_the_session_alone_also_after_a_hand_over_that_failed() {
    let ttl = Duration::from_secs(2);
    let fake = Fake::start(move |seen| match seen.action.as_str() {
        "hand-over" => problem(409, "no_such_candidate"),
        _ => keep(seen, ttl),
    })
    .await;
    let client = client(&[&fake]);
    let mut session = open(&client, ttl).await;
    let mut lead = client.election("db").session(&session).campaign(json!("http://me/")).await.unwrap();
    let campaign = &fake.seen("campaign")[0].body;
    assert_eq!(
        (&campaign["session"], &campaign["session_token"], campaign.get("ttl_ms")),
        (&json!("17"), &json!(session.token().expose()), None)
    );
    assert_eq!(lead.hand_over("nobody").await, Err(HandOverError::NoSuchCandidate));
    fake.until_seen("renew", 4).await; // Longer than one TTL.
    assert!(lead.is_held());
    assert!(fake.seen("renew").iter().all(|seen| seen.path == "/v1/sessions/17/renew"));
    session.end().await.unwrap();
    assert_eq!(lead.lost().await, Some(LossReason::Session));
    assert_eq!(lead.resign().await, Err(ReleaseError::Lost(LossReason::Session)));
}

#[tokio::test]
async fn many_locks_at_once_are_kept_by_no_session() {
    let fake = keeping(LONG).await;
    let client = client(&[&fake]);
    let session = open(&client, LONG).await;
    let refused = client.lock_many(["a", "b"]).session(&session).acquire().await.unwrap_err();
    let AcquireError::Refused(refusal) = refused else { panic!("not refused: {refused:?}") };
    assert_eq!(refusal.code, Some(ErrorCode::InvalidArgument));
    assert!(fake.seen("acquire").is_empty());
}
