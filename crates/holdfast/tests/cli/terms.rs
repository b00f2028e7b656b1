//! Delay, least and longest hold, and once per period on the command line.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fake::{Fake, Reply, agree};
use crate::processes::{Notes, agreeing, holdfast, lock, run, stderr};

const TOKEN: &str = "0123456789abcdef";

async fn done_already() -> Fake {
    let problem = json!({
        "code": "already_done", "detail": "It was.", "owner": "host-2:17", "fence": 12, "next_in_ms": 3_297_000,
        "done_ms_ago": 303_000,
    });
    Fake::start(move |_| Reply::Body(409, problem.to_string())).await
}

#[tokio::test]
async fn a_run_that_was_made_already_is_told_and_not_made_again() {
    let told = "\"db\" was done already by \"host-2:17\" (fence 12), 5m3s ago. The command was not run; next in 54m57s";
    for (flags, status) in [(&["--once", "1h"][..], 0), (&["--once", "1h", "--once-exit", "9"], 9)] {
        let (fake, notes) = (done_already().await, Notes::new());
        let output = run(lock(&fake, flags, &notes.script("touch @ran"))).await;
        assert_eq!(output.status.code(), Some(status));
        assert_eq!(stderr(&output), format!("holdfast: {told}\n"));
        assert!(output.stdout.is_empty() && notes.read("ran").is_none());
        assert_eq!(fake.seen("acquire")[0].body["once"], json!({"period_ms": 3_600_000}));
    }
    let fake = done_already().await;
    let mut acquire = holdfast(&fake.url());
    let output = run({
        acquire.args(["acquire", "db", "--once", "1h"]);
        acquire
    })
    .await;
    assert_eq!(output.status.code(), Some(75));
    let told = "\"db\" was done already by \"host-2:17\" (fence 12), 5m3s ago; next in 54m57s";
    assert_eq!(stderr(&output), format!("holdfast: {told}\n"));
}

#[tokio::test]
async fn only_a_command_that_succeeds_is_done() {
    for (script, done) in [("exit 0", json!(true)), ("exit 3", Value::Null), ("kill -TERM $$", Value::Null)] {
        let fake = agreeing(60_000).await;
        run(lock(&fake, &["--once", "1h"], script)).await;
        assert_eq!(fake.seen("release")[0].body["done"], done, "{script}");
    }
    let fake = agreeing(60_000).await;
    run(lock(&fake, &[], "exit 0")).await;
    assert_eq!(fake.seen("release")[0].body["done"], Value::Null);
}

#[tokio::test]
async fn the_terms_are_sent_and_those_that_do_not_go_together_are_refused() {
    let fake = agreeing(60_000).await;
    let terms = ["--delay", "5s", "--min-hold", "1m", "--max-hold", "2h"];
    assert!(run(lock(&fake, &terms, "true")).await.status.success());
    let mut acquire = holdfast(&fake.url());
    acquire.args(["acquire", "db"]).args(terms).args(["--token", TOKEN]);
    assert!(run(acquire).await.status.success());
    for seen in fake.seen("acquire") {
        let sent = [&seen.body["delay_ms"], &seen.body["min_hold_ms"], &seen.body["max_hold_ms"]];
        assert_eq!(sent, [&json!(5_000), &json!(60_000), &json!(7_200_000)]);
    }
    for flags in [&["--once-exit", "9"][..], &["--also", "other", "--once", "1h"], &["--once", "1"]] {
        let output = run(lock(&fake, flags, "true")).await;
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {}", stderr(&output));
    }
}

#[tokio::test]
async fn release_says_when_it_takes_effect_and_whether_it_counts() {
    let released = |more: &str| format!(r#"{{"name":"db","fence":7,"released":true{more}}}"#);
    for (more, flags, told) in [
        (
            r#","effective_in_ms":4000"#,
            &[][..],
            "released db (fence 7); others can have it in 4s, when its least hold is over",
        ),
        (r#","done":true"#, &["--done"], "released db (fence 7); it is done for this period"),
        (
            "",
            &["--done"],
            "released db (fence 7); it counts for no period: it was acquired without --once, or the period is over",
        ),
    ] {
        let body = released(more);
        let fake = Fake::start(move |_| Reply::Body(200, body.clone())).await;
        let mut command = holdfast(&fake.url());
        command.args(["release", "db", "--token", TOKEN]).args(flags);
        let output = run(command).await;
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{told}\n"));
        assert_eq!(fake.seen("release")[0].body["done"] == true, !flags.is_empty());
    }
}

#[tokio::test]
async fn get_shows_a_delay_and_what_is_left_of_the_longest_hold() {
    let lock = json!({
        "name": "db", "state": "held", "queue": [], "queue_length": 0, "seq": 4, "delay_ms": 2_500,
        "holders": [{
            "owner": "a", "fence": 3, "ttl_ms": 30_000, "expires_in_ms": 5_000, "held_ms": 10_000, "metadata": {},
            "max_left_ms": 5_000, "releasing": true,
        }],
    });
    let fake = Fake::start(move |_| Reply::Body(200, lock.to_string())).await;
    let mut command = holdfast(&fake.url());
    command.args(["get", "db"]);
    let text = String::from_utf8(run(command).await.stdout).unwrap();
    for part in ["granted to nobody for 2.5s", "5s of 30s left, 5s at most, released"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_lock_in_a_delay_is_busy_and_says_why() {
    let held = json!({"code": "held", "detail": "The lock is held.", "queue_length": 0, "delay_ms": 3_000});
    let fake = Fake::start(move |_| Reply::Body(409, held.to_string())).await;
    let mut command = holdfast(&fake.url());
    command.args(["acquire", "db"]);
    for output in [run(command).await, run(lock(&fake, &["--no-wait"], "true")).await] {
        assert_eq!(output.status.code(), Some(75));
        assert!(stderr(&output).contains("nobody for 3s, after its holder was lost"), "{}", stderr(&output));
    }
}

/// The command is told to stop in time, as when the lease cannot be renewed.
#[tokio::test]
async fn a_command_is_stopped_before_the_longest_hold_is_over() {
    let (since, max) = (Instant::now(), Duration::from_millis(1_500));
    let fake = Fake::start(move |seen| {
        let Reply::Body(status, body) = agree(seen, 60_000) else { panic!("it agrees") };
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["max_left_ms"] = u64::try_from(max.saturating_sub(since.elapsed()).as_millis()).unwrap().into();
        Reply::Body(status, body.to_string())
    })
    .await;
    let output = run(lock(&fake, &["--max-hold", "1500ms"], "exec sleep 60")).await;
    assert_eq!(output.status.code(), Some(76));
    assert!(since.elapsed() < max, "{:?}", since.elapsed());
    assert!(stderr(&output).contains("the longest hold is nearly over"), "{}", stderr(&output));
}
