//! Sessions over HTTP.

use serde_json::{Value, json};

use crate::client::{Reply, Service, call, token};

async fn open(service: &Service, letter: char, ttl_ms: u64) -> Value {
    let body = json!({"token": token(letter), "owner": letter.to_string(), "ttl_ms": ttl_ms});
    service.post("/v1/sessions", body).await.ok()
}

fn id_of(session: &Value) -> String {
    session["id"].as_str().unwrap().to_owned()
}

/// `letter` is the session's, whose token differs from that of its attempts.
fn in_session(id: &str, letter: char, more: Value) -> Value {
    let mut body = json!({"session": id, "session_token": token(letter)});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn with_token(service: &Service, id: &str, action: &str, letter: char) -> Reply {
    service.post(&format!("/v1/sessions/{id}/{action}"), json!({"token": token(letter)})).await
}

#[tokio::test]
async fn a_session_is_opened_renewed_shown_and_ended() {
    let service = Service::start().await;
    let session = open(&service, 'a', 30_000).await;
    let id = id_of(&session);
    assert_eq!(session["token"], token('a'));
    assert_eq!((&session["owner"], &session["ttl_ms"]), (&json!("a"), &json!(30_000)));
    assert_eq!(id_of(&open(&service, 'a', 30_000).await), id, "the same token finds the same session");
    let grant = service.post("/v1/locks/x/acquire", in_session(&id, 'a', json!({}))).await.ok();
    assert_eq!(grant["ttl_ms"], 30_000);
    service.post("/v1/locks/y/acquire", in_session(&id, 'a', json!({"mode": "shared"}))).await.ok();
    assert_eq!(with_token(&service, &id, "renew", 'a').await.ok()["token"], token('a'));
    let shown = service.get(&format!("/v1/sessions/{id}")).await.ok();
    assert_eq!((&shown["holds"], &shown["waits"]), (&json!(["x", "y"]), &json!([])));
    assert_eq!(service.get("/v1/locks/x").await.ok()["holders"][0]["session"], id);
    let metrics = service.get("/metrics").await;
    assert!(metrics.text().contains("holdfast_sessions 1\n"));
    for _ in 0..2 {
        let ended = with_token(&service, &id, "end", 'a').await.ok();
        assert_eq!(ended, json!({"id": id, "ended": true, "released": 2}));
    }
    assert_eq!(service.get("/v1/locks/x").await.ok()["state"], "free");
    with_token(&service, &id, "renew", 'a').await.problem("session_expired");
    service.post("/v1/sessions", json!({"token": token('a')})).await.problem("session_expired");
    service.get(&format!("/v1/sessions/{id}")).await.problem("session_not_found");
    service.stop().await;
}

#[tokio::test]
async fn a_waiter_is_told_at_once_that_its_session_has_ended() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 60_000).await);
    service.post("/v1/locks/x/acquire", json!({"token": token('b')})).await.ok();
    let body = in_session(&id, 'a', json!({"token": token('c'), "wait_ms": 60_000}));
    let addr = service.addr().to_owned();
    let waiter = tokio::spawn(async move { call(&addr, "POST", "/v1/locks/x/acquire", Some(body)).await });
    while service.get(&format!("/v1/sessions/{id}")).await.ok()["waits"] != json!(["x"]) {}
    assert_eq!(with_token(&service, &id, "end", 'a').await.ok()["released"], 0);
    waiter.await.unwrap().problem("session_expired");
    assert_eq!(service.get("/v1/locks/x").await.ok()["queue_length"], 0);
    service.stop().await;
}

#[tokio::test]
async fn a_waiter_is_told_at_once_that_its_session_is_over() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 300).await);
    service.post("/v1/locks/x/acquire", json!({"token": token('b')})).await.ok();
    let body = in_session(&id, 'a', json!({"wait_ms": 60_000}));
    service.post("/v1/locks/x/acquire", body).await.problem("session_expired");
    service.stop().await;
}

