//! Several nodes that form a cluster.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::answer::Answer;
use crate::client::Client;
use crate::eventually::{PATIENCE, eventually, let_pass};
use crate::node::Node;
use crate::ports::LoopbackHost;
use crate::roamer::Roamer;

/// How a cluster is to be made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many nodes.
    pub nodes: usize,
    /// What they log.
    pub log_level: String,
    /// More arguments for each of them.
    pub args: Vec<String>,
    /// Where each node's data lies, in order; the rest lies in the cluster's own folder.
    pub data_dirs: Vec<PathBuf>,
}

impl Setup {
    /// So many nodes with the service's defaults.
    pub fn nodes(nodes: usize) -> Self {
        // The consensus library is left out: its chatter would bury what the nodes say about themselves.
        let log_level = "info,openraft=error".into();
        Self { nodes, log_level, args: Vec::new(), data_dirs: Vec::new() }
    }

    /// Makes the cluster, without starting a node.
    ///
    /// # Panics
    /// Without room or ports.
    pub fn make(&self) -> Cluster {
        let folder = TempDir::with_prefix("holdfast-test-").expect("there is a folder for temporary files");
        let host = LoopbackHost::choose();
        let addresses = host.reserve(self.nodes);
        let members = addresses.iter().zip(1..).map(|(at, id)| format!("{id}={}", at.peer));
        let members = members.collect::<Vec<_>>().join(",");
        let mut args =
            vec!["--initial-cluster".into(), members, "--log-level".into(), self.log_level.clone()];
        args.extend(self.args.iter().cloned());
        let node = |(at, id): (_, u64)| {
            let index = usize::try_from(id).expect("there are few nodes") - 1;
            let own = || folder.path().join(format!("node-{id}"));
            let data_dir = self.data_dirs.get(index).cloned().unwrap_or_else(own);
            Node::new(id, at, data_dir, folder.path().join(format!("node-{id}.log")), args.clone())
        };
        let nodes = addresses.into_iter().zip(1..).map(node).collect();
        Cluster { nodes, folder, host, log_level: self.log_level.clone() }
    }

    /// Makes the cluster, starts all nodes and waits until all of them serve.
    pub async fn start(&self) -> Cluster {
        let cluster = self.make();
        cluster.start_all();
        cluster.ready().await;
        cluster
    }
}

/// Some nodes, whose processes and folders go when this value does.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    folder: TempDir,
    host: LoopbackHost,
    log_level: String,
}

impl Cluster {
    /// So many nodes with the service's defaults, all of them serving.
    pub async fn start(nodes: usize) -> Self {
        Setup::nodes(nodes).start().await
    }

    /// All nodes, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All ids.
    pub fn ids(&self) -> Vec<u64> {
        self.nodes.iter().map(Node::id).collect()
    }

    /// All ids but one.
    pub fn others(&self, id: u64) -> Vec<u64> {
        self.ids().into_iter().filter(|other| *other != id).collect()
    }

    /// One node.
    ///
    /// # Panics
    /// If there is none with this id.
    pub fn node(&self, id: u64) -> &Node {
        self.nodes.iter().find(|node| node.id() == id).expect("the id is one of the cluster's")
    }

    /// A way to talk to one node.
    pub fn client(&self, id: u64) -> Client {
        self.node(id).client()
    }

    /// A client of all nodes, which begins with the `first`th.
    pub fn roamer(&self, first: usize) -> Roamer {
        Roamer::new(self.nodes.iter().map(Node::client).collect(), first)
    }

    /// A node that is to join by way of these, with more arguments. It is not started, and does not count as one of the
    /// cluster's.
    pub fn joiner(&self, id: u64, through: &[u64], args: &[&str]) -> Node {
        let urls: Vec<_> = through.iter().map(|id| self.client(*id).url().to_owned()).collect();
        let mut all = vec!["--join".into(), urls.join(",")];
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        self.newcomer(id, all)
    }

    /// A node with an address and an empty folder of its own that knows nothing of the cluster but what `args` say.
    pub fn newcomer(&self, id: u64, mut args: Vec<String>) -> Node {
        let at = self.host.reserve(1).remove(0);
        let name = format!("newcomer-{id}-{}", at.peer.port());
        args.extend(["--log-level".into(), self.log_level.clone()]);
        let log = self.folder.path().join(format!("{name}.log"));
        Node::new(id, at, self.folder.path().join(name), log, args)
    }

    /// Makes a node one of the cluster's.
    pub fn adopt(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Gives a node up, and ends its process if there is one.
    pub fn dismiss(&mut self, id: u64) {
        self.nodes.retain(|node| node.id() != id);
    }

    /// A folder that goes with the cluster.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Starts every node that does not run.
    pub fn start_all(&self) {
        self.nodes.iter().filter(|node| !node.is_running()).for_each(Node::start);
    }

    /// Ends every node at once.
    pub fn kill_all(&self) {
        self.nodes.iter().for_each(Node::kill);
    }

    /// Waits until every running node serves.
    pub async fn ready(&self) {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            node.ready(PATIENCE).await;
        }
    }

