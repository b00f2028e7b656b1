//! What a lane of the disk has done and how long its syncs took, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram are powers of two: bucket `n` counts syncs of less than `2^n` µs.
const BUCKETS: usize = 26;

/// Running counters of one lane. Only ever grow.
#[derive(Debug, Default)]
pub struct DiskStats {
    appends: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    sync_micros_total: AtomicU64,
    sync_micros_max: AtomicU64,
    sync_buckets: [AtomicU64; BUCKETS],
}

/// How long the syncs of a lane took so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncSummary {
    /// Number of syncs.
    pub count: u64,
    /// Sum of all syncs, in µs.
    pub micros_total: u64,
    /// The slowest sync, in µs.
    pub micros_max: u64,
    /// `(limit, count)`: so many syncs took less than `limit` µs and at least half of it.
    pub buckets: Vec<(u64, u64)>,
}

impl DiskStats {
    /// Number of append steps.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    /// Bytes appended.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of calls of `fdatasync` and `fsync`; one may have served several jobs.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// All that is known of the syncs. Counters move while they are read: sums may be off by a sync under way.
    pub fn sync_summary(&self) -> SyncSummary {
        let bucket = |(n, count): (usize, &AtomicU64)| (1 << n, count.load(Ordering::Relaxed));
        SyncSummary {
            count: self.syncs(),
            micros_total: self.sync_micros_total.load(Ordering::Relaxed),
            micros_max: self.sync_micros_max.load(Ordering::Relaxed),
            buckets: self.sync_buckets.iter().enumerate().map(bucket).collect(),
        }
    }

    pub(super) fn appended(&self, bytes: u64) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn synced(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_micros_total.fetch_add(micros, Ordering::Relaxed);
        self.sync_micros_max.fetch_max(micros, Ordering::Relaxed);
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.sync_buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_counted_in_the_bucket_that_bounds_it() {
        let stats = DiskStats::default();
        stats.synced(Duration::from_micros(0));
        stats.synced(Duration::from_micros(127));
        stats.synced(Duration::from_micros(128));
        stats.synced(Duration::from_secs(3_600));
        let summary = stats.sync_summary();
        let filled: Vec<_> = summary.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(1, 1), (128, 1), (256, 1), (1 << 25, 1)]);
        assert_eq!((summary.count, summary.micros_max), (4, 3_600_000_000));
    }
}
