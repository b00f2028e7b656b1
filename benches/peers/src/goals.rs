//! What Holdfast is to reach against the faster of etcd's two ways.

use std::fmt;

use holdfast_bench::{Report, Workload};
use serde::Serialize;

use crate::contest::Contestant;

/// One goal, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    what: &'static str,
    /// Holdfast's number divided by etcd's.
    ratio: f64,
    /// The ratio to reach: at least, or at most.
    least: Option<f64>,
    most: Option<f64>,
}

impl Goal {
    fn is_reached(&self) -> bool {
        self.least.is_none_or(|least| self.ratio >= least) && self.most.is_none_or(|most| self.ratio <= most)
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_reached() { "reached" } else { "MISSED" };
        write!(f, "{verdict:<7}  {}: {:.2} x etcd's", self.what, self.ratio)?;
        match (self.least, self.most) {
            (Some(least), _) => write!(f, ", at least {least} is the goal"),
            (None, Some(most)) => write!(f, ", at most {most} is the goal"),
            (None, None) => Ok(()),
        }
    }
}

/// The goals whose workloads were measured.
pub(crate) fn of(reports: &[(Contestant, Report)]) -> Vec<Goal> {
    let rate = |what, workload, least| {
        let of_etcd = of_etcd(reports, workload, Report::per_second).reduce(f64::max)?;
        let ratio = of_holdfast(reports, workload, Report::per_second)? / of_etcd;
        Some(Goal { what, ratio, least: Some(least), most: None })
    };
    let p50 = || {
        let p50 = |report: &Report| report.acquire().map_or(f64::NAN, |latency| latency.p50_us as f64);
        let of_etcd = of_etcd(reports, Workload::Single, p50).reduce(f64::min)?;
        let ratio = of_holdfast(reports, Workload::Single, p50)? / of_etcd;
        Some(Goal { what: "acquire p50 of a single client", ratio, least: None, most: Some(1.0) })
    };
    let goals = [
        rate("acquire and release", Workload::Pairs, 1.5),
        rate("hand-overs of one hot lock", Workload::Hot, 2.5),
        p50(),
    ];
    goals.into_iter().flatten().collect()
}

fn of_holdfast(
    reports: &[(Contestant, Report)],
    workload: Workload,
    number: impl Fn(&Report) -> f64,
) -> Option<f64> {
    let of = |(contestant, report): &&(Contestant, Report)| {
        *contestant == Contestant::Holdfast && report.plan.workload == workload
    };
    reports.iter().find(of).map(|(_, report)| number(report))
}

fn of_etcd(
    reports: &[(Contestant, Report)],
    workload: Workload,
    number: impl Fn(&Report) -> f64,
) -> impl Iterator<Item = f64> {
    let of = move |(contestant, report): &&(Contestant, Report)| {
        *contestant != Contestant::Holdfast && report.plan.workload == workload
    };
    reports.iter().filter(of).map(move |(_, report)| number(report))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_bench::{Latency, Measurement, Plan};

    use super::*;

    fn report(
        contestant: Contestant,
        workload: Workload,
        operations: u64,
        p50_us: u64,
    ) -> (Contestant, Report) {
        let second = Duration::from_secs(1);
        let run = Measurement {
            operations,
            elapsed: second,
            acquire: Some(Latency { p50_us, p99_us: p50_us, max_us: p50_us }),
            failures: 0,
            first_failure: None,
        };
        let plan = Plan { workload, clients: 1, warm_up: second, measured: second };
        (contestant, Report { target: contestant.to_string(), plan, runs: vec![run] })
    }

    #[test]
    fn the_faster_of_etcds_ways_is_its_number() {
        let reports = [
            report(Contestant::Holdfast, Workload::Pairs, 3_000, 1),
            report(Contestant::EtcdTransactions, Workload::Pairs, 2_000, 1),
            report(Contestant::EtcdLockApi, Workload::Pairs, 1_000, 1),
        ];
        let goals = of(&reports);
        assert_eq!((goals.len(), goals[0].ratio), (1, 1.5));
        assert!(goals[0].is_reached());
    }

    #[test]
    fn of_latencies_the_lower_one_is_the_faster_way() {
        let reports = [
            report(Contestant::Holdfast, Workload::Single, 1, 900),
            report(Contestant::EtcdTransactions, Workload::Single, 1, 800),
            report(Contestant::EtcdLockApi, Workload::Single, 1, 1_000),
        ];
        let goals = of(&reports);
        assert!(!goals[0].is_reached(), "{}", goals[0]);
        assert!(
            goals[0].to_string().starts_with("MISSED   acquire p50 of a single client: 1.12 x"),
            "{}",
            goals[0]
        );
    }
}
