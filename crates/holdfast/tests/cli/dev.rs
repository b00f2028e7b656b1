//! Against a real cluster: `holdfast dev` as a process of its own.

use std::process::Stdio;
use std::time::{Duration, Instant};

use holdfast_client::{Client, Consistency};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::processes::{Notes, holdfast, run, signal, status, stderr, until, until_gone};

struct Dev {
    process: Child,
    urls: Vec<String>,
}

impl Dev {
    async fn start() -> Self {
        let mut command = holdfast("");
        command.args(["dev", "--base-port", "0"]).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut urls = Vec::new();
        let starting = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("it gets ready");
                if line == "ready" {
                    return;
                }
                urls.push(line);
            }
        };
        tokio::time::timeout(Duration::from_secs(30), starting).await.expect("it gets ready in time");
        Self { process, urls }
    }

    fn endpoints(&self) -> String {
        self.urls.join(",")
    }

    fn client(&self) -> Client {
        Client::builder().endpoints(self.urls.clone()).build().unwrap()
    }

    async fn stop(self, number: i32) -> i32 {
        signal(self.process.id().unwrap(), number);
        status(self.process).await
    }
}

#[tokio::test]
async fn a_development_cluster_ends_cleanly_by_either_signal() {
    for number in [libc::SIGTERM, libc::SIGINT] {
        let dev = Dev::start().await;
        assert_eq!(dev.urls.len(), 3);
        assert_eq!(dev.stop(number).await, 0);
    }
}

#[tokio::test]
async fn free_ports_are_refused_for_a_folder_that_has_a_cluster_in_it() {
    let notes = Notes::new();
    let start = || {
        let mut command = holdfast("");
        command.args(["dev", "--nodes", "1", "--base-port", "0", "--data-dir"]).arg(notes.path("data"));
        command
    };
    let mut first = start().stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    while lines.next_line().await.unwrap().expect("it gets ready") != "ready" {}
    signal(first.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(first).await, 0);
    let again = run(start()).await;
    assert_eq!(again.status.code(), Some(64));
    assert!(stderr(&again).contains("use another folder"), "{}", stderr(&again));
}

#[tokio::test]
async fn a_taken_port_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = holdfast("");
    command.args(["dev", "--nodes", "1", "--base-port", &port]);
    let output = run(command).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--base-port 0 takes free ports"), "{}", stderr(&output));
}

#[tokio::test]
async fn of_three_jobs_that_start_at_once_without_waiting_exactly_one_runs() {
    let dev = Dev::start().await;
    let notes = Notes::new();
    let mut jobs = JoinSet::new();
    for _ in 0..3 {
        let mut command = holdfast(&dev.endpoints());
        let script = notes.script("echo ran >> @ran; sleep 2");
        command.args(["lock", "job", "--no-wait", "--", "sh", "-c", &script]);
        jobs.spawn(async move { run(command).await.status.code().unwrap() });
    }
    let mut codes = jobs.join_all().await;
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75]);
    assert_eq!(notes.read("ran").unwrap(), "ran\n");
}

#[tokio::test]
async fn jobs_that_wait_follow_each_other_without_sleeping_over_a_free_lock() {
    let dev = Dev::start().await;
    let notes = Notes::new();
    let began = Instant::now();
    let mut jobs = JoinSet::new();
    for _ in 0..3 {
        let mut command = holdfast(&dev.endpoints());
        let script = notes.script("mkdir @inside && sleep 1 && rmdir @inside");
        command.args(["lock", "job", "--", "sh", "-c", &script]);
        jobs.spawn(async move { run(command).await.status.code().unwrap() });
    }
    assert_eq!(jobs.join_all().await, [0, 0, 0]);
    // Three times one second, and what processes take to start on a busy machine: no pause of several seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_hard_killed_holder_blocks_the_next_one_for_its_ttl_and_no_longer() {
    let dev = Dev::start().await;
    let notes = Notes::new();
    let mut first = holdfast(&dev.endpoints());
    let script = notes.script("echo $$ > @pid; exec sleep 300");
    first.args(["lock", "job", "--ttl", "2s", "--", "sh", "-c", &script]);
    let mut first = first.spawn().unwrap();
    let pid = notes.pid("pid").await;
    first.kill().await.unwrap();
    let killed = Instant::now();
    until_gone(pid).await;
    let mut second = holdfast(&dev.endpoints());
    second.args(["lock", "job", "--wait", "20s", "--", "true"]);
    assert!(run(second).await.status.success());
    assert!(killed.elapsed() < Duration::from_millis(3_500), "{:?}", killed.elapsed());
}

