//! `holdfast lock`: exit statuses, arguments, output.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fake::{Fake, grant, problem, released};
use crate::processes::{Notes, agreeing, holdfast, lock, run, stderr};

#[tokio::test]
async fn the_commands_exit_status_comes_through_and_the_lock_is_released() {
    let fake = agreeing(60_000).await;
    for (index, code) in [0, 1, 3, 64, 75, 76, 125, 126, 127, 255].into_iter().enumerate() {
        let output = run(lock(&fake, &[], &format!("exit {code}"))).await;
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(fake.seen("release").len(), index + 1);
    }
}

#[tokio::test]
async fn a_command_ended_by_a_signal_gives_128_and_the_signal() {
    let fake = agreeing(60_000).await;
    for (name, number) in [("SEGV", 11), ("KILL", 9), ("TERM", 15)] {
        let output = run(lock(&fake, &[], &format!("kill -{name} $$"))).await;
        assert_eq!(output.status.code(), Some(128 + number));
    }
}

#[tokio::test]
async fn a_command_that_is_not_there_or_cannot_be_run_gives_127_or_126_and_the_lock_is_released() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    std::fs::write(notes.path("plain"), "no program").unwrap();
    let plain = notes.path("plain");
    for (program, code) in
        [("no-such-program", 127), ("/no/such/program", 127), (plain.to_str().unwrap(), 126), ("/etc", 126)]
    {
        let mut command = holdfast(&fake.url());
        command.args(["lock", "db", "--", program]);
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(stderr(&output).contains(program));
    }
    assert_eq!(fake.seen("release").len(), 4);
}

#[tokio::test]
async fn the_command_gets_exactly_its_arguments_and_no_shell() {
    let fake = agreeing(60_000).await;
    let arguments = ["a b", "\"q\"", "'", "$HOME", "line\nbreak", "", "-v", "--ttl", "--", "ü", "*"];
    let mut command = holdfast(&fake.url());
    command.args(["lock", "db", "--", "printf", "<%s>"]).args(arguments);
    let expected: String = arguments.iter().map(|argument| format!("<{argument}>")).collect();
    assert_eq!(String::from_utf8(run(command).await.stdout).unwrap(), expected);
}

#[tokio::test]
async fn options_of_the_command_are_its_own_also_without_two_dashes() {
    let fake = agreeing(60_000).await;
    let mut command = holdfast(&fake.url());
    command.args(["lock", "db", "echo", "--version", "--help", "-x"]);
    assert_eq!(run(command).await.stdout, b"--version --help -x\n");
}

#[tokio::test]
async fn ten_megabytes_go_through_the_command_and_nothing_is_added() {
    let fake = agreeing(60_000).await;
    let mut command = lock(&fake, &[], "cat");
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let sent: Vec<u8> = (0..10 * 1024 * 1024).map(|at: u32| at.to_le_bytes()[1]).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move { stdin.write_all(&sent).await.unwrap() });
    let mut received = Vec::new();
    stdout.read_to_end(&mut received).await.unwrap();
    writing.await.unwrap();
    assert!(received == expected);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_command_knows_lock_fence_token_and_owner() {
    let fake = agreeing(60_000).await;
    let script = "echo $HOLDFAST_LOCK $HOLDFAST_FENCE $HOLDFAST_OWNER; echo $HOLDFAST_TOKEN";
    let output = String::from_utf8(run(lock(&fake, &["--owner", "tester"], script)).await.stdout).unwrap();
    assert_eq!(output, format!("db 7 tester\n{}\n", fake.seen("acquire")[0].token()));
}

#[tokio::test]
async fn without_a_label_the_owner_names_the_machine_and_the_process() {
    let fake = agreeing(60_000).await;
    let child = lock(&fake, &[], "true").spawn().unwrap();
    let pid = child.id().unwrap();
    child.wait_with_output().await.unwrap();
    let owner = fake.seen("acquire")[0].body["owner"].as_str().unwrap().to_owned();
    assert!(owner.ends_with(&format!(":{pid}")), "{owner}");
}

#[tokio::test]
async fn a_busy_lock_and_a_wait_that_is_over_give_75_and_the_command_is_not_run() {
    let fake = Fake::start(|seen| match seen.wait_ms() {
        0 => problem(409, "held"),
        wait_ms => problem(409, "wait_timeout").later(Duration::from_millis(wait_ms)),
    })
    .await;
    let notes = Notes::new();
    for options in [&["--no-wait"][..], &["--wait", "0s"], &["--wait", "300ms"]] {
        let began = Instant::now();
        let output = run(lock(&fake, options, &notes.script("touch @ran"))).await;
        assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
        assert!(output.stdout.is_empty() && stderr(&output).starts_with("holdfast: "));
        assert!(began.elapsed() < Duration::from_secs(2));
    }
    assert!(notes.read("ran").is_none());
}

#[tokio::test]
async fn a_cluster_that_is_not_there_gives_69() {
    let gone = Fake::start(|_| problem(503, "no_leader")).await.url();
    for options in [&["--no-wait"][..], &["--wait", "100ms"], &[]] {
        let mut command = holdfast(&gone);
        command.args(["lock", "db", "--timeout", "300ms"]).args(options).args(["--", "echo", "ran"]);
        let output = run(command).await;
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(69), true), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_grant_that_comes_after_its_lease_gives_76_and_the_command_is_not_run() {
    let fake = Fake::start(|seen| match seen.action.as_str() {
        "acquire" => grant(seen, 7).later(Duration::from_millis(600)),
        "renew" => problem(409, "lease_expired"),
        _ => released(7),
    })
    .await;
    for options in [&["--ttl", "300ms", "--no-wait"][..], &["--ttl", "300ms"]] {
        let output = run(lock(&fake, options, "echo ran")).await;
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(76), true), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn what_cannot_be_used_gives_64_and_a_hint() {
    let fake = agreeing(60_000).await;
    for (arguments, hint) in [
        (&["lock", "db"][..], "CMD"),
        (&["lock", "db", "--ttl", "60", "--", "true"], "60s"),
        (&["lock", "db", "--tll", "60s", "--", "true"], "--ttl"),
        (&["lock", "db", "--wait", "1s", "--no-wait", "--", "true"], "exclude"),
        (&["lock", "", "--", "true"], "name"),
        (&["lock", "db", "--endpoints", "n1:7101", "--", "true"], "http://"),
        (&["unlock"], "lock"),
    ] {
        let mut command = holdfast(&fake.url());
        let output = run({
            command.args(arguments);
            command
        })
        .await;
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    assert!(fake.all().is_empty());
}