#[tokio::test]
async fn a_hold_in_a_session_is_renewed_by_the_session_alone_and_released_by_its_own_token() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 20_000).await);
    let grant =
        service.post("/v1/locks/x/acquire", in_session(&id, 'a', json!({"token": token('x')}))).await.ok();
    let body = json!({"token": token('x'), "ttl_ms": 80_000});
    let renewed = service.post("/v1/locks/x/renew", body).await.ok();
    assert_eq!((&renewed["fence"], &renewed["ttl_ms"]), (&grant["fence"], &json!(20_000)));
    assert!(renewed["expires_in_ms"].as_u64().unwrap() <= 20_000);
    let again = in_session(&id, 'a', json!({"token": token('x')}));
    assert_eq!(service.post("/v1/locks/x/acquire", again).await.ok()["fence"], grant["fence"]);
    service.post("/v1/locks/x/acquire", json!({"token": token('x')})).await.problem("token_conflict");
    service.post("/v1/locks/x/release", json!({"token": token('x')})).await.ok();
    assert_eq!(service.get(&format!("/v1/sessions/{id}")).await.ok()["holds"], json!([]));
    service.stop().await;
}

#[tokio::test]
async fn a_session_is_used_with_its_own_token_only_and_unknown_ones_are_not_found() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 30_000).await);
    for action in ["renew", "end"] {
        with_token(&service, &id, action, 'b').await.problem("session_not_yours");
        for unknown in ["777777", "nobody", "0", "%2e", "%ff"] {
            with_token(&service, unknown, action, 'a').await.problem("session_not_found");
        }
    }
    service.post("/v1/locks/x/acquire", in_session(&id, 'b', json!({}))).await.problem("session_not_yours");
    for unknown in ["777777", "nobody", ""] {
        let body = in_session(unknown, 'a', json!({}));
        service.post("/v1/locks/x/acquire", body).await.problem("session_not_found");
    }
    let other_ttl = json!({"token": token('a'), "owner": "a", "ttl_ms": 5_000});
    service.post("/v1/sessions", other_ttl).await.problem("token_conflict");
    service.stop().await;
}

#[tokio::test]
async fn sessions_are_listed_in_pages_without_their_tokens() {
    let service = Service::start().await;
    let mut ids = Vec::new();
    for letter in ['a', 'b', 'c'] {
        ids.push(id_of(&open(&service, letter, 30_000).await));
    }
    service.post("/v1/locks/x/acquire", in_session(&ids[0], 'a', json!({}))).await.ok();
    let listed =
        |page: &Value| -> Vec<String> { page["sessions"].as_array().unwrap().iter().map(id_of).collect() };
    let first = service.get("/v1/sessions?limit=2").await.ok();
    assert_eq!((listed(&first), &first["next"]), (ids[..2].to_vec(), &json!(ids[1])));
    assert_eq!((&first["sessions"][0]["held"], &first["sessions"][0]["waiting"]), (&json!(1), &json!(0)));
    assert!(!first.to_string().contains("token"));
    let second = service.get(&format!("/v1/sessions?limit=2&after={}", ids[1])).await.ok();
    assert_eq!((listed(&second), &second["next"]), (ids[2..].to_vec(), &Value::Null));
    assert_eq!(service.get("/v1/sessions?consistency=stale").await.ok()["stale"], true);
    service.stop().await;
}