    /// Waits until these nodes agree on one of them as leader, and serve.
    pub async fn leader_among(&self, ids: &[u64]) -> u64 {
        self.leader_within(ids, PATIENCE).await
    }

    /// The leader, once all nodes agree on it and serve.
    pub async fn leader(&self) -> u64 {
        self.leader_among(&self.ids()).await
    }

    /// The leader, once these nodes agree on one of them and serve, in this time.
    pub async fn leader_within(&self, ids: &[u64], within: Duration) -> u64 {
        eventually(within, &format!("nodes {ids:?} agree on a leader"), async || {
            let mut leaders = Vec::new();
            for id in ids {
                if !self.node(*id).is_ready().await {
                    return None;
                }
                leaders.push(self.status(*id).await?.leader_id()?);
            }
            leaders.dedup();
            match leaders[..] {
                [leader] if ids.contains(&leader) => Some(leader),
                _ => None,
            }
        })
        .await
    }

    /// The cluster as one node sees it, if it says so.
    pub async fn status(&self, id: u64) -> Option<ClusterView> {
        self.client(id)
            .get("/v1/cluster")
            .await
            .ok()
            .filter(Answer::is_ok)
            .map(|answer| ClusterView(answer.body))
    }

    /// The cluster's identity, as soon as a node has learnt it.
    pub async fn cluster_id(&self, id: u64) -> String {
        let what = format!("node {id} knows its cluster");
        eventually(PATIENCE, &what, async || self.status(id).await?.cluster_id().map(str::to_owned)).await
    }

    /// Waits until nodes have said who they are and nothing is added to the log any more; gives what
    /// [`Cluster::equal_digests`] does. While a lease runs, something always is.
    pub async fn settled(&self) -> (u64, String) {
        const QUIET: Duration = Duration::from_secs(1);
        let mut last = self.equal_digests(&self.ids()).await;
        loop {
            let_pass(QUIET).await;
            let now = self.equal_digests(&self.ids()).await;
            if now == last {
                return now;
            }
            last = now;
        }
    }

    /// Waits until these nodes are equally far, and gives their index and the hash of their state, which are equal.
    ///
    /// # Panics
    /// If two nodes have different states at the same index.
    pub async fn equal_digests(&self, ids: &[u64]) -> (u64, String) {
        eventually(PATIENCE, &format!("nodes {ids:?} are equally far"), async || {
            let mut digests = Vec::new();
            for id in ids {
                let answer = self.client(*id).get("/debug/digest").await.ok().filter(Answer::is_ok)?;
                let digest = answer.body["digest"].as_str()?.to_owned();
                digests.push((answer.body["applied_index"].as_u64()?, digest));
            }
            let (index, digest) = digests[0].clone();
            if digests.iter().any(|other| other.0 != index) {
                return None;
            }
            assert!(digests.iter().all(|other| other.1 == digest), "states differ: {digests:?}");
            Some((index, digest))
        })
        .await
    }
}

/// The cluster as a node sees it.
#[derive(Clone, Debug)]
pub struct ClusterView(pub Value);

impl ClusterView {
    /// The leader, if the node knows one.
    pub fn leader_id(&self) -> Option<u64> {
        self.0["leader_id"].as_u64()
    }

    /// The node's term.
    pub fn term(&self) -> u64 {
        self.0["term"].as_u64().unwrap_or_default()
    }

    /// The cluster's identity.
    pub fn cluster_id(&self) -> Option<&str> {
        self.0["cluster_id"].as_str()
    }

    /// The entry of a member.
    pub fn member(&self, id: u64) -> Option<&Value> {
        self.0["members"].as_array()?.iter().find(|entry| entry["id"] == id)
    }

    /// Ids of all members.
    pub fn member_ids(&self) -> Vec<u64> {
        let members = self.0["members"].as_array().into_iter().flatten();
        members.filter_map(|entry| entry["id"].as_u64()).collect()
    }

    /// Ids of those that have a vote.
    pub fn voter_ids(&self) -> Vec<u64> {
        let members = self.0["members"].as_array().into_iter().flatten();
        members.filter(|entry| entry["voter"] == true).filter_map(|entry| entry["id"].as_u64()).collect()
    }

    /// How far a member is, as far as it says.
    pub fn applied_index(&self, member: u64) -> Option<u64> {
        let members = self.0["members"].as_array()?;
        members.iter().find(|entry| entry["id"] == member)?["applied_index"].as_u64()
    }
}
