//! Nodes that come back at other addresses.

use holdfast_tests::{Addresses, Attempt, Cluster, LoopbackHost, PATIENCE};

use super::sees;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_moves_tells_the_others_where_it_is_whether_it_leads_or_not() {
    let mut cluster = Cluster::start(3).await;
    let first = cluster.leader().await;
    let fence = cluster.client(first).acquire(&Attempt::at("db").ttl_ms(600_000)).await.unwrap().ok().fence();
    for id in [cluster.others(first)[0], first] {
        let at = LoopbackHost::choose().reserve(1).remove(0);
        cluster.node(id).terminate().await;
        let moved = cluster.node(id).moved(at, vec![]);
        cluster.dismiss(id);
        moved.start();
        moved.ready(PATIENCE).await;
        let through = cluster.ids()[0];
        let new = at.peer.to_string();
        sees(&cluster, through, "its new address", |view| {
            view.member(id).is_some_and(|member| member["peer_addr"] == new.as_str())
        })
        .await;
        cluster.adopt(moved);
        cluster.leader().await;
    }
    for id in cluster.ids() {
        assert_eq!(cluster.client(id).lock("db").await.unwrap().ok().held_fence(), Some(fence));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_cluster_moves_with_its_list_of_addresses() {
    let mut cluster = Cluster::start(3).await;
    let fence = cluster.client(1).acquire(&Attempt::at("db").ttl_ms(600_000)).await.unwrap().ok().fence();
    cluster.kill_all();
    let new: Vec<Addresses> = LoopbackHost::choose().reserve(3);
    let list = new.iter().zip(1..).map(|(at, id)| format!("{id}={}", at.peer)).collect::<Vec<_>>().join(",");
    for (at, id) in new.iter().zip(1..) {
        let moved = cluster.node(id).moved(*at, vec!["--initial-cluster".into(), list.clone()]);
        cluster.dismiss(id);
        cluster.adopt(moved);
    }
    cluster.start_all();
    cluster.leader().await;
    for (at, id) in new.iter().zip(1..) {
        sees(&cluster, 1, "all new addresses", |view| {
            view.member(id).is_some_and(|member| member["peer_addr"] == at.peer.to_string())
        })
        .await;
    }
    assert_eq!(cluster.client(2).lock("db").await.unwrap().ok().held_fence(), Some(fence));

    // From now on the list is not needed any more.
    cluster.kill_all();
    for id in cluster.ids() {
        let node = cluster.node(id).moved(cluster.node(id).addresses(), vec![]);
        cluster.dismiss(id);
        cluster.adopt(node);
    }
    cluster.start_all();
    cluster.leader().await;
}