#[tokio::test]
async fn what_is_wrong_about_a_session_is_named() {
    let service = Service::start().await;
    for (body, words) in [
        (json!({"ttl_ms": 99}), ["`ttl_ms`", "between 100 and 86400000"]),
        (json!({"token": "short"}), ["`token`", "16 to 128"]),
        (json!({"owner": ""}), ["`owner`", "1 to 256"]),
        (json!({"wait_ms": 5}), ["`wait_ms`", "owner, token, ttl_ms"]),
    ] {
        let detail = service.post("/v1/sessions", body.clone()).await.detail("invalid_argument");
        assert!(words.iter().all(|word| detail.contains(word)), "{body}: {detail}");
    }
    let id = id_of(&open(&service, 'a', 30_000).await);
    for (body, words) in [
        (json!({"session": id}), ["`session`", "`session_token`"]),
        (json!({"session_token": token('a')}), ["`session_token`", "`session`"]),
        (in_session(&id, 'a', json!({"ttl_ms": 5_000})), ["`ttl_ms`", "`session`"]),
        (json!({"session": 5, "session_token": token('a')}), ["`session`", "text"]),
        (json!({"session": id, "session_token": "short"}), ["`session_token`", "16 to 128"]),
    ] {
        let detail = service.post("/v1/locks/x/acquire", body.clone()).await.detail("invalid_argument");
        assert!(words.iter().all(|word| detail.contains(word)), "{body}: {detail}");
    }
    for query in ["after=x", "limit=0", "limit=1001", "prefix=x"] {
        let field = format!("`{}`", query.split('=').next().unwrap());
        let detail = service.get(&format!("/v1/sessions?{query}")).await.detail("invalid_argument");
        assert!(detail.contains(&field), "{query}: {detail}");
    }
    let refused = service.call("DELETE", "/v1/sessions", None).await;
    assert_eq!(refused.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    service.stop().await;
}

#[tokio::test]
async fn a_session_keeps_a_lead_and_its_end_is_the_end_of_the_lead() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 60_000).await);
    let campaign = "/v1/elections/x/campaign";
    let lead = in_session(&id, 'a', json!({"token": token('b'), "value": "http://a/"}));
    assert_eq!(service.post(campaign, lead.clone()).await.ok()["value"], "http://a/");
    let more = |more| in_session(&id, 'a', more);
    service.post(campaign, more(json!({"ttl_ms": 1_000}))).await.problem("invalid_argument");
    service.post(campaign, in_session(&id, 'z', json!({}))).await.problem("session_not_yours");
    let nobody = json!({"token": token('b'), "to": "nobody"});
    service.post("/v1/elections/x/hand-over", nobody).await.problem("no_such_candidate");
    assert_eq!(service.get("/v1/locks/x").await.ok()["holders"][0]["session"], id);
    with_token(&service, &id, "end", 'a').await.ok();
    assert_eq!(service.get("/v1/elections/x").await.ok()["leader"], json!(null));
    service.post(campaign, lead).await.problem("session_expired");
    service.post("/v1/elections/x/renew", json!({"token": token('b')})).await.problem("lease_released");
    service.stop().await;
}

#[tokio::test]
async fn many_locks_at_once_are_kept_by_no_session() {
    let service = Service::start().await;
    let id = id_of(&open(&service, 'a', 60_000).await);
    let many = in_session(&id, 'a', json!({"locks": [{"name": "x"}]}));
    let refused = service.post("/v1/acquire", many).await.problem("invalid_argument");
    assert!(refused["detail"].as_str().unwrap().contains("`session`"), "{refused}");
    service.stop().await;
}

/// Labels do not matter: what a session holds and what it waits for belong together.
#[tokio::test]
async fn a_wait_that_closes_a_cycle_of_sessions_is_refused() {
    let service = Service::start().await;
    let (first, second) = (open(&service, 'a', 60_000).await, open(&service, 'b', 60_000).await);
    let (first, second) = (id_of(&first), id_of(&second));
    service.post("/v1/locks/x/acquire", in_session(&first, 'a', json!({"owner": "one"}))).await.ok();
    service.post("/v1/locks/y/acquire", in_session(&second, 'b', json!({}))).await.ok();
    let body = in_session(&first, 'a', json!({"owner": "two", "wait_ms": 60_000}));
    let addr = service.addr().to_owned();
    let waiter = tokio::spawn(async move { call(&addr, "POST", "/v1/locks/y/acquire", Some(body)).await });
    while service.get(&format!("/v1/sessions/{first}")).await.ok()["waits"] != json!(["y"]) {}
    let closes = in_session(&second, 'b', json!({"owner": "three", "wait_ms": 60_000}));
    let refused = service.post("/v1/locks/x/acquire", closes).await.problem("deadlock");
    assert_eq!(refused["cycle"], json!(["x", "y"]));
    with_token(&service, &second, "end", 'b').await.ok();
    waiter.await.unwrap().ok();
    service.stop().await;
}
