//! The commands that are one call of the API each.

use crate::fake::{Fake, Reply, problem};
use crate::processes::{agreeing, holdfast, run, stderr};

async fn ran(fake: &Fake, arguments: &[&str]) -> (i32, String, String) {
    let mut command = holdfast(&fake.url());
    command.args(arguments).env("HOLDFAST_TOKEN", "0123456789abcdef");
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

#[tokio::test]
async fn json_is_printed_as_the_service_sent_it() {
    let json = r#"{ "name":"db","fence":null,  "released":true, "of_the_future":1.50 }"#;
    let fake = Fake::start(move |_| Reply::Body(200, json.into())).await;
    assert_eq!(ran(&fake, &["release", "db", "--json"]).await, (0, format!("{json}\n"), String::new()));
}

#[tokio::test]
async fn a_refusal_is_told_on_stderr_and_with_json_printed_as_the_service_sent_it() {
    for (code, http, status) in [
        ("held", 409, 75),
        ("wait_timeout", 409, 75),
        ("lease_expired", 409, 76),
        ("lease_released", 409, 76),
        ("lease_forced", 409, 76),
        ("not_holder", 409, 76),
        ("invalid_argument", 400, 64),
        ("token_conflict", 409, 1),
        ("deadlock_of_the_future", 409, 1),
    ] {
        let fake = Fake::start(move |_| problem(http, code)).await;
        let (exit, stdout, stderr) = ran(&fake, &["renew", "db"]).await;
        assert_eq!((exit, stdout.as_str()), (status, ""), "{code}");
        assert!(stderr.starts_with("holdfast: ") && stderr.contains(code), "{stderr}");
        let (exit, stdout, _) = ran(&fake, &["renew", "db", "--json"]).await;
        assert_eq!(exit, status);
        assert!(stdout.starts_with('{') && stdout.contains(code), "{stdout}");
    }
}

#[tokio::test]
async fn an_acquire_that_finds_the_lock_held_says_by_whom_and_for_how_long() {
    let held = r#"{"code":"held","detail":"The lock is held.","holder":{"owner":"nightly","fence":4,"expires_in_ms":10000}}"#;
    let fake = Fake::start(move |_| Reply::Body(409, held.into())).await;
    let (exit, _, stderr) = ran(&fake, &["acquire", "db"]).await;
    let told =
        r#""db" is held by "nightly" (fence 4), for 10s at most unless renewed. Wait for it with --wait 30s"#;
    assert_eq!((exit, stderr), (75, format!("holdfast: {told}\n")));
}

#[tokio::test]
async fn a_used_up_token_out_of_the_environment_is_told_as_such() {
    let fake = Fake::start(|_| problem(409, "lease_released")).await;
    let (exit, _, stderr) = ran(&fake, &["acquire", "db"]).await;
    assert_eq!(exit, 76);
    assert!(stderr.contains("The token came from HOLDFAST_TOKEN; unset it"), "{stderr}");
    let (_, _, stderr) = ran(&fake, &["acquire", "db", "--token", "abcdef0123456789"]).await;
    assert!(!stderr.contains("unset it"), "{stderr}");
}

#[tokio::test]
async fn an_acquire_under_a_lock_does_not_take_that_locks_token_for_its_own() {
    let fake = agreeing(30_000).await;
    let arguments = ["acquire", "db"];
    ran(&fake, &arguments).await;
    let mut nested = holdfast(&fake.url());
    nested.args(arguments).env("HOLDFAST_TOKEN", "0123456789abcdef").env("HOLDFAST_LOCK", "outer");
    run(nested).await;
    let tokens: Vec<_> = fake.seen("acquire").into_iter().map(|seen| seen.body["token"].clone()).collect();
    assert_eq!(tokens[0], "0123456789abcdef");
    assert_ne!(tokens[1], tokens[0]);
}

#[tokio::test]
async fn what_the_command_line_alone_shows_to_be_wrong_needs_no_cluster() {
    for arguments in [
        &["list", "--limit", "0"][..],
        &["list", "--limit", "1001"],
        &["acquire", "db", "--ttl", "1ms"],
        &["renew", "db", "--ttl", "25h"],
    ] {
        let mut command = holdfast("http://127.0.0.1:1");
        command.args(arguments);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
    }
}

#[tokio::test]
async fn a_renewal_without_a_token_says_where_it_may_come_from() {
    let fake = agreeing(30_000).await;
    let mut command = holdfast(&fake.url());
    command.args(["renew", "db"]);
    let output = run(command).await;
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("HOLDFAST_TOKEN"), "{}", stderr(&output));
}

