//! What happens to locks, by group: what the replica counts of the cluster, and what this node counts of its own calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_api::ErrorCode;
use holdfast_core::Cause;
use holdfast_replica::groups::LockGroups;
use holdfast_replica::histogram::{Distribution, Histogram};
use holdfast_replica::lock_counters::GroupNumbers;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

/// Upper bounds of what may be left of a lease, in thousandths of its TTL. Who renews after a third of it has two thirds.
const MARGINS: [u64; 10] = [10, 50, 100, 200, 300, 400, 500, 600, 700, 800];
/// An acquire that got its lock, one whose client hung up, and one for each error code.
const OUTCOMES: usize = ErrorCode::ALL.len() + 2;
const GRANTED: usize = 0;
const HUNG_UP: usize = 1;
/// The outcomes that are shown also before they have happened.
const USUAL: [usize; 4] = [GRANTED, HUNG_UP, of_code(ErrorCode::Held), of_code(ErrorCode::WaitTimeout)];

const fn of_code(code: ErrorCode) -> usize {
    code as usize + 2
}

/// What this node's own calls have come to.
#[derive(Debug)]
pub(crate) struct LockMetrics {
    groups: Arc<LockGroups>,
    /// In the order of the groups.
    calls: Vec<CallMetrics>,
}

#[derive(Debug)]
struct CallMetrics {
    acquires: [AtomicU64; OUTCOMES],
    margin: Histogram<{ MARGINS.len() }>,
}

impl LockMetrics {
    pub(crate) fn new(groups: Arc<LockGroups>) -> Self {
        let none = || CallMetrics {
            acquires: std::array::from_fn(|_| AtomicU64::new(0)),
            margin: Histogram::new(&MARGINS),
        };
        let calls = groups.names().map(|_| none()).collect();
        Self { groups, calls }
    }

    fn of(&self, lock: &str) -> &CallMetrics {
        &self.calls[self.groups.of(lock)]
    }

    /// Somebody asks for a lock.
    pub(crate) fn asked(&self, lock: &str) -> Asked<'_> {
        Asked { acquires: &self.of(lock).acquires, outcome: HUNG_UP }
    }

    /// A lease was renewed that had so many thousandths of its TTL left, if that is known.
    pub(crate) fn renewed(&self, lock: &str, margin: Option<u64>) {
        margin.iter().for_each(|margin| self.of(lock).margin.count(*margin));
    }

    fn named(&self) -> impl Iterator<Item = (&str, &CallMetrics)> {
        self.groups.names().zip(&self.calls)
    }
}

/// An acquire that is under way. Dropped without an answer, it counts as one whose client has hung up.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    acquires: &'a [AtomicU64; OUTCOMES],
    outcome: usize,
}

impl Asked<'_> {
    /// Answered: with a grant if there is no code.
    pub(crate) fn answered(mut self, code: Option<ErrorCode>) {
        self.outcome = code.map_or(GRANTED, of_code);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.acquires[self.outcome].fetch_add(1, Ordering::Relaxed);
    }
}

/// One look at all of it.
#[derive(Debug)]
pub(super) struct LockNumbers {
    pub(super) calls: Arc<LockMetrics>,
    pub(super) groups: Vec<GroupNumbers>,
}

impl Collector for LockNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_times(&mut encoder)?;
        self.encode_causes(&mut encoder)?;
        self.encode_gauges(&mut encoder)?;
        self.calls.encode_acquires(&mut encoder)?;
        let margins = self.calls.named().map(|(group, calls)| (group, calls.margin.read()));
        let help = "What was left of a lease when a renewal came to this node that was granted, as a part of the TTL.";
        histograms(&mut encoder, "holdfast_lock_renew_margin_ratio", help, margins)
    }
}

impl LockNumbers {
    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let held = self.groups.iter().map(|group| (&*group.group, group.held.clone()));
        let help = "How long holds of the cluster lasted, from the grant to the end.";
        histograms(encoder, "holdfast_lock_held_seconds", help, held)?;
        let waited = self.groups.iter().map(|group| (&*group.group, group.waited.clone()));
        let help = "How long those of the cluster waited in a queue who were granted the lock.";
        histograms(encoder, "holdfast_lock_waited_seconds", help, waited)
    }

    fn encode_causes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let endings = self.groups.iter().map(|group| (&*group.group, &*group.endings));
        let help = "Holds of the cluster that have ended, by cause.";
        causes(encoder, "holdfast_lock_endings", help, endings)?;
        let left = self.groups.iter().map(|group| (&*group.group, &*group.left));
        let help = "Waits of the cluster that have ended without a grant, by cause.";
        causes(encoder, "holdfast_lock_left", help, left)
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let holders = self.groups.iter().map(|group| (&*group.group, group.holders));
        gauges(encoder, "holdfast_lock_holders", "Holds of the cluster that are in force.", holders)?;
        let waiters = self.groups.iter().map(|group| (&*group.group, group.waiters));
        let help = "Places taken in the queues of the cluster; an attempt at many locks has one in each.";
        gauges(encoder, "holdfast_lock_queue_length", help, waiters)
    }
}

