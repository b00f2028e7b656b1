//! The same from a shell.

use std::process::{Command, Output};

use holdfast_tests::{Cluster, holdfast};
use serde_json::Value;

fn cluster_command(cluster: &Cluster, args: &[&str]) -> Output {
    let urls: Vec<_> = cluster.nodes().iter().map(|node| node.client().url().to_owned()).collect();
    let mut command = Command::new(holdfast());
    command.arg("cluster").args(args).args(["--endpoints", &urls.join(",")]);
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_sees_changes_and_refusals_by_exit_status_text_and_json() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let other = cluster.others(leader)[0].to_string();

    let status = cluster_command(&cluster, &["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.status.success() && text.contains("LAST SEEN") && text.contains("health       ok"),
        "{text}"
    );

    let transferred = cluster_command(&cluster, &["transfer", "--to", &other, "--json"]);
    assert!(transferred.status.success());
    assert_eq!(json(&transferred)["leader_id"].to_string(), other);
    let refused = cluster_command(&cluster, &["transfer", "--to", "9", "--json"]);
    assert_eq!((refused.status.code(), json(&refused)["code"].as_str()), (Some(1), Some("not_found")));

    let removed = cluster_command(&cluster, &["remove", &leader.to_string()]);
    let text = String::from_utf8_lossy(&removed.stdout).into_owned();
    assert!(removed.status.success() && text.contains(&format!("removed node {leader}")), "{text}");
    let last = cluster.others(leader).into_iter().find(|id| id.to_string() != other).unwrap();
    assert!(cluster_command(&cluster, &["remove", &last.to_string()]).status.success());
    let refused = cluster_command(&cluster, &["remove", &other, "--force", "--json"]);
    assert_eq!((refused.status.code(), json(&refused)["code"].as_str()), (Some(1), Some("unsafe")));
}
