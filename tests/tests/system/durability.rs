//! Nothing is answered before it is on stable storage.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use holdfast_tests::{Attempt, Cluster};
use tokio::task::JoinSet;

use crate::strace::{self, Event, Trace};

#[expect(clippy::print_stderr, reason = "a test that shows nothing must say so")]
fn skipped(why: &str) {
    eprintln!("*** SKIPPED, NOTHING IS SHOWN: {why}");
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

fn is_log(descriptor: &str) -> bool {
    Path::new(descriptor)
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("log-") && descriptor.starts_with('/'))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_success_leaves_after_its_entry_was_written_and_synced() {
    const CLIENTS: usize = 4;
    const LOCKS_EACH: usize = 8;
    if !strace::is_there() {
        return skipped("this machine has no strace");
    }
    let cluster = Cluster::start(1).await;
    let trace = Trace::of(cluster.node(1), cluster.folder().join("trace")).await;
    let mut clients = JoinSet::new();
    let name = |client: usize, number: usize| format!("durable-{client}-{number}-");
    for client in 0..CLIENTS {
        let roamer = cluster.roamer(0);
        clients.spawn(async move {
            for number in 0..LOCKS_EACH {
                let attempt = Attempt::at(name(client, number));
                roamer.acquire(&attempt).await.ok();
                roamer.renew(&attempt).await.ok();
                roamer.release(&attempt).await.ok();
            }
        });
    }
    clients.join_all().await;
    let events = trace.end();
    for lock in (0..CLIENTS).flat_map(|client| (0..LOCKS_EACH).map(move |number| name(client, number))) {
        assert_eq!(successes_after_their_sync(&events, &lock), 3, "{lock}: acquire, renew, release");
    }
}

/// Counts the successes that name the lock, each of which must come after one more synced entry that names it.
fn successes_after_their_sync(events: &[Event], lock: &str) -> usize {
    let (mut written, mut synced, mut answered) = (0, 0, 0);
    let mut syncing: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        match event {
            Event::Write { to, bytes } if is_log(to) && contains(bytes, lock) => written += 1,
            Event::Write { to, bytes }
                if !is_log(to) && contains(bytes, "HTTP/1.1 200") && contains(bytes, lock) =>
            {
                answered += 1;
                assert!(synced >= answered, "{lock}: success {answered} left after {synced} synced entries");
            }
            Event::Write { .. } => {}
            Event::SyncBegun { of } => {
                syncing.insert(of, written);
            }
            Event::SyncDone { of } => synced = synced.max(syncing.remove(of.as_str()).unwrap_or(0)),
        }
    }
    answered
}

/// Kind and flags of a frame that answers a request for a vote; see `docs/peer-protocol.md`.
const VOTE_ANSWER: [u8; 2] = [2, 1];
/// Begin and kind of the log's record of a vote.
const VOTE_RECORD: [u8; 3] = [b'H', b'R', 2];
/// Where kind and flags stand in a frame.
const FRAME_KIND_AT: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_is_synced_before_it_is_given() {
    if !strace::is_there() {
        return skipped("this machine has no strace");
    }
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let voters = cluster.others(leader);
    let mut traces = Vec::new();
    for id in &voters {
        let output = cluster.folder().join(format!("trace-{id}"));
        traces.push(Trace::of(cluster.node(*id), output).await);
    }
    cluster.node(leader).kill();
    cluster.leader_among(&voters).await;
    let given: usize = traces.into_iter().map(|trace| votes_after_their_sync(&trace.end())).sum();
    assert!(given > 0, "somebody was elected");
}

/// Counts the answers to requests for votes that came after a synced record of a vote; none may come before the sync.
fn votes_after_their_sync(events: &[Event]) -> usize {
    let (mut written, mut synced, mut given) = (0, 0, 0);
    let mut syncing: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        match event {
            Event::Write { to, bytes } if is_log(to) => {
                written += bytes.windows(3).filter(|window| *window == VOTE_RECORD).count();
            }
            Event::Write { bytes, .. }
                if bytes.get(FRAME_KIND_AT..FRAME_KIND_AT + 2) == Some(&VOTE_ANSWER) =>
            {
                assert_eq!(synced, written, "a vote was given while its record was not synced");
                given += usize::from(synced > 0);
            }
            Event::Write { .. } => {}
            Event::SyncBegun { of } => {
                syncing.insert(of, written);
            }
            Event::SyncDone { of } => synced = synced.max(syncing.remove(of.as_str()).unwrap_or(0)),
        }
    }
    given
}

/// The script says itself what it has found, or why the machine cannot do it (then its status is 77).
#[test]
fn what_was_acknowledged_is_there_after_power_cuts() {
    const ROUNDS: &str = "4";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/power-cuts");
    let output = Command::new(script)
        .args(["--rounds", ROUNDS, "--binary"])
        .arg(holdfast_tests::holdfast())
        .output()
        .expect("the script can be started");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(77) => skipped(&said),
        _ => panic!("{said}"),
    }
}