impl LockMetrics {
    fn encode_acquires(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Acquires that came to this node, by what came of them: granted, hung_up, or an error code.";
        let mut metric =
            encoder.encode_descriptor("holdfast_lock_acquires", help, None, MetricType::Counter)?;
        let names = ["granted", "hung_up"].into_iter().chain(ErrorCode::ALL.map(ErrorCode::as_str));
        for (group, calls) in self.named() {
            for (at, (outcome, count)) in names.clone().zip(&calls.acquires).enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 || USUAL.contains(&at) {
                    metric
                        .encode_family(&[("group", group), ("outcome", outcome)])?
                        .encode_counter::<NoLabelSet, u64, u64>(&count, None::<&Exemplar<_, _>>)?;
                }
            }
        }
        Ok(())
    }
}

fn histograms<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    groups: impl Iterator<Item = (&'a str, Distribution)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (group, numbers) in groups {
        metric.encode_family(&[("group", group)])?.encode_histogram::<NoLabelSet>(
            numbers.sum,
            numbers.count(),
            &numbers.buckets,
            None,
        )?;
    }
    Ok(())
}

fn causes<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    groups: impl Iterator<Item = (&'a str, &'a [(Cause, u64)])>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (group, causes) in groups {
        for (cause, count) in causes {
            metric
                .encode_family(&[("group", group), ("cause", cause.as_str())])?
                .encode_counter::<NoLabelSet, u64, u64>(count, None::<&Exemplar<_, _>>)?;
        }
    }
    Ok(())
}

fn gauges<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    groups: impl Iterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (group, value) in groups {
        metric.encode_family(&[("group", group)])?.encode_gauge(&value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(metrics: LockMetrics, groups: Vec<GroupNumbers>) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(LockNumbers { calls: Arc::new(metrics), groups }));
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    fn metrics() -> LockMetrics {
        LockMetrics::new(Arc::new(LockGroups::new(["jobs/", "a \"b\""]).unwrap()))
    }

    #[test]
    fn every_outcome_of_an_acquire_is_counted_by_group() {
        let metrics = metrics();
        metrics.asked("jobs/1").answered(None);
        metrics.asked("jobs/2").answered(Some(ErrorCode::QueueFull));
        drop(metrics.asked("a \"b\"!"));
        for code in ErrorCode::ALL {
            metrics.asked("else").answered(Some(code));
        }
        let text = text_of(metrics, Vec::new());
        for line in [
            "holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"granted\"} 1\n",
            "holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"held\"} 0\n",
            "holdfast_lock_acquires_total{group=\"jobs/\",outcome=\"queue_full\"} 1\n",
            "holdfast_lock_acquires_total{group=\"a \\\"b\\\"\",outcome=\"hung_up\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        for code in ErrorCode::ALL {
            let line = format!("{{group=\"other\",outcome=\"{}\"}} 1\n", code.as_str());
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_renewals_margin_is_a_part_of_the_ttl() {
        let metrics = metrics();
        metrics.renewed("jobs/1", Some(666));
        metrics.renewed("jobs/1", Some(40));
        metrics.renewed("jobs/1", None);
        let text = text_of(metrics, Vec::new());
        for line in [
            "holdfast_lock_renew_margin_ratio_bucket{group=\"jobs/\",le=\"0.05\"} 1\n",
            "holdfast_lock_renew_margin_ratio_bucket{group=\"jobs/\",le=\"0.7\"} 2\n",
            "holdfast_lock_renew_margin_ratio_sum{group=\"jobs/\"} 0.706\n",
            "holdfast_lock_renew_margin_ratio_count{group=\"jobs/\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_clusters_numbers_are_shown_by_group() {
        let group = GroupNumbers {
            group: "jobs/".into(),
            endings: vec![(Cause::Expired, 3)],
            left: vec![(Cause::WaitTimeout, 4)],
            held: Distribution { buckets: vec![(1.0, 2), (f64::INFINITY, 1)], sum: 7.5 },
            holders: 5,
            waiters: 6,
            ..GroupNumbers::default()
        };
        let text = text_of(metrics(), vec![group]);
        for line in [
            "holdfast_lock_endings_total{group=\"jobs/\",cause=\"expired\"} 3\n",
            "holdfast_lock_left_total{group=\"jobs/\",cause=\"wait_timeout\"} 4\n",
            "holdfast_lock_held_seconds_sum{group=\"jobs/\"} 7.5\n",
            "holdfast_lock_held_seconds_count{group=\"jobs/\"} 3\n",
            "holdfast_lock_holders{group=\"jobs/\"} 5\n",
            "holdfast_lock_queue_length{group=\"jobs/\"} 6\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
