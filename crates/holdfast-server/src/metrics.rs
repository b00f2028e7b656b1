//! Numbers for Prometheus. No label ever carries the name of a lock.

mod http;
mod locks;
mod node;

use std::sync::Arc;

use holdfast_replica::handle::NodeStatus;
use holdfast_replica::lock_counters::GroupNumbers;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;

pub(crate) use self::http::HttpMetrics;
use self::locks::LockNumbers;
pub(crate) use self::locks::{Asked, LockMetrics};
use self::node::NodeMetrics;

/// Of the text that [`encode`] makes.
pub(crate) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// All that a node counts.
pub(crate) struct Numbers<'a> {
    pub(crate) status: NodeStatus,
    pub(crate) version: &'a str,
    /// Of the whole cluster.
    pub(crate) groups: Vec<GroupNumbers>,
    /// Of this node's own calls.
    pub(crate) locks: &'a Arc<LockMetrics>,
    pub(crate) http: &'a Arc<HttpMetrics>,
}

/// All numbers of a node, in Prometheus's text format.
pub(crate) fn encode(numbers: Numbers<'_>) -> String {
    let Numbers { status, version, groups, locks, http } = numbers;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeMetrics { status, version: version.into() }));
    registry.register_collector(Box::new(LockNumbers { calls: locks.clone(), groups }));
    registry.register_collector(Box::new(http.clone()));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}
