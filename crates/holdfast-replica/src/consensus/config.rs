//! How openraft is set up.

use std::sync::Arc;

use openraft::{Config, SnapshotPolicy};

use crate::handle::Timing;

/// The settings behind every choice that differs from the library's defaults.
pub(crate) fn config(timing: Timing) -> Result<Arc<Config>, String> {
    let config = Config {
        cluster_name: "holdfast".into(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min: timing.election_min_ms,
        election_timeout_max: timing.election_max_ms,
        // The whole transfer of a snapshot, which may be large.
        install_snapshot_timeout: 600_000,
        // Entries are groups of up to 256 KiB.
        max_payload_entries: 64,
        max_append_entries: Some(1024),
        // A follower gets entries as long as the log has them.
        replication_lag_threshold: u64::MAX,
        // By the log's bytes, not its entries: see `housekeeping`.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        backoff: "20ms 40ms 80ms ...500ms".into(),
        broadcast_submitted_on_append: Some(true),
        enable_pre_vote: Some(true),
        // A restarted leader asks for votes anew: in its old term it might answer reads from a table that lags.
        enable_leader_restore: Some(false),
        // A follower may have trimmed a torn tail that it had acknowledged, if its disk lies. It gets the entries again;
        // otherwise the leader would stop with an assertion, and a healthy node would pay for a sick one.
        allow_log_reversion: Some(true),
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| error.to_string())
}
