//! Members that come, go, move and fail, and leadership that is handed over.

mod by_hand;
mod joining;
mod leading;
mod load;
mod moving;
mod removal;

use holdfast_tests::{Answer, Cluster, ClusterView, Node, PATIENCE, Reply, eventually};
use serde_json::json;

/// Asks a node to remove a member.
async fn remove(cluster: &Cluster, through: u64, id: u64) -> Reply {
    cluster.client(through).delete(&format!("/v1/cluster/members/{id}"), &json!({})).await
}

/// Asks a node for another leader.
async fn transfer(cluster: &Cluster, through: u64, to: u64) -> Answer {
    let reply = cluster.client(through).post("/v1/cluster/transfer", &json!({ "to": to }), PATIENCE).await;
    reply.expect("the node runs")
}

/// Waits until a node sees the cluster so.
async fn sees(cluster: &Cluster, id: u64, what: &str, is_so: impl Fn(&ClusterView) -> bool) -> ClusterView {
    let what = format!("node {id} sees {what}");
    eventually(PATIENCE, &what, async || cluster.status(id).await.filter(&is_so)).await
}

/// Waits until a node is a voter in the eyes of another one, and serves.
async fn votes(cluster: &Cluster, through: u64, node: &Node) {
    let id = node.id();
    sees(cluster, through, &format!("that {id} votes"), |view| view.voter_ids().contains(&id)).await;
    node.ready(PATIENCE).await;
}

/// The leader and its term.
async fn reign(cluster: &Cluster) -> (u64, u64) {
    let leader = cluster.leader().await;
    (leader, cluster.status(leader).await.expect("the leader runs").term())
}
