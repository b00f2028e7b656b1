//! What the replica says of itself, as metrics.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_replica::handle::NodeStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

/// One look at a node.
#[derive(Debug)]
pub(super) struct NodeMetrics {
    pub(super) status: NodeStatus,
    pub(super) version: String,
}

impl Collector for NodeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        out.build_info(&self.version)?;
        self.encode_consensus(&mut out)?;
        self.encode_storage(&mut out)?;
        self.encode_locks(&mut out)?;
        self.encode_proposals(&mut out)
    }
}

impl NodeMetrics {
    fn encode_consensus(&self, out: &mut Out<'_>) -> fmt::Result {
        let status = &self.status;
        let ready = u64::from(status.not_ready.is_none());
        out.gauge("holdfast_ready", "1 if this node can serve.", ready)?;
        out.gauge("holdfast_is_leader", "1 if this node leads.", status.is_leader.into())?;
        let leader = status.leader_id.unwrap_or(0);
        out.gauge("holdfast_leader_id", "The leader that this node knows; 0 if none.", leader)?;
        out.gauge("holdfast_term", "The term of this node.", status.term)?;
        let help = "Leader changes that this node has seen since its start.";
        out.counter("holdfast_leader_changes", help, status.leader_changes)?;
        let help = "Index of the last log entry.";
        out.gauge("holdfast_log_last_index", help, status.last_log_index)?;
        let help = "Index of the last log entry that this node knows to be committed.";
        out.gauge("holdfast_log_committed_index", help, status.committed_index)?;
        let help = "Index of the last log entry that is applied.";
        out.gauge("holdfast_log_applied_index", help, status.applied_index)?;
        let lags = status.follower_lag.iter().map(|(node, lag)| (node.to_string(), *lag));
        let help = "How many log entries a follower lags behind; only at the leader.";
        out.gauges("holdfast_follower_lag_entries", help, "node", lags)
    }

    fn encode_storage(&self, out: &mut Out<'_>) -> fmt::Result {
        let status = &self.status;
        let help = "Index that the newest snapshot reaches.";
        out.gauge("holdfast_snapshot_index", help, status.snapshot_index)?;
        out.gauge("holdfast_snapshot_bytes", "Size of the newest snapshot.", status.snapshot_bytes)?;
        out.gauge("holdfast_log_bytes", "Size of the log on disk.", status.log_bytes)?;
        let help = "Free space on the file system of the data folder.";
        out.gauge("holdfast_disk_free_bytes", help, status.free_bytes)?;
        out.counter("holdfast_log_syncs", "Finished syncs of the log.", status.syncs)?;
        let help = "Time spent in syncs of the log.";
        out.counter("holdfast_log_sync_seconds", help, status.sync_seconds)
    }

    fn encode_locks(&self, out: &mut Out<'_>) -> fmt::Result {
        let status = &self.status;
        out.gauge("holdfast_locks_held", "Locks that are held.", status.locks_held)?;
        out.gauge("holdfast_waiters", "Attempts in the queues of the cluster.", status.waiters)?;
        out.gauge("holdfast_sessions", "Sessions that live.", status.sessions)?;
        let help = "Clients that wait at this node.";
        out.gauge("holdfast_local_waiters", help, status.local_waiters)?;
        out.gauge("holdfast_last_fence", "The last fence that was handed out.", status.last_fence)?;
        let help = "Grants of the cluster since the start of this node.";
        out.counter("holdfast_grants", help, status.grants)?;
        let help = "Holds of the cluster that have ended since the start of this node, by cause.";
        out.counters("holdfast_endings", help, "cause", &status.endings)
    }

    fn encode_proposals(&self, out: &mut Out<'_>) -> fmt::Result {
        let status = &self.status;
        let help = "Commands that were proposed at this node.";
        out.counter("holdfast_commands_proposed", help, status.commands_proposed)?;
        let help = "Commands that this node has passed on to a leader.";
        out.counter("holdfast_commands_forwarded", help, status.commands_forwarded)?;
        let help = "Groups of commands (log entries) that this node has proposed as leader.";
        out.counter("holdfast_groups_proposed", help, status.groups_proposed)?;
        let help = "Commands that wait to be proposed at this node.";
        out.gauge("holdfast_proposal_queue", help, status.proposal_queue)
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn build_info(&mut self, version: &str) -> fmt::Result {
        let help = "Always 1; the label tells the program's version.";
        let mut metric = self.0.encode_descriptor("holdfast_build", help, None, MetricType::Info)?;
        metric.encode_info(&[("version", version)])
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (String, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (key, value) in values {
            metric.encode_family(&[(label, key)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// `_total` is added to the name.
    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, u64>>)
    }

    /// `_total` is added to the name.
    fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &BTreeMap<&'static str, u64>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (key, value) in values {
            metric
                .encode_family(&[(label, *key)])?
                .encode_counter(value, None::<&Exemplar<NoLabelSet, u64>>)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::metrics::{HttpMetrics, LockMetrics, Numbers, encode};

    #[test]
    fn a_nodes_numbers_have_names_as_prometheus_wants_them() {
        let status = NodeStatus {
            sync_seconds: 1.5,
            grants: 7,
            endings: BTreeMap::from([("expired", 3)]),
            follower_lag: BTreeMap::from([(2, 9)]),
            ..NodeStatus::default()
        };
        let text = encode(Numbers {
            status,
            version: "1.2.3",
            groups: Vec::new(),
            locks: &Arc::new(LockMetrics::new(Arc::default())),
            http: &Arc::new(HttpMetrics::default()),
        });
        for line in [
            "holdfast_build_info{version=\"1.2.3\"} 1\n",
            "holdfast_ready 1\n",
            "holdfast_grants_total 7\n",
            "holdfast_log_sync_seconds_total 1.5\n",
            "holdfast_endings_total{cause=\"expired\"} 3\n",
            "holdfast_follower_lag_entries{node=\"2\"} 9\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
