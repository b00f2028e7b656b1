//! Holdfast as a target: one kept-alive HTTP connection for each client.

mod client;
mod connection;

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::Cluster;
use hyper::Uri;

pub use self::client::HoldfastClient;
use self::connection::Connection;
use crate::target::{Placement, Settings, Target, TargetError};

/// How long a node may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A cluster of Holdfast nodes.
#[derive(Clone, Debug)]
pub struct Holdfast {
    /// `HOST:PORT` of the nodes that clients talk to, at least one.
    addresses: Arc<[String]>,
}

impl Holdfast {
    /// Takes the cluster with these base URLs, such as `http://127.0.0.1:7101`.
    ///
    /// # Errors
    /// No or malformed URLs; with [`Placement::Leader`] also a cluster that cannot be asked, or has no leader.
    pub async fn open(urls: &[String], placement: Placement) -> Result<Self, TargetError> {
        let mut addresses = urls.iter().map(|url| address(url)).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(TargetError::Refused("at least one endpoint is needed".into()));
        }
        if placement == Placement::Leader {
            addresses = vec![leader(&addresses).await?];
        }
        Ok(Self { addresses: addresses.into() })
    }
}

impl Target for Holdfast {
    type Client = HoldfastClient;

    fn name(&self) -> &str {
        "holdfast"
    }

    async fn connect(&self, settings: Settings) -> Result<HoldfastClient, TargetError> {
        let address = &self.addresses[settings.number % self.addresses.len()];
        Ok(HoldfastClient::new(connect(address).await?, settings))
    }
}

async fn connect(address: &str) -> Result<Connection, TargetError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, Connection::open(address)).await {
        Ok(result) => result,
        Err(_) => Err(TargetError::Unreachable { address: address.into(), why: "it takes too long".into() }),
    }
}

/// `HOST:PORT` of a base URL.
fn address(url: &str) -> Result<String, TargetError> {
    let malformed =
        || TargetError::Refused(format!("`{url}` is no endpoint: it should look like http://127.0.0.1:7101"));
    let uri: Uri = url.parse().map_err(|_| malformed())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(host)) => Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80))),
        _ => Err(malformed()),
    }
}

/// Asks the nodes in turn who leads.
async fn leader(addresses: &[String]) -> Result<String, TargetError> {
    let mut last = TargetError::Refused("the cluster has no leader".into());
    for asked in addresses {
        match leader_known_to(asked).await {
            Ok(Some(url)) => return address(&url),
            Ok(None) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn leader_known_to(address: &str) -> Result<Option<String>, TargetError> {
    let answer = connect(address).await?.get("/v1/cluster").await?;
    let cluster: Cluster = serde_json::from_slice(&answer).map_err(|error| {
        TargetError::Refused(format!("{address} does not answer as Holdfast does: {error}"))
    })?;
    let leader = cluster.members.into_iter().find(|member| Some(member.id) == cluster.leader_id);
    Ok(leader.and_then(|member| member.client_url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_with_a_scheme_that_is_spoken() {
        assert_eq!(address("http://127.0.0.1:7101").unwrap(), "127.0.0.1:7101");
        assert_eq!(address("http://[::1]:7101/").unwrap(), "[::1]:7101");
        assert_eq!(address("http://n1").unwrap(), "n1:80");
        for url in ["127.0.0.1:7101", "https://n1", "n1", ""] {
            assert!(address(url).unwrap_err().to_string().contains("no endpoint"), "{url}");
        }
    }
}
