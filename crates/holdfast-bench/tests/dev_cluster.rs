//! The load generator against a whole cluster in this process.

use std::sync::Arc;
use std::time::Duration;

use holdfast_bench::holdfast::Holdfast;
use holdfast_bench::memory::{MemoryPlan, fill};
use holdfast_bench::{LockClient, Placement, Plan, Settings, Target, TargetError, Workload, measure};
use holdfast_server::{DevCluster, DevOptions, dev_cluster};

async fn cluster() -> DevCluster {
    let options = DevOptions { base_port: 0, ..DevOptions::default() };
    let cluster = dev_cluster(options).await.expect("a cluster starts on free ports");
    cluster.ready().await.expect("it elects a leader");
    cluster
}

async fn target(cluster: &DevCluster, placement: Placement) -> Arc<Holdfast> {
    let urls = cluster.urls().to_vec();
    Arc::new(Holdfast::open(&urls, placement).await.expect("the cluster knows its leader"))
}

fn settings(number: usize) -> Settings {
    Settings { number, owner: "o".into(), ttl: Duration::from_secs(60) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_workload_runs_without_a_failure() {
    let cluster = cluster().await;
    for placement in [Placement::All, Placement::Leader] {
        let target = target(&cluster, placement).await;
        for workload in Workload::ALL {
            let (warm_up, measured) = (Duration::from_millis(50), Duration::from_millis(300));
            let plan = Plan { workload, clients: workload.clients(4), warm_up, measured };
            let run = measure(&target, plan, |_| {}).await.unwrap();
            assert_eq!(run.failures, 0, "{workload} {placement:?}: {:?}", run.first_failure);
            assert!(run.operations > 0);
            if workload == Workload::Renew {
                assert_eq!(run.acquire, None);
            } else if run.operations > plan.clients as u64 {
                // Some client has done two, and so an acquire in between.
                assert!(run.acquire.is_some(), "{workload} {placement:?}: no latencies");
            }
        }
    }
    cluster.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_client_leaves_the_queue_of_a_hot_lock() {
    let cluster = cluster().await;
    let target = target(&cluster, Placement::All).await;
    let mut holder = target.connect(settings(0)).await.unwrap();
    let mut gone = target.connect(settings(1)).await.unwrap();
    holder.acquire("hot", Duration::ZERO).await.unwrap();
    let waits =
        tokio::time::timeout(Duration::from_millis(300), gone.acquire("hot", Duration::from_secs(60)));
    waits.await.unwrap_err();
    drop(gone);
    holder.release().await.unwrap();
    let mut next = target.connect(settings(2)).await.unwrap();
    next.acquire("hot", Duration::from_secs(10)).await.unwrap();
    cluster.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filled_cluster_holds_as_many_locks_as_were_asked_for() {
    let cluster = cluster().await;
    let target = target(&cluster, Placement::Leader).await;
    let plan = MemoryPlan { locks: 300, clients: 4, pids: vec![std::process::id()], settle: Duration::ZERO };
    let report = fill(&target, &plan, |_| {}).await.unwrap();
    assert_eq!((report.locks, report.processes.len()), (300, 1));
    cluster.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let target = Holdfast::open(&[format!("http://{address}")], Placement::All).await.unwrap();
    let error = target.connect(settings(0)).await.unwrap_err();
    assert!(matches!(&error, TargetError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
