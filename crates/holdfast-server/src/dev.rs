//! A whole cluster in one process on loopback, for development and tests.

mod stored;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::try_join_all;
use holdfast_replica::handle::{Consistency, Timing};
use holdfast_replica::node::NodeReplica;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::stored::Shape;
use crate::config::ServeOptions;
use crate::front::told_to_stop;
use crate::node::{Listeners, Node, ServeError, bind};

/// A node's peer port is this much above its client port.
const PEER_PORT_OFFSET: u16 = 100;
/// Most nodes: with more, client ports would run into peer ports.
const NODES_MAX: u16 = 99;
/// How often a free pair of ports is looked for.
const PORT_TRIES: usize = 100;
/// How often a cluster that starts is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(10);

/// What a development cluster looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevOptions {
    /// How many nodes, 1 to 99.
    pub nodes: u16,
    /// Client port of the first node; the others follow, peer ports are 100 above. 0 picks free ports.
    pub base_port: u16,
    /// Where the nodes keep their data, in a folder each; none: a temporary folder, removed at the end.
    pub data_dir: Option<PathBuf>,
    /// How quickly a lost leader is noticed.
    pub timing: Timing,
    /// `PREFIX,PREFIX,…`: what locks are counted by.
    pub metrics_prefixes: Option<String>,
}

impl Default for DevOptions {
    fn default() -> Self {
        Self { nodes: 3, base_port: 7101, data_dir: None, timing: Timing::default(), metrics_prefixes: None }
    }
}

/// A running development cluster. Dropped without [`DevCluster::shutdown`], it stops without handing anything over.
#[derive(Debug)]
pub struct DevCluster {
    urls: Vec<String>,
    replicas: Vec<NodeReplica>,
    nodes: JoinSet<Result<(), ServeError>>,
    stop: watch::Sender<bool>,
    temporary: Option<TempDir>,
}

/// Starts a cluster. It is usable once [`DevCluster::ready`] has resolved.
///
/// # Errors
/// A port that is taken, a folder that cannot be used or has a cluster at other ports, or a number of nodes outside 1
/// to 99.
pub async fn dev_cluster(options: DevOptions) -> Result<DevCluster, ServeError> {
    if !(1..=NODES_MAX).contains(&options.nodes) {
        let what = format!("a development cluster has 1 to {NODES_MAX} nodes, got {}", options.nodes);
        return Err(ServeError::Refused(what));
    }
    let temporary = match options.data_dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("holdfast-dev-").tempdir().map_err(ServeError::Folder)?),
    };
    let folder = options.data_dir.as_deref().or(temporary.as_ref().map(TempDir::path));
    let folder = folder.expect("either a folder was given or a temporary one was made");
    let shape = Shape { nodes: options.nodes, base_port: options.base_port };
    shape.check(folder)?;
    let listeners = listeners(options.nodes, options.base_port)?;
    shape.save(folder)?;
    let nodes = start_all(listeners, folder, options.timing, options.metrics_prefixes).await?;
    Ok(run_all(nodes, temporary))
}

fn listeners(nodes: u16, base_port: u16) -> Result<Vec<Listeners>, ServeError> {
    (0..nodes)
        .map(|at| match base_port {
            0 => free_listeners(),
            base => pair(base.checked_add(at).ok_or_else(no_such_port)?),
        })
        .collect()
}

/// Both listeners of the node with this client port.
fn pair(port: u16) -> Result<Listeners, ServeError> {
    let peer_port = port.checked_add(PEER_PORT_OFFSET).ok_or_else(no_such_port)?;
    Ok(Listeners { client: loopback(port)?, peer: loopback(peer_port)? })
}

fn loopback(port: u16) -> Result<std::net::TcpListener, ServeError> {
    bind(&format!("127.0.0.1:{port}"))
}

fn no_such_port() -> ServeError {
    ServeError::Refused("the base port is too high: all ports must be at most 65535".into())
}

