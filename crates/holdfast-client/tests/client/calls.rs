//! Calls: endpoints that fail, answers that make no sense, names of all kinds.

use std::time::{Duration, Instant};

use holdfast_client::api::ErrorCode;
use holdfast_client::{Acquire, CallError, Client, Consistency, fresh_token};
use tokio::io::AsyncWriteExt;

use crate::fake::{Fake, Reply, agree, grant, problem};
use crate::{agreeing, client};

#[tokio::test]
async fn a_call_goes_on_to_the_next_endpoint_when_a_node_is_gone_and_stays_there() {
    let gone = Fake::start(|_| Reply::Hang).await.url();
    let fake = agreeing(crate::LONG).await;
    let client = Client::builder().endpoints([gone, fake.url()]).build().unwrap();
    client.acquire("db", &Acquire::default()).await.unwrap();
    let began = Instant::now();
    client.acquire("db", &Acquire::default()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(fake.seen("acquire").len(), 2);
}

#[tokio::test]
async fn no_leader_an_unknown_outcome_and_a_lost_answer_are_asked_again_with_the_same_token() {
    let first = Fake::replying([problem(503, "no_leader"), Reply::HangUp]).await;
    let second = Fake::replying([
        problem(504, "unknown_outcome"),
        Reply::Body(502, "<html>Bad gateway</html>".into()),
    ])
    .await;
    let third = Fake::start({
        let mut count = 0;
        move |seen| {
            count += 1;
            if count == 1 { Reply::HangUp } else { grant(seen, 7) }
        }
    })
    .await;
    let client = client(&[&first, &second, &third]);
    let answer = client.acquire("db", &Acquire::default()).await.unwrap();
    let tokens: Vec<_> = [&first, &second, &third]
        .iter()
        .flat_map(|fake| fake.all())
        .map(|seen| seen.token().to_owned())
        .collect();
    assert_eq!(tokens.len(), 6);
    assert!(tokens.iter().all(|token| token == answer.token.expose()));
}

#[tokio::test]
async fn a_frozen_node_holds_a_call_up_for_about_a_second() {
    let frozen = Fake::start(|_| Reply::Hang).await;
    let fake = agreeing(crate::LONG).await;
    let began = Instant::now();
    client(&[&frozen, &fake]).acquire("db", &Acquire::default()).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_stranger_that_answers_garbage_is_left_for_a_node() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stranger = format!("http://{}", listener.local_addr().unwrap());
    let garbage = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Whether the client has gone already makes no difference.
            let _ = stream.write_all(b"\x00\xffSSH-2.0 not HTTP at all\r\n\r\n").await;
        }
    });
    let fake = agreeing(crate::LONG).await;
    let client = Client::builder().endpoints([stranger, fake.url()]).build().unwrap();
    client.acquire("db", &Acquire::default()).await.unwrap();
    garbage.abort();
}

