//! `holdfast lock`: a command whose lease cannot be renewed is gone before the lease is over.

use std::time::{Duration, Instant};

use crate::fake::{Fake, Reply, agree, problem};
use crate::processes::{Notes, agreeing, lock, signal, status, until_gone};

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn at_the_deadline_the_whole_group_was_told_to_stop_and_is_killed_before_the_lease_is_over() {
    let answers = [Reply::Hang, problem(503, "no_leader"), Reply::HangUp, Reply::Body(502, "<html>".into())];
    let mut tests = tokio::task::JoinSet::new();
    for answer in answers {
        tests.spawn(lose(answer));
    }
    tests.join_all().await;
}

async fn lose(answer: Reply) {
    let notes = Notes::new();
    let fake = agreeing(3_000).await;
    let script = "trap 'echo TERM > @told' TERM; sleep 300 & echo $! > @worker; echo $$ > @pid; while :; do sleep 0.02; done";
    let child = lock(&fake, &["--ttl", "3s"], &notes.script(script)).spawn().unwrap();
    let (pid, worker) = (notes.pid("pid").await, notes.pid("worker").await);
    fake.until_seen("renew", 1).await;
    let last_good = fake.all().last().unwrap().at;
    fake.now(move |_| answer.clone());
    until_gone(pid).await;
    until_gone(worker).await;
    assert!(last_good.elapsed() < TTL, "gone after {:?}", last_good.elapsed());
    assert_eq!(notes.line("told").await, "TERM");
    assert_eq!(status(child).await, 76);
}

#[tokio::test]
async fn a_definite_loss_ends_the_command_at_once() {
    for code in ["lease_expired", "lease_forced", "lease_released", "not_holder"] {
        let notes = Notes::new();
        let fake = Fake::start(
            move |seen| if seen.action == "renew" { problem(409, code) } else { agree(seen, 3_000) },
        )
        .await;
        let began = Instant::now();
        let child = lock(&fake, &["--ttl", "3s"], &notes.script("trap '' TERM; echo $$ > @pid; sleep 300"))
            .spawn()
            .unwrap();
        notes.pid("pid").await;
        assert_eq!(status(child).await, 76);
        assert!(began.elapsed() < TTL * 2 / 3, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_short_time_without_a_leader_is_not_noticed_by_the_command() {
    let fake = agreeing(3_000).await;
    let child = lock(&fake, &["--ttl", "3s"], "sleep 4; exit 9").spawn().unwrap();
    fake.until_seen("acquire", 1).await;
    let began = Instant::now();
    let outage = Duration::from_millis(1_000)..Duration::from_millis(1_700);
    fake.now(move |seen| match outage.contains(&began.elapsed()) {
        true => problem(503, "no_leader"),
        false => agree(seen, 3_000),
    });
    assert_eq!(status(child).await, 9);
}

#[tokio::test]
async fn a_loss_that_comes_to_light_at_the_release_gives_76() {
    let fake = Fake::start(|seen| {
        if seen.action == "release" { problem(409, "lease_forced") } else { agree(seen, 60_000) }
    })
    .await;
    assert_eq!(status(lock(&fake, &[], "true").spawn().unwrap()).await, 76);
}

#[tokio::test]
async fn a_release_that_is_not_confirmed_does_not_change_the_commands_status() {
    let fake =
        Fake::start(
            |seen| if seen.action == "release" { problem(503, "no_leader") } else { agree(seen, 60_000) },
        )
        .await;
    let child = lock(&fake, &["--timeout", "300ms"], "exit 3").spawn().unwrap();
    assert_eq!(status(child).await, 3);
}

#[tokio::test]
async fn a_stopped_group_is_continued_to_hear_that_it_must_stop() {
    let notes = Notes::new();
    let fake = agreeing(60_000).await;
    let script = notes.script("trap 'exit 8' TERM; echo $$ > @pid; while :; do sleep 0.02; done");
    let child = lock(&fake, &[], &script).spawn().unwrap();
    signal(notes.pid("pid").await, libc::SIGSTOP);
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 8);
}
