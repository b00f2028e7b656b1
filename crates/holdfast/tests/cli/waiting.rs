//! `holdfast lock`: waiting for the lock, and its end by a signal.

use std::time::{Duration, Instant};

use crate::fake::{Fake, Reply, released};
use crate::processes::{Notes, agreeing, holdfast, lock, run, signal, status};

#[tokio::test]
async fn a_signal_ends_the_wait_within_a_second_and_gives_the_place_in_the_queue_back() {
    for (number, code) in
        [(libc::SIGINT, 130), (libc::SIGTERM, 143), (libc::SIGHUP, 129), (libc::SIGQUIT, 131)]
    {
        let fake = Fake::start(|seen| match seen.action.as_str() {
            "acquire" => Reply::Hang,
            _ => released(0),
        })
        .await;
        let notes = Notes::new();
        let child = lock(&fake, &[], &notes.script("touch @ran")).spawn().unwrap();
        fake.until_seen("acquire", 1).await;
        let began = Instant::now();
        signal(child.id().unwrap(), number);
        assert_eq!(status(child).await, code);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(fake.seen("release")[0].token(), fake.seen("acquire")[0].token());
        assert!(notes.read("ran").is_none());
    }
}

#[tokio::test]
async fn a_signal_ends_the_wait_within_a_second_also_when_nobody_answers() {
    let fake = Fake::start(|_| Reply::Hang).await;
    let child = lock(&fake, &[], "true").spawn().unwrap();
    fake.until_seen("acquire", 1).await;
    let began = Instant::now();
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 143);
    assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn it_waits_as_long_as_it_is_told_to_and_a_flag_goes_before_the_environment() {
    type Case = (&'static [&'static str], &'static [(&'static str, &'static str)], u64);
    let cases: [Case; 8] = [
        (&[], &[], 600_000),
        (&["--wait", "2h"], &[], 600_000),
        (&["--wait", "1m30s"], &[], 90_000),
        (&["--no-wait"], &[], 0),
        (&[], &[("HOLDFAST_WAIT", "5s")], 5_000),
        (&["--no-wait"], &[("HOLDFAST_WAIT", "5s")], 0),
        (&["--wait", "7s"], &[("HOLDFAST_WAIT", "5s"), ("HOLDFAST_NO_WAIT", "true")], 7_000),
        (&[], &[("HOLDFAST_NO_WAIT", "0")], 600_000),
    ];
    let fake = agreeing(60_000).await;
    for (flags, environment, wait_ms) in cases {
        let mut command = holdfast(&fake.url());
        command.args(["lock", "db"]).args(flags).args(["--", "true"]).envs(environment.iter().copied());
        assert!(run(command).await.status.success());
        assert_eq!(fake.seen("acquire").last().unwrap().wait_ms(), wait_ms, "{flags:?} {environment:?}");
    }
}
