//! What a node is told to do: options as they are given, and the checked configuration that comes of them.

mod address;
mod duration;
mod options;

use std::net::SocketAddr;
use std::path::PathBuf;

use holdfast_replica::groups::LockGroups;
use holdfast_replica::handle::Timing;
use holdfast_replica::members::Stay;

pub use self::options::ServeOptions;

/// Where clients are served, unless it is told otherwise.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7101";
/// Where peers are served, unless it is told otherwise.
pub const PEER_LISTEN_DEFAULT: &str = "127.0.0.1:7201";
/// What is logged, unless it is told otherwise.
pub const LOG_LEVEL_DEFAULT: &str = "info,openraft=error";

/// An option that cannot be used: which, in all its spellings, and what its limit is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag} (environment: {variable}, file: {key}) {what}", flag = flag(.key), variable = variable(.key))]
pub struct ConfigError {
    /// The option's name in the configuration file.
    pub key: &'static str,
    /// What is wrong, with the limit and its unit.
    pub what: String,
}

impl ConfigError {
    pub(crate) fn new(key: &'static str, what: impl ToString) -> Self {
        Self { key, what: what.to_string() }
    }
}

fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

fn variable(key: &str) -> String {
    format!("HOLDFAST_{}", key.to_ascii_uppercase())
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything that a node has to know, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// Its id within the cluster, from 1.
    pub node_id: u64,
    /// `HOST:PORT` to serve clients on; port 0 takes any.
    pub listen: String,
    /// `HOST:PORT` to serve peers on; port 0 takes any.
    pub peer_listen: String,
    /// Base URL that clients reach the node by; none: derived from the listener.
    pub advertise: Option<String>,
    /// `HOST:PORT` that peers reach the node by; none: its entry in the initial cluster, or the listener.
    pub peer_advertise: Option<String>,
    /// Its folder.
    pub data_dir: PathBuf,
    /// The first members, by id with `HOST:PORT` for peers; empty: a cluster of one.
    pub initial_cluster: Vec<(u64, String)>,
    /// Base URLs of members of the cluster to join, if the folder is empty.
    pub join: Vec<String>,
    /// Whether it wants a vote.
    pub stay: Stay,
    /// How quickly a lost leader is noticed.
    pub timing: Timing,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged: a level, or a filter as `tracing` has it.
    pub log_level: String,
    /// What locks are counted by.
    pub lock_groups: LockGroups,
}

impl ServeConfig {
    /// `HOST:PORT` that peers reach this node by.
    pub(crate) fn peer_addr(&self, bound: SocketAddr) -> String {
        let listed = || self.initial_cluster.iter().find(|(id, _)| *id == self.node_id);
        self.peer_advertise
            .clone()
            .or_else(|| listed().map(|(_, addr)| addr.clone()))
            .unwrap_or_else(|| address::reachable(bound).to_string())
    }

    /// [`ServeConfig::peer_addr`], unless it is a mere guess: a listener on all addresses says nothing.
    pub(crate) fn announced(&self, bound: SocketAddr) -> Option<String> {
        let is_told = self.peer_advertise.is_some() || !self.initial_cluster.is_empty();
        (is_told || !bound.ip().is_unspecified()).then(|| self.peer_addr(bound))
    }

    /// Base URL that clients reach this node by.
    ///
    /// A listener on all addresses says nothing about that; then the host that peers use is the best guess.
    pub(crate) fn client_url(&self, bound: SocketAddr, peer_addr: &str) -> String {
        if let Some(url) = &self.advertise {
            return url.clone();
        }
        match peer_addr.rsplit_once(':') {
            Some((host, _)) if bound.ip().is_unspecified() => format!("http://{host}:{}", bound.port()),
            _ => format!("http://{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: ServeOptions) -> ServeConfig {
        let required = ServeOptions { node_id: Some(2), data_dir: Some("d".into()), ..Default::default() };
        options.merge(required).resolve().unwrap()
    }

    fn bound(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_advertised_follows_the_bound_listener() {
        let config = config(ServeOptions::default());
        assert_eq!(config.peer_addr(bound("127.0.0.1:4000")), "127.0.0.1:4000");
        assert_eq!(config.peer_addr(bound("0.0.0.0:4000")), "127.0.0.1:4000");
        assert_eq!(config.client_url(bound("[::1]:5000"), "x:1"), "http://[::1]:5000");
    }

    #[test]
    fn a_node_on_all_addresses_is_reached_where_the_initial_cluster_says() {
        let list = Some("1=n1:7201,2=n2:7201".into());
        let config = config(ServeOptions { initial_cluster: list, ..Default::default() });
        let peer_addr = config.peer_addr(bound("0.0.0.0:7201"));
        assert_eq!(peer_addr, "n2:7201");
        assert_eq!(config.client_url(bound("0.0.0.0:7101"), &peer_addr), "http://n2:7101");
    }

    #[test]
    fn an_error_names_the_option_in_all_its_spellings() {
        let error = ConfigError::new("peer_listen", "must be HOST:PORT").to_string();
        assert_eq!(
            error,
            "--peer-listen (environment: HOLDFAST_PEER_LISTEN, file: peer_listen) must be HOST:PORT"
        );
    }
}