#[tokio::test]
async fn a_web_site_in_place_of_a_node_is_named_instead_of_asked_for_ever() {
    let site = Fake::start(|_| Reply::Body(200, "<html>Welcome</html>".into())).await;
    let began = Instant::now();
    let error = client(&[&site]).get("db", Consistency::Linearizable).await.unwrap_err();
    assert!(matches!(&error, CallError::Protocol(what) if what.contains(&site.url())), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn an_unreachable_cluster_ends_a_call_in_time_and_tells_that_nothing_was_done() {
    let gone = Fake::start(|_| Reply::Hang).await.url();
    let client = Client::builder().endpoints([gone]).timeout(Duration::from_millis(300)).build().unwrap();
    let began = Instant::now();
    let error = client.renew("db", &fresh_token(), None).await.unwrap_err();
    let CallError::Unanswered(unanswered) = error else { panic!("{error}") };
    assert!(!unanswered.may_have_happened, "{unanswered}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn an_unanswered_call_names_every_endpoint_and_says_once_what_became_of_it() {
    let detail = "no leader is elected. Nothing was done; it is safe to repeat.";
    let problem = format!(r#"{{"code":"no_leader","detail":"{detail}"}}"#);
    let leaderless = Fake::start(move |_| Reply::Body(503, problem.clone())).await;
    let gone = Fake::start(|_| Reply::Hang).await.url();
    let endpoints = [leaderless.url(), gone.clone()];
    let client = Client::builder().endpoints(endpoints).timeout(Duration::from_millis(300)).build().unwrap();
    let told = client.renew("db", &fresh_token(), None).await.unwrap_err().to_string();
    assert!(told.contains(&format!("{}: no leader is elected (no_leader)", leaderless.url())), "{told}");
    assert!(told.contains(&gone) && told.matches("othing was done").count() == 1, "{told}");
}

#[tokio::test]
async fn an_acquire_that_does_not_wait_takes_no_longer_than_its_timeout() {
    let frozen = Fake::start(|_| Reply::Hang).await;
    let timeout = Duration::from_millis(1_200);
    let client = Client::builder().endpoints([frozen.url()]).timeout(timeout).build().unwrap();
    let began = Instant::now();
    client.acquire("db", &Acquire::default()).await.unwrap_err();
    // The second request would have been given 2 s more.
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_request_that_may_have_arrived_may_have_happened() {
    let fake = Fake::start(|_| Reply::HangUp).await;
    let client =
        Client::builder().endpoints([fake.url()]).timeout(Duration::from_millis(300)).build().unwrap();
    let error = client.release("db", &fresh_token()).await.unwrap_err();
    assert!(matches!(error, CallError::Unanswered(unanswered) if unanswered.may_have_happened));
}

#[tokio::test]
async fn each_refusal_keeps_its_own_code() {
    for (status, code) in [
        (400, ErrorCode::InvalidArgument),
        (409, ErrorCode::Held),
        (409, ErrorCode::WaitTimeout),
        (409, ErrorCode::LeaseExpired),
        (409, ErrorCode::LeaseReleased),
        (409, ErrorCode::LeaseForced),
        (409, ErrorCode::NotHolder),
        (409, ErrorCode::TokenConflict),
    ] {
        let fake = Fake::start(move |_| problem(status, code.as_str())).await;
        let error = client(&[&fake]).renew("db", &fresh_token(), None).await.unwrap_err();
        assert!(error.is_refused_with(code), "{error}");
        assert_eq!(fake.all().len(), 1, "a refusal is not asked for twice");
    }
}

#[tokio::test]
async fn every_name_reaches_its_own_path_as_one_segment() {
    let fake = Fake::start(|seen| agree(seen, 1_000)).await;
    let client = client(&[&fake]);
    let names = ["/a", "a/", "a//b", "a%2Fb", "../a", ".", "..", "a b", "a+b", "a?b", "a#b", "ü", "😀"];
    for name in names {
        client.release(name, &fresh_token()).await.unwrap();
    }
    let paths: std::collections::BTreeSet<_> = fake.all().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths.len(), names.len());
    for path in paths {
        let parts: Vec<_> = path.split('/').collect();
        assert_eq!((parts.len(), parts[1], parts[2], parts[4]), (5, "v1", "locks", "release"), "{path}");
    }
}

#[tokio::test]
async fn a_name_outside_the_limits_is_refused_before_anything_is_sent() {
    let fake = agreeing(crate::LONG).await;
    for name in ["", "a\nb", &"x".repeat(513)] {
        let error = client(&[&fake]).acquire(name, &Acquire::default()).await.unwrap_err();
        assert!(error.is_refused_with(ErrorCode::InvalidArgument), "{error}");
    }
    assert!(fake.all().is_empty());
}

#[tokio::test]
async fn an_answer_is_kept_as_the_service_sent_it() {
    let json =
        r#"{ "name":"db", "state":"free","holders":[],"queue":[],"queue_length":0,"seq":3,"new":1.50 }"#;
    let fake = Fake::start(move |_| Reply::Body(200, json.into())).await;
    let answer = client(&[&fake]).get("db", Consistency::Linearizable).await.unwrap();
    assert_eq!(answer.json, json);
}
