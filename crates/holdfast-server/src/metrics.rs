//! Numbers for Prometheus. No label ever carries the name of a lock.

mod http;
mod node;

use std::sync::Arc;

use holdfast_replica::handle::NodeStatus;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

pub(crate) use self::http::HttpMetrics;
use self::node::NodeMetrics;

/// Of the text that [`encode`] makes.
pub(crate) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// All numbers of a node, in Prometheus's text format.
pub(crate) fn encode(http: &Arc<HttpMetrics>, status: NodeStatus, version: &str) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeMetrics { status, version: version.into() }));
    registry.register_collector(Box::new(http.clone()));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}