#[tokio::test]
async fn waiters_are_served_in_the_order_of_the_queue_over_all_nodes() {
    let dev = Dev::start().await;
    let client = dev.client();
    let mut holder = client.lock("job").acquire().await.unwrap();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiters = JoinSet::new();
    for at in 0..12_usize {
        let node = Client::builder().endpoints([dev.urls[at % 3].clone()]).build().unwrap();
        let served = served.clone();
        waiters.spawn(async move {
            let request = node.lock("job").owner(format!("w{at}")).wait(Duration::from_secs(60));
            let mut guard = request.acquire().await.unwrap();
            served.send((at, guard.fence())).unwrap();
            guard.release().await.unwrap();
        });
        let queued = async {
            while client.get("job", Consistency::Linearizable).await.unwrap().queue_length <= at as u64 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), queued).await.expect("the waiter takes its place");
    }
    holder.release().await.unwrap();
    waiters.join_all().await;
    let mut all = Vec::new();
    while let Ok(one) = order.try_recv() {
        all.push(one);
    }
    assert_eq!(all.iter().map(|(at, _)| *at).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1), "{all:?}");
}

#[tokio::test]
async fn an_interrupted_waiter_leaves_the_queue_as_it_ends() {
    let dev = Dev::start().await;
    let client = dev.client();
    let mut holder = client.lock("job").acquire().await.unwrap();
    let mut command = holdfast(&dev.endpoints());
    command.args(["lock", "job", "--", "echo", "ran"]);
    let waiter = command.spawn().unwrap();
    let length = async |expected: u64| {
        while client.get("job", Consistency::Linearizable).await.unwrap().queue_length != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), length(1)).await.expect("it takes its place");
    signal(waiter.id().unwrap(), libc::SIGINT);
    assert_eq!(status(waiter).await, 130);
    tokio::time::timeout(Duration::from_secs(2), length(0)).await.expect("its place is free");
    holder.release().await.unwrap();
}

#[tokio::test]
async fn a_node_serves_until_it_is_told_to_stop() {
    let notes = Notes::new();
    let mut command = holdfast("");
    command.args(["serve", "--node-id", "1", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(notes.path("data")).args(["--log-format", "json"]);
    let mut node = command.spawn().unwrap();
    let mut lines = BufReader::new(node.stderr.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("it says where it serves");
        let line: serde_json::Value = serde_json::from_str(&line).expect("all logs are JSON");
        if let Some(url) = line["url"].as_str() {
            break url.to_owned();
        }
    };
    let logs = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let client = Client::builder().endpoints([url]).build().unwrap();
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    signal(node.id().unwrap(), libc::SIGTERM);
    assert_eq!(status(node).await, 0);
    logs.await.unwrap();
    until("the data", || notes.path("data").exists().then_some(())).await;
}

#[tokio::test]
async fn what_the_clients_of_chaos_are_told_by_a_healthy_cluster_is_clean() {
    let dev = Dev::start().await;
    let notes = Notes::new();
    let history = notes.path("history");
    let mut chaos = holdfast(&dev.endpoints());
    chaos.args(["chaos", "--seconds", "6", "--history"]).arg(&history);
    let output = run(chaos).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let mut check = holdfast("");
    check.arg("check").arg(&history);
    let output = run(check).await;
    let verdict = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && verdict.starts_with("clean: "), "{verdict}");
    assert!(!verdict.contains(", 0 grants"), "{verdict}");
}
