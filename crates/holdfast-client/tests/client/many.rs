//! Many locks under one guard.

use std::time::Duration;

use holdfast_client::api::ErrorCode;
use holdfast_client::{Acquire, AcquireError, CallError, LossReason, ReleaseError, Share};
use serde_json::json;

use crate::fake::{Fake, Reply, agree, problem};
use crate::{LONG, SHORT, agreeing, client};

#[tokio::test]
async fn one_guard_acquires_renews_and_releases_all_of_them() {
    let ttl = Duration::from_millis(900);
    let fake = agreeing(ttl).await;
    let request = client(&[&fake]).lock_many(["a", "b"]).ttl(ttl).owner("tester");
    let request = request.shared().also("c", Share::Permits { limit: 5, permits: 2 });
    let mut guard = request.acquire().await.unwrap();
    let held: Vec<_> = guard.grants().iter().map(|grant| (grant.name.as_str(), grant.fence)).collect();
    assert_eq!(held, [("a", 7), ("b", 8), ("c", 9)]);
    assert_eq!((guard.name(), guard.fence(), guard.owner()), ("a", 7, "tester"));
    fake.until_seen("renew", 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();

    let asked = &fake.seen("acquire")[0];
    let locks = json!([{"name": "a", "mode": "shared"}, {"name": "b", "mode": "shared"},
        {"name": "c", "limit": 5, "permits": 2}]);
    assert_eq!((asked.path.as_str(), &asked.body["locks"]), ("/v1/acquire", &locks));
    for action in ["renew", "release"] {
        let seen = &fake.seen(action)[0];
        assert_eq!(seen.path, format!("/v1/{action}"));
        assert_eq!((seen.token(), &seen.body["names"]), (asked.token(), &json!(["a", "b", "c"])));
    }
}

#[tokio::test]
async fn the_loss_of_one_lock_is_the_loss_of_the_guard_and_the_others_are_given_back() {
    let fake = Fake::start(|seen| match seen.path.as_str() {
        "/v1/renew" => problem(409, "lease_forced"),
        _ => agree(seen, 400),
    })
    .await;
    let mut guard =
        client(&[&fake]).lock("a").also("b", Share::Exclusive).ttl(SHORT).acquire().await.unwrap();
    assert_eq!(guard.lost().await, Some(LossReason::Forced));
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(LossReason::Forced)));
    assert_eq!(fake.seen("release")[0].body.get("names"), None);
}

#[tokio::test]
async fn a_deadlock_is_an_error_of_its_own_with_the_locks_of_the_cycle() {
    let body = r#"{"code":"deadlock","detail":"scripted","status":409,"cycle":["a","b"]}"#;
    let fake = Fake::start(move |_| Reply::Body(409, body.into())).await;
    let client = client(&[&fake]);
    let cycle = vec!["a".to_owned(), "b".to_owned()];
    let error = client.lock("a").wait(LONG).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Deadlock { cycle: cycle.clone() });
    let error = client.lock_many(["a", "c"]).wait(LONG).acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Deadlock { cycle });
    assert_eq!(fake.all().len(), 2);
}

#[tokio::test]
async fn an_attempt_that_is_stopped_gives_back_all_of_them() {
    let fake = Fake::start(|seen| match seen.path.as_str() {
        "/v1/acquire" => Reply::Hang,
        _ => agree(seen, 6_000),
    })
    .await;
    let request = client(&[&fake]).lock_many(["a", "b"]).wait_forever();
    let stopped = request.acquire_until(fake.until_seen("acquire", 1)).await;
    assert_eq!(stopped.unwrap_err(), AcquireError::Stopped);
    let released = &fake.seen("release")[0];
    assert_eq!((released.path.as_str(), released.token()), ("/v1/release", fake.seen("acquire")[0].token()));
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_before_anything_is_sent() {
    let fake = agreeing(LONG).await;
    let client = client(&[&fake]);
    let too_many: Vec<_> = (0..65).map(|n| n.to_string()).collect();
    for request in
        [client.lock_many(Vec::<String>::new()), client.lock_many(too_many), client.lock_many([""])]
    {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(&error, AcquireError::Refused(refusal) if refusal.is(ErrorCode::InvalidArgument)));
    }
    let metadata = json!({"a": 1}).as_object().unwrap().clone();
    let acquire = Acquire { metadata, ..Acquire::default() };
    let refused = client.acquire_many(&[("a", Share::Exclusive)], &acquire).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(_)));
    assert_eq!(fake.all().len(), 0);
}

#[tokio::test]
async fn a_grant_of_another_token_or_of_nothing_is_not_taken_for_one() {
    for body in [
        json!({"token": "somebody-elses-token", "ttl_ms": 1, "expires_in_ms": 1, "grants": [{"name": "a", "fence": 1}]}),
        json!({"token": "a-token-of-ours-00", "ttl_ms": 1, "expires_in_ms": 1, "grants": []}),
    ] {
        let fake = Fake::start(move |_| Reply::Body(200, body.to_string())).await;
        let client = client(&[&fake]);
        let token = holdfast_client::api::Token::new("a-token-of-ours-00").unwrap();
        let refused = client.renew_many(&token, None, None).await;
        assert!(matches!(refused, Err(CallError::Protocol(_))), "{refused:?}");
    }
}
