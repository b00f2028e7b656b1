//! What a held lock weighs: fills a system with locks and looks at its processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;

use crate::measure::run_prefix;
use crate::target::{LockClient, Settings, Target, TargetError};

/// Longer than anybody looks at the memory.
const TTL: Duration = Duration::from_secs(3_600);
/// Length of a lock's name, in bytes.
const NAME_LEN: usize = 64;
/// Length of an owner's label, in bytes.
const OWNER_LEN: usize = 32;
/// How many locks go by between two reports of progress.
const PROGRESS_LOCKS: usize = 5_000;

/// What to fill a system with, and which processes to weigh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// How many locks are held in the end.
    pub locks: usize,
    /// How many clients acquire them.
    pub clients: usize,
    /// The system's processes.
    pub pids: Vec<u32>,
    /// How long the processes may come to rest before they are weighed again.
    pub settle: Duration,
}

/// Resident memory of one process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Weight {
    /// The process.
    pub pid: u32,
    /// Before the first lock.
    pub before: u64,
    /// With all locks held.
    pub after: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// What was weighed.
    pub target: String,
    /// How many locks are held.
    pub locks: usize,
    /// How long it took to acquire them, in milliseconds.
    pub filled_in_ms: u64,
    /// In the order of the plan.
    pub processes: Vec<Weight>,
}

impl MemoryReport {
    /// What one lock added to the process that grew most, in bytes.
    pub fn bytes_per_lock(&self) -> u64 {
        let grown = self.processes.iter().map(|weight| weight.after.saturating_sub(weight.before));
        grown.max().unwrap_or(0) / self.locks.max(1) as u64
    }
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system did not take the locks.
    #[error("{0}")]
    Target(#[from] TargetError),
    /// A process cannot be looked at.
    #[error("cannot read the resident memory of process {pid}: {why}")]
    Process {
        /// The process.
        pid: u32,
        /// Why not.
        why: String,
    },
}

/// Acquires the locks, which stay held, and weighs the processes before and after. `watch` hears how many there are.
///
/// # Errors
/// A lock that is not granted, or a process that does not exist.
pub async fn fill<T: Target>(
    target: &Arc<T>,
    plan: &MemoryPlan,
    watch: impl Fn(usize),
) -> Result<MemoryReport, MemoryError> {
    let before = weigh(&plan.pids)?;
    let start = tokio::time::Instant::now();
    acquire_all(target, plan, watch).await?;
    let filled_in_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    tokio::time::sleep(plan.settle).await;
    let after = weigh(&plan.pids)?;
    let processes = plan.pids.iter().zip(before.into_iter().zip(after));
    let processes = processes.map(|(&pid, (before, after))| Weight { pid, before, after }).collect();
    Ok(MemoryReport { target: target.name().into(), locks: plan.locks, filled_in_ms, processes })
}

async fn acquire_all<T: Target>(
    target: &Arc<T>,
    plan: &MemoryPlan,
    watch: impl Fn(usize),
) -> Result<(), TargetError> {
    let prefix = run_prefix();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (prefix, next, done, watch) = (&prefix, &next, &done, &watch);
    let clients = (0..plan.clients).map(|number| async move {
        let mut client = target.connect(settings(number)).await?;
        loop {
            let lock = next.fetch_add(1, Ordering::Relaxed);
            if lock >= plan.locks {
                return Ok(());
            }
            client.acquire(&name(prefix, lock), Duration::ZERO).await?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(PROGRESS_LOCKS) {
                watch(done);
            }
        }
    });
    try_join_all(clients).await.map(drop)
}

fn settings(number: usize) -> Settings {
    Settings {
        number,
        owner: format!("bench-{number:0>width$}", width = OWNER_LEN - "bench-".len()),
        ttl: TTL,
    }
}

fn name(prefix: &str, lock: usize) -> String {
    format!("{prefix}.{lock:0>width$}", width = NAME_LEN - prefix.len() - 1)
}

fn weigh(pids: &[u32]) -> Result<Vec<u64>, MemoryError> {
    pids.iter().map(|&pid| resident(pid)).collect()
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> Result<u64, MemoryError> {
    let failed = |why: String| MemoryError::Process { pid, why };
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| failed(error.to_string()))?;
    vm_rss(&status).ok_or_else(|| failed("it has no VmRSS".into()))
}

fn vm_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_owners_have_the_length_that_is_told() {
        assert_eq!(name(&run_prefix(), 7).len(), NAME_LEN);
        assert_eq!(settings(63).owner.len(), OWNER_LEN);
    }

    #[test]
    fn the_weight_of_a_lock_is_what_the_worst_process_grew_by() {
        let weight = |before, after| Weight { pid: 1, before, after };
        let processes = vec![weight(1_000, 51_000), weight(9_000, 9_000), weight(500, 400)];
        let report = MemoryReport { target: "x".into(), locks: 100, filled_in_ms: 1, processes };
        assert_eq!(report.bytes_per_lock(), 500);
    }

    #[test]
    fn resident_memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(vm_rss("Name:\tx\nVmRSS:\t   12 kB\nRssAnon:\t 1 kB\n"), Some(12 * 1024));
        assert_eq!(vm_rss("Name:\tkthreadd\n"), None);
        assert!(resident(std::process::id()).unwrap() > 0);
    }
}
