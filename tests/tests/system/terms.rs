//! Delay after a loss, least and longest hold, and once per period on real processes.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Cluster, PATIENCE, eventually, holdfast};
use serde_json::json;

const LONG_MS: u64 = 600_000;
const HOUR_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_after_a_lost_holder_outlives_the_leader_and_ends_with_the_next_grant() {
    let cluster = Cluster::start(3).await;
    let lost = Attempt::at("db").owner("lost").ttl_ms(500).delay_ms(5_000);
    let fence = cluster.roamer(0).acquire(&lost).await.ok().fence();
    let next = Attempt::at("db").owner("next").ttl_ms(LONG_MS).wait_ms(LONG_MS);
    let roamer = cluster.roamer(1);
    let waiting = tokio::spawn(async move { (roamer.acquire(&next).await.ok().fence(), Instant::now()) });
    let (seen, left) = eventually(PATIENCE, "the holder is lost", async || {
        let asked = Instant::now();
        let lock = cluster.roamer(0).lock("db").await.ok();
        let left = lock.body["delay_ms"].as_u64()?;
        assert_eq!((lock.held_fence(), lock.queue()), (None, vec!["next".to_owned()]));
        Some((asked, Duration::from_millis(left)))
    })
    .await;

    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    let others = cluster.others(leader);
    cluster.leader_among(&others).await;
    for id in &others {
        let lock = cluster.client(*id).lock("db").await.unwrap().ok();
        assert!(lock.body["delay_ms"].as_u64().is_some_and(|left| left > 0), "node {id}: {}", lock.body);
        let refused = cluster.client(*id).acquire(&Attempt::at("db")).await.unwrap();
        assert_eq!((refused.code(), refused.body.get("holder")), ("held", None), "{}", refused.body);
        assert!(refused.millis("delay_ms") <= left);
    }
    let (next_fence, granted) = waiting.await.unwrap();
    assert!(next_fence > fence);
    assert!(granted - seen >= left, "granted after {:?}, {left:?} were left", granted - seen);
    let lock = cluster.roamer(0).lock("db").await.ok();
    assert_eq!((lock.held_fence(), lock.body.get("delay_ms")), (Some(next_fence), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_least_hold_is_kept_over_a_restart_of_all_nodes_though_its_holder_has_released() {
    let cluster = Cluster::start(3).await;
    let brief = Attempt::at("db").owner("brief").ttl_ms(500).min_hold_ms(6_000);
    let fence = cluster.roamer(0).acquire(&brief).await.ok().fence();
    let asked = Instant::now();
    let left = cluster.roamer(1).release(&brief).await.ok().millis("effective_in_ms");
    cluster.kill_all();
    cluster.start_all();
    let lock = cluster.roamer(2).lock("db").await.ok();
    assert_eq!((lock.held_fence(), &lock.body["holders"][0]["releasing"]), (Some(fence), &json!(true)));
    assert!(cluster.roamer(0).release(&brief).await.ok().millis("effective_in_ms") <= left);
    let next = Attempt::at("db").owner("next").wait_ms(LONG_MS);
    cluster.roamer(1).acquire(&next).await.ok();
    assert!(asked.elapsed() >= left, "{:?} of {left:?}", asked.elapsed());
    // What has taken effect is an ordinary release.
    assert!(cluster.roamer(2).release(&brief).await.ok().body.get("effective_in_ms").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_do_not_stretch_a_longest_hold_over_a_killed_leader() {
    const MAX: Duration = Duration::from_secs(5);
    let cluster = Cluster::start(3).await;
    let held = Attempt::at("db").ttl_ms(LONG_MS).max_hold_ms(5_000);
    let began = Instant::now();
    let grant = cluster.roamer(0).acquire(&held).await.ok();
    assert_eq!((grant.millis("max_left_ms"), grant.millis("expires_in_ms")), (MAX, MAX));
    let next = Attempt::at("db").ttl_ms(LONG_MS).wait_ms(LONG_MS);
    let roamer = cluster.roamer(1);
    let waiting = tokio::spawn(async move { roamer.acquire(&next).await.ok().fence() });
    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    let roamer = cluster.roamer(0);
    let ended = eventually(MAX + PATIENCE, "the longest hold is over", async || {
        let renewed = roamer.renew(&held).await;
        if renewed.is_ok() {
            assert!(renewed.millis("expires_in_ms") <= renewed.millis("max_left_ms"), "{}", renewed.body);
        }
        (!renewed.is_ok()).then_some(renewed)
    })
    .await;
    assert_eq!(ended.code(), "lease_expired");
    assert!(began.elapsed() >= MAX, "{:?}", began.elapsed());
    assert!(waiting.await.unwrap() > grant.fence());
}

/// A job that notes that it ran, as cron starts it on some machine.
fn job(cluster: &Cluster, node: u64, once: &str, script: &str) -> Command {
    let mut command = Command::new(holdfast());
    command.args(["lock", "nightly", "--once", once, "--ttl", "10s", "--", "sh", "-c", script]);
    let urls: Vec<_> = cluster.ids().iter().map(|id| cluster.client(*id).url().to_owned()).collect();
    let at = usize::try_from(node).unwrap() % urls.len();
    let urls = [&urls[at..], &urls[..at]].concat().join(",");
    command.env("HOLDFAST_ENDPOINTS", urls).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn outputs(commands: Vec<Command>) -> Vec<Output> {
    let children: Vec<_> = commands.into_iter().map(|mut command| command.spawn().unwrap()).collect();
    let wait = || children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    tokio::task::block_in_place(wait)
}

fn runs(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| output.stdout == b"ran\n").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_jobs_that_start_at_once_on_all_machines_one_runs_and_after_a_restart_none() {
    let cluster = Cluster::start(3).await;
    // One that fails does not count: the next one runs.
    let failed = outputs(vec![job(&cluster, 0, "1h", "exit 3")]).await;
    assert_eq!(failed[0].status.code(), Some(3));
    let all = outputs(cluster.ids().iter().map(|id| job(&cluster, *id, "1h", "echo ran")).collect()).await;
    assert_eq!(runs(&all), 1, "{all:?}");
    for output in &all {
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert_eq!(told.contains("was done already by"), output.stdout.is_empty(), "{told}");
    }
    cluster.kill_all();
    cluster.start_all();
    cluster.ready().await;
    let again = outputs(cluster.ids().iter().map(|id| job(&cluster, *id, "1h", "echo ran")).collect()).await;
    assert_eq!(runs(&again), 0, "{again:?}");
    let asked = Attempt::at("nightly").once_ms(HOUR_MS);
    let refused = cluster.roamer(1).acquire(&asked).await;
    assert_eq!(
        (refused.code(), refused.body["fence"].as_u64()),
        ("already_done", Some(2)),
        "{}",
        refused.body
    );
    let (next_in, done_ago) = (refused.millis("next_in_ms"), refused.millis("done_ms_ago"));
    assert!(next_in + done_ago <= Duration::from_millis(HOUR_MS), "{}", refused.body);
    cluster.equal_digests(&cluster.ids()).await;
    // A lock that only remembers is not listed, and free for whoever asks for no period.
    assert!(cluster.roamer(0).list("").await.is_empty());
    cluster.roamer(0).acquire(&Attempt::at("nightly")).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_again_in_the_next_period_and_the_lock_is_forgotten_after_it() {
    let cluster = Cluster::start(3).await;
    for round in 1..=2 {
        eventually(PATIENCE, "the next period has come", async || {
            (runs(&outputs(vec![job(&cluster, round, "2s", "echo ran")]).await) == 1).then_some(())
        })
        .await;
    }
    assert_eq!(cluster.roamer(0).acquire(&Attempt::at("other")).await.ok().fence(), 3);
}
