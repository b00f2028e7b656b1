//! `holdfast elect` and `holdfast election`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::fake::{Fake, Reply, agree, problem, released};
use crate::processes::{Notes, agreeing, holdfast, run, signal, status, stderr, until_gone};

/// `holdfast elect db`, with options and a shell script as the command.
fn elect(fake: &Fake, options: &[&str], script: &str) -> Command {
    let mut command = holdfast(&fake.url());
    command.args(["elect", "db"]).args(options).args(["--", "sh", "-c", script]);
    command
}

async fn ran(fake: &Fake, arguments: &[&str]) -> (i32, String, String) {
    let mut command = holdfast(&fake.url());
    command.arg("election").args(arguments).env("HOLDFAST_TOKEN", "0123456789abcdef");
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

#[tokio::test]
async fn the_command_runs_while_it_leads_and_knows_the_same_as_under_a_lock() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let script =
        notes.script("echo $HOLDFAST_LOCK $HOLDFAST_FENCE $HOLDFAST_OWNER $HOLDFAST_TOKEN > @env; exit 7");
    let output = run(elect(&fake, &["--owner", "me", "--value", r#"{"url":"http://me/"}"#], &script)).await;
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let asked = &fake.seen("campaign")[0];
    assert_eq!(notes.line("env").await, format!("db 7 me {}", asked.token()));
    assert_eq!((&asked.body["value"], asked.wait_ms()), (&json!({"url": "http://me/"}), 600_000));
    assert_eq!(asked.body["ttl_ms"], 60_000);
    assert_eq!(fake.seen("release")[0].token(), asked.token());
}

#[tokio::test]
async fn it_waits_as_a_lock_does_and_its_value_may_come_from_the_environment() {
    let fake = agreeing(60_000).await;
    for (flags, wait_ms, value) in [
        (&[][..], 600_000, json!(5)),
        (&["--wait", "7s"], 7_000, json!(5)),
        (&["--no-wait", "--value", "-1"], 0, json!(-1)),
        (&["--value", "null"], 600_000, Value::Null),
    ] {
        let mut command = elect(&fake, flags, "true");
        command.env("HOLDFAST_VALUE", "5");
        assert!(run(command).await.status.success());
        let seen = fake.seen("campaign");
        let asked = seen.last().unwrap();
        assert_eq!((asked.wait_ms(), &asked.body["value"]), (wait_ms, &value), "{flags:?}");
    }
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_the_lead() {
    let fake = Fake::start(|seen| if seen.action == "campaign" { Reply::Hang } else { released(0) }).await;
    let child = elect(&fake, &[], "exit 1").spawn().unwrap();
    fake.until_seen("campaign", 1).await;
    let began = Instant::now();
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 143);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(fake.seen("release")[0].token(), fake.seen("campaign")[0].token());
}

#[tokio::test]
async fn a_lost_lead_ends_the_command_with_76_and_a_lead_that_is_taken_is_75() {
    let notes = Notes::new();
    let lost = Fake::start(|seen| match seen.action.as_str() {
        "renew" => problem(409, "lease_released"),
        _ => agree(seen, 1_000),
    })
    .await;
    let child = elect(&lost, &["--ttl", "1s"], &notes.script("echo $$ > @pid; sleep 300")).spawn().unwrap();
    let pid = notes.pid("pid").await;
    assert_eq!(status(child).await, 76);
    until_gone(pid).await;
    let held = Fake::start(|_| problem(409, "held")).await;
    assert_eq!(run(elect(&held, &["--no-wait"], "true")).await.status.code(), Some(75));
}

#[tokio::test]
async fn an_election_is_shown_with_its_leader_and_its_candidates() {
    let look = json!({
        "name": "db", "leader": {"owner": "a", "fence": 7, "value": {"url": "http://a/"}, "expires_in_ms": 9_000},
        "candidates": [{"owner": "b", "waiting_ms": 2_000}], "candidate_count": 1, "seq": 3, "stale": true,
    });
    let fake = Fake::start(move |_| Reply::Body(200, look.to_string())).await;
    let shown = "\
election    db
leader      a, fence 7, 9s left, {\"url\":\"http://a/\"} (stale)
candidates  1
  1         b, waiting for 2s
";
    assert_eq!(ran(&fake, &["get", "db", "--stale"]).await, (0, shown.into(), String::new()));
    let nobody = r#"{"name":"db","leader":null,"candidates":[],"candidate_count":0,"seq":3}"#;
    fake.now(move |_| Reply::Body(200, nobody.into()));
    assert_eq!(ran(&fake, &["get", "db"]).await.1, "election  db\nleader    nobody\n");
    assert_eq!(ran(&fake, &["get", "db", "--json"]).await.1, format!("{nobody}\n"));
}

#[tokio::test]
async fn a_leader_proclaims_hands_over_and_resigns_from_a_shell() {
    let fake = agreeing(60_000).await;
    for (arguments, action, body, shown) in [
        (
            &["proclaim", "db", "--value", "[1]"][..],
            "proclaim",
            ("value", json!([1])),
            "db says [1] (fence 7)\n",
        ),
        (
            &["hand-over", "db", "--to", "b"],
            "hand-over",
            ("to", json!("b")),
            "handed db over to b (fence 7 has ended)\n",
        ),
        (&["resign", "db"], "resign", ("value", Value::Null), "resigned from db (fence 7)\n"),
    ] {
        assert_eq!(ran(&fake, arguments).await, (0, shown.into(), String::new()));
        let asked = &fake.seen(action)[0];
        assert_eq!(
            (asked.path.clone(), asked.token()),
            (format!("/v1/elections/db/{action}"), "0123456789abcdef")
        );
        assert_eq!(asked.body[body.0], body.1);
    }
}

#[tokio::test]
async fn a_candidate_that_is_not_there_and_a_value_that_is_no_json_are_told() {
    let fake = Fake::start(|_| problem(409, "no_such_candidate")).await;
    let (exit, stdout, stderr) = ran(&fake, &["hand-over", "db", "--to", "b"]).await;
    assert_eq!((exit, stdout.as_str()), (1, ""));
    assert!(stderr.contains("no_such_candidate"), "{stderr}");
    let before = fake.all().len();
    for arguments in
        [&["proclaim", "db", "--value", "http://a/"][..], &["proclaim", "db"], &["hand-over", "db"], &[]]
    {
        assert_eq!(ran(&fake, arguments).await.0, 64, "{arguments:?}");
    }
    let output = run(elect(&fake, &["--value", "http://a/"], "true")).await;
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(fake.all().len(), before, "nothing was asked");
}