/// Any free client port whose peer port is free as well.
fn free_listeners() -> Result<Listeners, ServeError> {
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let client = loopback(0)?;
        let port = client.local_addr().map_err(listen_error)?.port();
        match port.checked_add(PEER_PORT_OFFSET).ok_or_else(no_such_port).and_then(loopback) {
            Ok(peer) => return Ok(Listeners { client, peer }),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("at least one pair of ports was tried"))
}

fn listen_error(source: std::io::Error) -> ServeError {
    ServeError::Listen { addr: "127.0.0.1".into(), source }
}

async fn start_all(
    all: Vec<Listeners>,
    folder: &Path,
    timing: Timing,
    metrics_prefixes: Option<String>,
) -> Result<Vec<Node>, ServeError> {
    let mut peers = Vec::new();
    for listeners in &all {
        peers.push(listeners.peer.local_addr().map_err(listen_error)?.to_string());
    }
    let members: Vec<_> = (1..).zip(peers).collect();
    let mut starts = Vec::new();
    for (listeners, node_id) in all.into_iter().zip(1..) {
        let options = ServeOptions {
            node_id: Some(node_id),
            data_dir: Some(folder.join(format!("node-{node_id}"))),
            metrics_prefixes: metrics_prefixes.clone(),
            ..ServeOptions::default()
        };
        let mut config = options.resolve().map_err(|error| ServeError::Refused(error.to_string()))?;
        config.initial_cluster.clone_from(&members);
        config.timing = timing;
        starts.push(Node::start(config, listeners));
    }
    try_join_all(starts).await
}

fn run_all(all: Vec<Node>, temporary: Option<TempDir>) -> DevCluster {
    let urls = all.iter().map(|node| node.client_url().to_owned()).collect();
    let replicas = all.iter().map(|node| node.replica().clone()).collect();
    let (stop, stopped) = watch::channel(false);
    let mut nodes = JoinSet::new();
    for node in all {
        let mut stopped = stopped.clone();
        nodes.spawn(async move { node.run(told_to_stop(&mut stopped)).await });
    }
    DevCluster { urls, replicas, nodes, stop, temporary }
}

impl DevCluster {
    /// Base URLs for clients, in the order of the node ids.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Resolves when every node serves.
    ///
    /// # Errors
    /// A node has failed.
    pub async fn ready(&self) -> Result<(), ServeError> {
        try_join_all(self.replicas.iter().map(ready)).await.map(|_| ())
    }

    /// What keeps the cluster from serving, as the first node sees it; none if nothing does.
    pub fn obstacle(&self) -> Option<String> {
        self.replicas.first().and_then(|replica| replica.status().not_ready)
    }

    /// Stops all nodes, answers what is in flight, and removes the temporary folder.
    ///
    /// # Errors
    /// A node has failed before, or the folder cannot be removed.
    pub async fn shutdown(mut self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        while let Some(ended) = self.nodes.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(ServeError::Failed(error.to_string())));
            result = result.and(ended);
        }
        self.replicas.clear();
        if let Some(folder) = self.temporary.take() {
            result = result.and(folder.close().map_err(ServeError::Folder));
        }
        result
    }

    /// Resolves when a node has stopped by itself.
    pub async fn failed(&mut self) -> ServeError {
        match self.nodes.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => ServeError::Failed(error.to_string()),
            Some(Ok(Ok(()))) | None => ServeError::Failed("a node has stopped".into()),
        }
    }
}

async fn ready(replica: &NodeReplica) -> Result<(), ServeError> {
    let serves = async {
        while replica.read(Consistency::Linearizable, |_, _| ()).await.is_err() {
            tokio::time::sleep(READY_INTERVAL).await;
        }
        while replica.status().not_ready.is_some() {
            tokio::time::sleep(READY_INTERVAL).await;
        }
    };
    tokio::select! {
        () = serves => Ok(()),
        reason = replica.failed() => Err(ServeError::Failed(reason)),
    }
}
