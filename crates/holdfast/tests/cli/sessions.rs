//! `holdfast session`, and acquiring in a session.

use serde_json::json;

use crate::fake::{Fake, Reply, agree, problem};
use crate::processes::{holdfast, run, stderr};

const TOKEN: &str = "0123456789abcdef";

async fn ran(fake: &Fake, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = holdfast(&fake.url());
    command.args(arguments).envs(environment.iter().copied());
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

async fn agreeing() -> Fake {
    Fake::start(|seen| {
        let session = json!({
            "id": "17", "owner": "me", "token": seen.token(), "ttl_ms": 60_000, "expires_in_ms": 60_000,
            "held": 2, "waiting": 1, "holds": ["a", "b"], "waits": ["c"], "seq": 5,
        });
        match (seen.path.as_str(), seen.body.is_null()) {
            ("/v1/sessions", true) => {
                Reply::Body(200, json!({"sessions": [session], "next": "17", "seq": 5}).to_string())
            }
            ("/v1/sessions/17/end", _) => {
                Reply::Body(200, json!({"id": "17", "ended": true, "released": 2}).to_string())
            }
            (path, _) if path.starts_with("/v1/sessions") => Reply::Body(200, session.to_string()),
            _ => agree(seen, 60_000),
        }
    })
    .await
}

#[tokio::test]
async fn a_session_is_opened_and_its_token_printed_once() {
    let fake = agreeing().await;
    let (exit, stdout, _) = ran(&fake, &["session", "open", "--ttl", "60s", "--owner", "me"], &[]).await;
    let seen = &fake.seen("sessions")[0];
    assert_eq!((exit, &seen.body["ttl_ms"], &seen.body["owner"]), (0, &json!(60_000), &json!("me")));
    assert!(stdout.contains("session     17\n") && stdout.contains(seen.token()), "{stdout}");
    let keys = [("HOLDFAST_SESSION", "17"), ("HOLDFAST_SESSION_TOKEN", TOKEN)];
    let (exit, stdout, _) = ran(&fake, &["session", "renew"], &keys).await;
    assert_eq!((exit, fake.seen("renew")[0].token()), (0, TOKEN));
    assert!(stdout.contains("expires in  1m") && !stdout.contains(TOKEN), "{stdout}");
    let (exit, stdout, _) = ran(&fake, &["session", "end", "17", "--token", TOKEN], &[]).await;
    assert_eq!((exit, stdout.as_str()), (0, "ended session 17, which held 2 locks\n"));
}

#[tokio::test]
async fn a_session_and_the_list_of_them_are_shown() {
    let fake = agreeing().await;
    let (exit, stdout, _) = ran(&fake, &["session", "get", "17"], &[]).await;
    assert_eq!(exit, 0);
    for line in ["session  17", "left     1m of 1m", "holds    a", "holds    b", "waits    c"] {
        assert!(stdout.lines().any(|printed| printed == line), "{stdout}");
    }
    let (exit, stdout, _) = ran(&fake, &["session", "list", "--limit", "1"], &[]).await;
    assert_eq!(exit, 0);
    assert!(stdout.contains("17  me     1m    2     1") && stdout.contains("--after 17"), "{stdout}");
}

#[tokio::test]
async fn an_acquire_names_the_session_and_its_token() {
    let fake = agreeing().await;
    let arguments = ["acquire", "db", "--session", "17", "--session-token", TOKEN];
    assert_eq!(ran(&fake, &arguments, &[]).await.0, 0);
    let seen = &fake.seen("acquire")[0];
    assert_eq!((&seen.body["session"], &seen.body["session_token"]), (&json!("17"), &json!(TOKEN)));
    assert_eq!(seen.body["ttl_ms"], json!(null));
    assert_ne!(seen.token(), TOKEN);
    for arguments in [&["acquire", "db", "--session", "17"][..], &["session", "renew", "17"]] {
        let (exit, _, stderr) = ran(&fake, arguments, &[]).await;
        assert_eq!(exit, 64);
        assert!(stderr.contains("HOLDFAST_SESSION_TOKEN"), "{stderr}");
    }
    let secret = [("HOLDFAST_SESSION_TOKEN", "not a token, but secret")];
    let (exit, _, stderr) = ran(&fake, &["session", "end", "17"], &secret).await;
    assert_eq!(exit, 64);
    assert!(!stderr.contains("secret"), "{stderr}");
}

#[tokio::test]
async fn a_session_that_is_over_unknown_or_anothers_gives_76() {
    for (status, code) in [(409, "session_expired"), (404, "session_not_found"), (409, "session_not_yours")] {
        let fake = Fake::start(move |_| problem(status, code)).await;
        for action in ["renew", "end"] {
            let (exit, _, stderr) = ran(&fake, &["session", action, "17", "--token", TOKEN], &[]).await;
            assert_eq!(exit, 76, "{code}");
            assert!(stderr.contains(code), "{stderr}");
        }
    }
}
