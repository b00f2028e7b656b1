//! `holdfast lock`: no process of the command's group outlives the lock.

use std::path::PathBuf;

use crate::fake::{Fake, agree};
use crate::processes::{Notes, lives, lock, signal, status};

/// A fake that checks, at the release, that the processes whose ids stand in these notes are gone.
async fn releasing_after_the_end_of(pids: Vec<PathBuf>) -> Fake {
    Fake::start(move |seen| {
        if seen.action == "release" {
            for path in &pids {
                let pid: u32 = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
                assert!(!lives(pid), "released while {} lives", path.display());
            }
        }
        agree(seen, 60_000)
    })
    .await
}

#[tokio::test]
async fn what_a_command_leaves_behind_in_its_group_is_stopped_before_the_lock_is_released() {
    let notes = Notes::new();
    let fake = releasing_after_the_end_of(vec![notes.path("worker"), notes.path("orphan")]).await;
    let script = "sleep 300 & echo $! > @worker; ( ( sleep 300 & echo $! > @orphan ) & ); while [ ! -s @orphan ]; do sleep 0.02; done; exit 6";
    let child = lock(&fake, &[], &notes.script(script)).spawn().unwrap();
    assert_eq!(status(child).await, 6);
    assert_eq!(fake.seen("release").len(), 1);
}

#[tokio::test]
async fn a_worker_behind_a_shell_is_ended_with_it_by_every_signal_that_ends() {
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let notes = Notes::new();
        let fake = releasing_after_the_end_of(vec![notes.path("worker"), notes.path("shell")]).await;
        let script = "sleep 300 & echo $! > @worker; sleep 300 & echo $$ > @shell; wait";
        let child = lock(&fake, &["--kill-after", "300ms"], &notes.script(script)).spawn().unwrap();
        notes.pid("shell").await;
        signal(child.id().unwrap(), number);
        assert_eq!(status(child).await, 128 + number);
        assert_eq!(fake.seen("release").len(), 1);
    }
}

#[tokio::test]
async fn a_group_that_ignores_the_signal_is_killed_after_its_grace_and_only_then_the_lock_is_released() {
    let notes = Notes::new();
    let fake = releasing_after_the_end_of(vec![notes.path("stubborn"), notes.path("worker")]).await;
    let script = "trap '' TERM; sleep 300 & echo $! > @worker; echo $$ > @stubborn; wait; sleep 300";
    let child = lock(&fake, &["--kill-after", "300ms"], &notes.script(script)).spawn().unwrap();
    notes.pid("stubborn").await;
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 137);
    assert_eq!(fake.seen("release").len(), 1);
}
