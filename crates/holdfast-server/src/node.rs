//! One node: its replica, its listeners, and its life from start to stop.

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::JoinRequest;
use holdfast_replica::node::{NodeOptions, NodeReplica, OpenError, Origin, open};
use socket2::SockRef;
use tokio::sync::watch;

use crate::config::ServeConfig;
use crate::front;
use crate::http::Service;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Longest time for the replica to hand leadership over and to answer what is in flight.
const REPLICA_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(6);

/// Why a node did not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A listener cannot be had.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// As it was given.
        addr: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The replica did not start.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The options of a development cluster cannot be used.
    #[error("{0}")]
    Refused(String),
    /// The folder of a development cluster cannot be made.
    #[error("cannot make a folder for the cluster: {0}")]
    Folder(io::Error),
    /// The replica has stopped by itself.
    #[error("the node cannot go on: {0}")]
    Failed(String),
}

/// The sockets of a node, bound already.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub client: TcpListener,
    /// For peers.
    pub peer: TcpListener,
}

impl Listeners {
    /// Binds what the configuration names.
    ///
    /// # Errors
    /// An address that is taken, unknown or not allowed.
    pub fn bind(config: &ServeConfig) -> Result<Self, ServeError> {
        Ok(Self { client: bind(&config.listen)?, peer: bind(&config.peer_listen)? })
    }
}

/// Binds `HOST:PORT`.
pub(crate) fn bind(addr: &str) -> Result<TcpListener, ServeError> {
    let bound = TcpListener::bind(addr).and_then(|listener| {
        SockRef::from(&listener).listen(BACKLOG)?;
        Ok(listener)
    });
    bound.map_err(|source| listen_error(addr, source))
}

fn listen_error(addr: &str, source: io::Error) -> ServeError {
    ServeError::Listen { addr: addr.into(), source }
}

/// A node that is open. It serves clients once [`Node::run`] is polled.
#[derive(Debug)]
pub struct Node {
    replica: NodeReplica,
    service: Arc<Service>,
    listener: tokio::net::TcpListener,
    client_url: String,
    peer_addr: String,
    join: Vec<String>,
}

/// A node that is to join a cluster.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Base URLs of members.
    pub urls: Vec<String>,
    /// What the node says of itself.
    pub request: JoinRequest,
    /// The cluster that its folder belongs to already, if it does; empty if it has not learnt its id yet.
    pub cluster: Option<String>,
}

impl Node {
    /// Opens the node's folder and starts its replica.
    ///
    /// # Errors
    /// A folder that cannot be used or is damaged, or a listener that tokio cannot use.
    pub async fn start(config: ServeConfig, listeners: Listeners) -> Result<Self, ServeError> {
        let version = env!("CARGO_PKG_VERSION");
        let bound = listeners.client.local_addr().map_err(|source| listen_error(&config.listen, source))?;
        let peer_bound =
            listeners.peer.local_addr().map_err(|source| listen_error(&config.peer_listen, source))?;
        let peer_addr = config.peer_addr(peer_bound);
        let client_url = config.client_url(bound, &peer_addr);
        let listener = into_tokio(listeners.client).map_err(|source| listen_error(&config.listen, source))?;
        let announced = config.announced(peer_bound);
        let origin = if config.join.is_empty() { Origin::Form } else { Origin::Join };
        let replica = open(NodeOptions {
            node_id: config.node_id,
            data_dir: config.data_dir,
            peer_listener: listeners.peer,
            peer_addr: peer_addr.clone(),
            client_url: client_url.clone(),
            initial_cluster: config.initial_cluster,
            origin,
            stay: config.stay,
            announced,
            timing: config.timing,
            version: version.into(),
            lock_groups: config.lock_groups,
        })
        .await?;
        let service = Arc::new(Service::new(replica.clone(), version, request_id_prefix()));
        Ok(Self { replica, service, listener, client_url, peer_addr, join: config.join })
    }

    /// Base URL that clients reach the node by.
    pub fn client_url(&self) -> &str {
        &self.client_url
    }

    /// The node's replica.
    pub fn replica(&self) -> &NodeReplica {
        &self.replica
    }

    /// What there is to know for joining, if the node was told to.
    fn candidate(&self) -> Option<Candidate> {
        let storage = self.replica.storage().to_string();
        let request = JoinRequest { id: self.replica.node_id(), peer_addr: self.peer_addr.clone(), storage };
        let urls = self.join.clone();
        (!urls.is_empty()).then(|| Candidate { urls, request, cluster: self.replica.cluster_at_start() })
    }

    /// Serves until `shutdown` resolves; then hands leadership over, answers what is in flight and stops.
    ///
    /// # Errors
    /// The replica has stopped by itself: the process has to exit.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self { replica, service, listener, client_url, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let mut front = pin!(front::run(listener, service.clone(), stopped));
        tracing::info!(node_id = replica.node_id(), url = client_url, "serving");
        tokio::select! {
            () = shutdown => {}
            reason = replica.failed() => {
                tracing::error!(reason, "the node cannot go on");
                return Err(ServeError::Failed(reason));
            }
            () = front.as_mut() => unreachable!("clients are served until the node stops"),
        }
        tracing::info!(node_id = replica.node_id(), "shutting down");
        service.close();
        let end = async {
            if tokio::time::timeout(REPLICA_SHUTDOWN_TIMEOUT, replica.drain()).await.is_err() {
                tracing::warn!("leadership was not handed over in time");
            }
            stop.send_replace(true);
        };
        tokio::join!(end, front);
        if tokio::time::timeout(REPLICA_SHUTDOWN_TIMEOUT, replica.shutdown()).await.is_err() {
            tracing::warn!("the replica did not come to an end in time");
        }
        tracing::info!(node_id = replica.node_id(), "stopped");
        Ok(())
    }
}

fn into_tokio(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Request ids need to be told apart, not to be secret: without randomness, the process id will do.
fn request_id_prefix() -> u32 {
    getrandom::u32().unwrap_or_else(|_| std::process::id())
}

/// Runs one node from start to stop. One that is to join a cluster is let in by `join`, which says why if it is not.
///
/// # Errors
/// The node did not start, was not let in, or its replica has stopped by itself.
pub async fn serve<J: Future<Output = Result<(), String>>>(
    config: ServeConfig,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
    join: impl FnOnce(Candidate) -> J,
) -> Result<(), ServeError> {
    let mut shutdown = pin!(shutdown);
    let node = tokio::select! {
        node = Node::start(config, listeners) => node?,
        () = shutdown.as_mut() => return Ok(()),
    };
    let joining = node.candidate().map(join);
    let refused = async {
        if let Some(joining) = joining
            && let Err(why) = joining.await
        {
            return why;
        }
        std::future::pending().await
    };
    let mut why = None;
    let stop = async {
        tokio::select! {
            () = shutdown => {}
            refusal = refused => why = Some(refusal),
        }
    };
    node.run(stop).await?;
    why.map_or(Ok(()), |why| Err(ServeError::Refused(why)))
}
