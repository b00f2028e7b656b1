//! `holdfast bench`: the load generator.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use holdfast_bench::holdfast::Holdfast;
use holdfast_bench::memory::{self, MemoryPlan};
use holdfast_bench::{Placement, Plan, Progress, Report, Workload, measure, table};
use serde_json::json;

use crate::args::{BenchArgs, BenchWorkload};
use crate::exit::{Failure, UNREACHABLE};
use crate::{output, runtime};

/// How long the nodes may come to rest before they are weighed.
const SETTLE: Duration = Duration::from_secs(5);

/// Runs the workloads one after the other.
///
/// One thread: the nodes on the same machine need the rest.
pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    if args.workload.contains(&BenchWorkload::Memory) && args.pids.is_empty() {
        return Err(Failure::usage(
            "memory needs --pids (HOLDFAST_PIDS): the nodes' processes on this machine",
        ));
    }
    runtime::single_threaded()?.block_on(run_all(args))
}

async fn run_all(args: &BenchArgs) -> Result<(), Failure> {
    let placement = if args.leader { Placement::Leader } else { Placement::All };
    let target = Holdfast::open(&args.endpoints, placement).await;
    let target = Arc::new(target.map_err(Failure::unreachable)?);
    let mut reports = Vec::new();
    for workload in chosen(&args.workload) {
        match workload.in_a_loop() {
            Some(workload) => reports.push(repeat(args, &target, workload).await?),
            None => weigh(args, &target).await?,
        }
    }
    if args.json || reports.is_empty() {
        return Ok(());
    }
    output::line(&table(&reports))
}

fn chosen(asked: &[BenchWorkload]) -> Vec<BenchWorkload> {
    use BenchWorkload::{Hot, Pairs, Renew, Single};
    if asked.is_empty() { vec![Single, Pairs, Hot, Renew] } else { asked.to_vec() }
}

async fn repeat(args: &BenchArgs, target: &Arc<Holdfast>, workload: Workload) -> Result<Report, Failure> {
    let plan = Plan {
        workload,
        clients: workload.clients(args.clients),
        warm_up: Duration::from_secs(args.warm_up_seconds as u64),
        measured: Duration::from_secs(args.seconds as u64),
    };
    let mut runs = Vec::new();
    for repetition in 1..=args.repetitions {
        let title = format!("{workload} {repetition}/{}", args.repetitions);
        let run = measure(target, plan, |progress| say(&title, progress)).await;
        runs.push(run.map_err(|error| Failure::new(UNREACHABLE, error.to_string()))?);
    }
    let report = Report { target: "holdfast".into(), plan, runs };
    if let Some(failure) = report.first_failure() {
        note(&format!("{workload}: {} requests failed; the first one: {failure}", report.failures()));
    }
    if args.json {
        output::line(&report.to_json().to_string())?;
    }
    Ok(report)
}

async fn weigh(args: &BenchArgs, target: &Arc<Holdfast>) -> Result<(), Failure> {
    let (locks, clients, pids) = (args.locks, args.clients, args.pids.clone());
    let plan = MemoryPlan { locks, clients, pids, settle: SETTLE };
    let report = memory::fill(target, &plan, |done| note(&format!("memory: {done} of {locks} locks")))
        .await
        .map_err(|error| Failure::other(error.to_string()))?;
    if args.json {
        let json = json!({"workload": "memory", "bytes_per_lock": report.bytes_per_lock(), "report": report});
        return output::line(&json.to_string());
    }
    let per_lock = report.bytes_per_lock();
    output::line(&format!("memory: {per_lock} bytes of resident memory per held lock, with {locks} locks"))
}

fn say(title: &str, progress: Progress) {
    let Progress { elapsed, operations, failures } = progress;
    note(&format!("{title}: {:.0} s, {operations} operations, {failures} failures", elapsed.as_secs_f64()));
}

/// A word for whoever waits.
fn note(text: &str) {
    // If nobody takes it, the measurement goes on.
    let _ = writeln!(std::io::stderr(), "holdfast: {text}");
}
