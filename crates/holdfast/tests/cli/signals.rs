//! `holdfast lock`: signals go to the command, and the lock is released when it has ended.

use std::time::Duration;

use crate::fake::{Fake, Reply, agree};
use crate::processes::{Notes, agreeing, lives, lock, signal, status, until, until_gone};
use crate::pty::Pty;

/// A command that notes the signals it gets, and ends a while after one that ends it.
const NOTING: &str = "
    for s in TERM INT HUP QUIT; do trap \"echo $s >> @got; sleep 0.3; echo done >> @got; exit 5\" $s; done
    trap 'echo USR1 >> @got' USR1
    echo $$ > @pid
    while :; do sleep 0.05; done";

#[tokio::test]
async fn a_signal_that_ends_is_passed_on_and_the_lock_is_released_after_the_commands_last_line() {
    for (number, name) in
        [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGHUP, "HUP"), (libc::SIGQUIT, "QUIT")]
    {
        let notes = Notes::new();
        let path = notes.path("got");
        let fake = Fake::start(move |seen| {
            if seen.action == "release" {
                let got = std::fs::read_to_string(&path).unwrap();
                assert!(got.ends_with("done\n"), "released too early: {got}");
            }
            agree(seen, 60_000)
        })
        .await;
        let child = lock(&fake, &[], &notes.script(NOTING)).spawn().unwrap();
        notes.pid("pid").await;
        signal(child.id().unwrap(), number);
        assert_eq!(status(child).await, 5);
        assert_eq!(notes.read("got").unwrap(), format!("{name}\ndone\n"));
        assert_eq!(fake.seen("release").len(), 1);
    }
}

#[tokio::test]
async fn a_signal_that_does_not_end_the_command_leaves_the_lock_alone() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let child = lock(&fake, &[], &notes.script(NOTING)).spawn().unwrap();
    let pid = notes.pid("pid").await;
    signal(child.id().unwrap(), libc::SIGUSR1);
    assert_eq!(notes.line("got").await, "USR1");
    assert!(lives(pid) && fake.seen("release").is_empty());
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 5);
}

#[tokio::test]
async fn a_command_without_handlers_ends_with_128_and_the_signal() {
    let fake = agreeing(60_000).await;
    let real_time = libc::SIGRTMIN() + 3;
    let ending = [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGUSR1,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGABRT,
        real_time,
    ];
    for (number, code) in ending.map(|number| (number, 128 + number)) {
        let notes = Notes::new();
        let script = notes.script("echo $$ > @pid; exec sleep 300");
        let child = lock(&fake, &[], &script).spawn().unwrap();
        let pid = notes.pid("pid").await;
        // The shell has become the sleep once its name says so.
        until("sleep", || {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().filter(|name| name == "sleep\n")
        })
        .await;
        signal(child.id().unwrap(), number);
        assert_eq!(status(child).await, code);
    }
}

#[tokio::test]
async fn a_signal_that_stops_the_command_does_not_stop_the_program_that_watches_its_lease() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let child = lock(&fake, &[], &notes.script("echo $$ > @pid; exec sleep 300")).spawn().unwrap();
    let (program, command) = (child.id().unwrap(), notes.pid("pid").await);
    signal(program, libc::SIGTTIN);
    until("the command stops", || (state(command) == 'T').then_some(())).await;
    assert_ne!(state(program), 'T');
    signal(program, libc::SIGTERM);
    assert_eq!(status(child).await, 143);
}

/// As the kernel shows it: `T` is stopped.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?')
}

#[tokio::test]
async fn renewals_go_on_while_a_command_takes_its_time_to_stop() {
    let notes = Notes::new();
    let fake = agreeing(1_200).await;
    let script = notes.script("trap 'sleep 2; exit 0' TERM; echo $$ > @pid; while :; do sleep 0.05; done");
    let child = lock(&fake, &["--ttl", "1200ms"], &script).spawn().unwrap();
    notes.pid("pid").await;
    let before = fake.seen("renew").len();
    signal(child.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(child).await, 0);
    assert!(fake.seen("renew").len() >= before + 3);
    assert_eq!(fake.all().last().unwrap().action, "release");
}

#[tokio::test]
async fn a_renewal_in_flight_does_not_keep_the_lock_from_being_released() {
    let fake =
        Fake::start(|seen| if seen.action == "renew" { Reply::Hang } else { agree(seen, 3_000) }).await;
    let notes = Notes::new();
    let script = notes.script("echo $$ > @pid; while [ ! -e @end ]; do sleep 0.02; done");
    let child = lock(&fake, &["--ttl", "3s"], &script).spawn().unwrap();
    fake.until_seen("renew", 1).await;
    std::fs::write(notes.path("end"), "").unwrap();
    assert_eq!(status(child).await, 0);
    assert_eq!(fake.seen("release").len(), 1);
}

#[tokio::test]
async fn a_hard_kill_takes_the_command_along_and_nobody_renews_any_more() {
    let fake = agreeing(1_500).await;
    let notes = Notes::new();
    let mut child =
        lock(&fake, &["--ttl", "1500ms"], &notes.script("echo $$ > @pid; exec sleep 300")).spawn().unwrap();
    let pid = notes.pid("pid").await;
    fake.until_seen("renew", 1).await;
    child.kill().await.unwrap();
    until_gone(pid).await;
    let renewals = fake.seen("renew").len();
    tokio::time::sleep(Duration::from_millis(1_000)).await; // Nothing is to happen in this time.
    assert_eq!(fake.seen("renew").len(), renewals);
}

#[tokio::test]
async fn ctrl_c_in_a_terminal_reaches_the_command_once() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let mut pty = Pty::open();
    let child = pty.spawn(lock(&fake, &[], &notes.script(NOTING)));
    notes.pid("pid").await;
    pty.write(b"\x03");
    assert_eq!(status(child).await, 5);
    assert_eq!(notes.read("got").unwrap(), "INT\ndone\n");
}

#[tokio::test]
async fn a_command_may_read_from_the_terminal() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let mut pty = Pty::open();
    let child = pty.spawn(lock(&fake, &[], &notes.script("read line; echo \"got $line\" > @line; exit 4")));
    fake.until_seen("acquire", 1).await;
    pty.write(b"hello\n");
    assert_eq!(status(child).await, 4);
    assert_eq!(notes.read("line").unwrap(), "got hello\n");
}

#[tokio::test]
async fn a_command_whose_output_goes_elsewhere_gets_the_terminal_when_it_asks_for_it() {
    let fake = agreeing(60_000).await;
    let notes = Notes::new();
    let mut pty = Pty::open();
    let script = notes.script("echo $$ > @pid; read line; echo \"got $line\" > @line; exit 4");
    let mut command = lock(&fake, &[], &script);
    let child = pty.spawn_with_output_elsewhere(&mut command);
    notes.pid("pid").await;
    pty.write(b"hello\n");
    assert_eq!(status(child).await, 4);
    assert_eq!(notes.read("line").unwrap(), "got hello\n");
}
