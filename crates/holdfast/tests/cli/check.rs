//! The verdict on histories, real ones among them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fake::{Fake, Reply};
use crate::processes::{Notes, agreeing, holdfast, run, stderr};

/// Histories that `holdfast chaos` wrote.
fn history(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(name)
}

async fn checked(path: &Path, options: &[&str]) -> (i32, String, String) {
    let mut command = holdfast("");
    command.arg("check").arg(path).args(options);
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

#[tokio::test]
async fn the_history_of_a_healthy_cluster_is_clean() {
    let (status, stdout, stderr) = checked(&history("healthy.jsonl"), &[]).await;
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with("clean: 95 operations (5 unknown, 23 refused), 13 grants"), "{stdout}");
    assert!(stdout.contains("\nnot checked: no_late_expiry: "), "{stdout}");
}

#[tokio::test]
async fn a_violation_is_shown_on_a_time_line_and_drawn() {
    let notes = Notes::new();
    let page = notes.path("page.html");
    let options = ["--html", page.to_str().unwrap()];
    let (status, stdout, _) = checked(&history("hold-given-up.jsonl"), &options).await;
    assert_eq!(status, 1);
    assert!(stdout.starts_with("VIOLATED"), "{stdout}");
    assert!(stdout.contains("fence 7 was known at 2856993.234 ms, and fence 1 held the lock"), "{stdout}");
    assert!(stdout.lines().any(|line| line.ends_with("acquire c3-1 for 500 ms")), "{stdout}");
    assert!(notes.read("page.html").unwrap().contains("<svg"));
}

#[tokio::test]
async fn a_grant_that_was_told_and_taken_back_is_found_after_its_place_was_granted_anew() {
    let (status, stdout, _) = checked(&history("told-and-taken-back.jsonl"), &[]).await;
    assert_eq!(status, 1);
    assert!(stdout.contains("one attempt was granted twice, with fences 34 and 40"), "{stdout}");
}

#[tokio::test]
async fn the_verdict_in_json_has_the_operations_in_it() {
    let (status, stdout, _) = checked(&history("hold-given-up.jsonl"), &["--json"]).await;
    let verdict: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, verdict["verdict"].as_str()), (1, Some("violated")));
    let violation = &verdict["violations"][0];
    assert_eq!(violation["check"], "no_early_grant");
    assert_eq!(violation["operations"][0]["outcome"]["ok"]["granted"]["fence"], 1);
    let (status, stdout, _) = checked(&history("healthy.jsonl"), &["--json"]).await;
    let verdict: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (status, verdict["verdict"].as_str(), verdict["counts"]["grants"].as_u64()),
        (0, Some("clean"), Some(13))
    );
}

#[tokio::test]
async fn what_cannot_be_read_gives_64_and_names_file_line_and_field() {
    let notes = Notes::new();
    let header = r#"{"holdfast_history":1,"clock":null}"#;
    for (text, words) in [
        ("", "line 1: holdfast_history"),
        (r#"{"holdfast_history":9,"clock":null}"#, "version 9 is not known"),
        (&format!("{header}\n{{\"session\":{{}}}}"), "line 2: unknown variant `session`"),
        (&format!("{header}\n{{\"note\":{{\"text\":\"\"}}}}"), "line 2: missing field `at_ns`"),
    ] {
        let path = notes.path("history");
        std::fs::write(&path, text).unwrap();
        let (status, stdout, stderr) = checked(&path, &[]).await;
        assert_eq!((status, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains("history: ") && stderr.contains(words), "{stderr}");
    }
    let (status, _, stderr) = checked(&notes.path("missing"), &[]).await;
    assert!(status == 64 && stderr.contains("cannot read"), "{stderr}");
}

#[tokio::test]
async fn several_files_of_one_run_are_one_history() {
    let notes = Notes::new();
    let text = std::fs::read_to_string(history("hold-given-up.jsonl")).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let is_of_holder = |line: &&str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let id = value["invoke"]["id"].as_u64().or(value["complete"]["id"].as_u64());
        [3, 17, 27, 29].contains(&id.unwrap())
    };
    let (holder, others): (Vec<_>, Vec<_>) = rest.lines().partition(is_of_holder);
    for (name, lines) in [("holder", holder), ("others", others)] {
        std::fs::write(notes.path(name), format!("{header}\n{}\n", lines.join("\n"))).unwrap();
        assert_eq!(checked(&notes.path(name), &[]).await.0, 0, "{name} alone shows nothing");
    }
    let others = notes.path("others");
    assert_eq!(checked(&notes.path("holder"), &[others.to_str().unwrap()]).await.0, 1);
}

/// Runs the clients of `holdfast chaos` against a server.
async fn chaos(endpoints: &str, path: &Path) -> (i32, String) {
    let mut command = holdfast(endpoints);
    command.args(["chaos", "--seconds", "2", "--clients", "4", "--locks", "1", "--history"]).arg(path);
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn a_service_that_grants_a_lock_to_everybody_is_convicted() {
    let notes = Notes::new();
    let fake = agreeing(3_000).await;
    let (status, stdout) = chaos(&fake.url(), &notes.path("history")).await;
    assert!(status == 0 && stdout.contains(" operations: "), "{stdout}");
    let (status, stdout, _) = checked(&notes.path("history"), &[]).await;
    assert_eq!(status, 1);
    assert!(stdout.contains("was granted to two attempts"), "{stdout}");
}

#[tokio::test]
async fn a_service_that_says_nothing_of_use_is_accused_of_nothing() {
    let notes = Notes::new();
    let fake = Fake::start(|_| Reply::Body(502, "<html>Bad gateway</html>".into())).await;
    assert_eq!(chaos(&fake.url(), &notes.path("history")).await.0, 0);
    let (status, stdout, _) = checked(&notes.path("history"), &[]).await;
    assert_eq!(status, 0, "{stdout}");
    assert!(stdout.contains(", 0 grants"), "{stdout}");
}
