//! Looking at a node does not harm it.

use std::time::Duration;

use holdfast_tests::{Attempt, Cluster, Roamer};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_looked_at_without_a_pause_goes_on_serving() {
    const FOR: Duration = Duration::from_secs(5);
    const WATCHERS_EACH: usize = 4;
    let cluster = Cluster::start(3).await;
    let until = Instant::now() + FOR;
    let mut watchers = JoinSet::new();
    for (node, number) in cluster.ids().into_iter().flat_map(|id| (0..WATCHERS_EACH).map(move |n| (id, n))) {
        let client = cluster.client(node);
        let path = ["/readyz", "/metrics", "/v1/cluster", "/debug/digest"][number];
        watchers.spawn(async move {
            while Instant::now() < until {
                let answer = client.get(path).await.unwrap_or_else(|why| panic!("{path}: {why:?}"));
                assert!(answer.is_ok() || path == "/readyz", "{path}: {answer:?}");
            }
        });
    }
    let mut workers = JoinSet::new();
    for number in 0..6 {
        workers.spawn(work(cluster.roamer(number), number, until));
    }
    workers.join_all().await;
    watchers.join_all().await;
    let leader = cluster.leader().await;
    assert!(cluster.client(leader).acquire(&Attempt::at("after")).await.unwrap().is_ok());
}

async fn work(roamer: Roamer, number: usize, until: Instant) {
    while Instant::now() < until {
        let attempt = Attempt::at(format!("busy-{number}"));
        let served = async {
            roamer.acquire(&attempt).await.ok();
            roamer.release(&attempt).await.ok();
        };
        timeout_at(until + Duration::from_secs(5), served).await.expect("the cluster serves");
    }
}