#[tokio::test]
async fn acquire_prints_token_and_fence_and_takes_its_options_from_the_environment_too() {
    let fake = agreeing(30_000).await;
    let (exit, stdout, stderr) =
        ran(&fake, &["acquire", "db", "--ttl", "90s", "--metadata", r#"{"a":1}"#]).await;
    assert_eq!((exit, stderr.as_str()), (0, ""));
    for line in ["fence       7", "token       0123456789abcdef", "ttl         1m30s"] {
        assert!(stdout.lines().any(|printed| printed == line), "{stdout}");
    }
    assert_eq!(fake.seen("acquire")[0].body["metadata"]["a"], 1);
}

#[tokio::test]
async fn a_cluster_without_a_leader_gives_69_and_says_what_to_look_at() {
    let fake = Fake::start(|_| problem(503, "no_leader")).await;
    for arguments in
        [&["get", "db"][..], &["list"], &["cluster", "status"], &["acquire", "db"], &["release", "db"]]
    {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--timeout", "100ms"]);
        let (exit, stdout, stderr) = ran(&fake, &arguments).await;
        assert_eq!((exit, stdout.as_str()), (69, ""), "{arguments:?}");
        assert!(stderr.contains("HOLDFAST_ENDPOINTS"), "{stderr}");
    }
}

#[tokio::test]
async fn a_token_that_is_none_is_refused_without_being_shown() {
    let fake = agreeing(30_000).await;
    let (exit, _, stderr) = ran(&fake, &["release", "db", "--token", "not a token, but secret"]).await;
    assert_eq!(exit, 64);
    assert!(stderr.contains("--token") && !stderr.contains("secret"), "{stderr}");
}

#[tokio::test]
async fn help_and_version_are_answers_and_show_no_token() {
    let fake = agreeing(30_000).await;
    for arguments in
        [&["--help"][..], &["renew", "--help"], &["lock", "--help"], &["--version"], &["version"]]
    {
        let (exit, stdout, stderr) = ran(&fake, arguments).await;
        assert_eq!((exit, stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!stdout.is_empty() && !stdout.contains("0123456789abcdef"), "{stdout}");
    }
    let (exit, stdout, _) = ran(&fake, &[]).await;
    assert_eq!((exit, stdout.as_str()), (64, ""));
}

#[tokio::test]
async fn a_healthcheck_succeeds_with_status_200_only() {
    for (status, expected) in [(200, 0), (204, 1), (503, 1)] {
        let fake = Fake::start(move |_| Reply::Body(status, String::new())).await;
        let url = format!("{}/readyz", fake.url());
        assert_eq!(ran(&fake, &["healthcheck", "--url", &url]).await.0, expected, "{status}");
    }
    let frozen = Fake::start(|_| Reply::Hang).await;
    let began = std::time::Instant::now();
    assert_eq!(ran(&frozen, &["healthcheck", "--url", &frozen.url()]).await.0, 1);
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(ran(&frozen, &["healthcheck", "--url", "nonsense"]).await.0, 1);
}

#[tokio::test]
async fn many_locks_are_acquired_renewed_and_released_in_one_call_each() {
    let fake = agreeing(30_000).await;
    let (exit, stdout, _) = ran(&fake, &["acquire-many", "a", "b/c", "--shared", "--wait", "5s"]).await;
    assert_eq!(exit, 0);
    for line in ["token       0123456789abcdef", "lock        a, fence 7", "lock        b/c, fence 8"] {
        assert!(stdout.lines().any(|printed| printed == line), "{stdout}");
    }
    let asked = &fake.seen("acquire")[0];
    assert_eq!((asked.path.as_str(), &asked.body["locks"][1]["mode"]), ("/v1/acquire", &"shared".into()));
    let (exit, stdout, _) = ran(&fake, &["renew-many", "a", "b/c"]).await;
    assert_eq!((exit, stdout.contains("0123456789abcdef")), (0, false));
    assert_eq!(fake.seen("renew")[0].body["names"][1], "b/c");
    let (exit, _, _) = ran(&fake, &["release-many"]).await;
    assert_eq!((exit, fake.seen("release")[0].body.get("names")), (0, None));
    assert_eq!(ran(&fake, &["acquire-many"]).await.0, 64);
}

#[tokio::test]
async fn a_deadlock_is_told_with_its_locks_and_gives_75() {
    let body = r#"{"code":"deadlock","detail":"The wait.","status":409,"cycle":["a","b"]}"#;
    let fake = Fake::start(move |_| Reply::Body(409, body.into())).await;
    for arguments in [&["acquire", "a", "--wait", "5s"][..], &["lock", "a", "--", "true"]] {
        let (exit, _, stderr) = ran(&fake, arguments).await;
        assert_eq!(exit, 75, "{arguments:?}");
        assert!(stderr.contains(r#""a", "b" (deadlock)"#), "{stderr}");
    }
}

#[tokio::test]
async fn a_command_runs_under_many_locks_and_knows_the_fence_of_each() {
    let fake = agreeing(30_000).await;
    let script = "echo $HOLDFAST_LOCK $HOLDFAST_FENCE $HOLDFAST_LOCK_2 $HOLDFAST_FENCE_2 $HOLDFAST_LOCK_3 $HOLDFAST_FENCE_3";
    let arguments = ["lock", "a", "--also", "b", "--also", "c", "--", "sh", "-c", script];
    let (exit, stdout, stderr) = ran(&fake, &arguments).await;
    assert_eq!((exit, stdout.as_str()), (0, "a 7 b 8 c 9\n"), "{stderr}");
    assert_eq!(fake.seen("acquire")[0].path, "/v1/acquire");
    assert_eq!(fake.seen("release")[0].body["names"][2], "c");
    let mut from_environment = holdfast(&fake.url());
    from_environment.env("HOLDFAST_ALSO", "b c\nd").args(["lock", "a", "--", "true"]);
    assert_eq!(run(from_environment).await.status.code(), Some(0));
    let names: Vec<_> =
        fake.seen("acquire")[1].body["locks"].as_array().unwrap().iter().map(|l| l["name"].clone()).collect();
    assert_eq!(names, ["a", "b c", "d"]);
    assert_eq!(ran(&fake, &["lock", "a", "--also", "b", "--limit", "3", "--", "true"]).await.0, 64);
}
