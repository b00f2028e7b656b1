//! What came out, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::latency::Latency;
use crate::plan::Plan;
use crate::target::TargetError;

/// What came out of one repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Operations that were completed while they counted.
    pub operations: u64,
    /// How long they counted.
    pub elapsed: Duration,
    /// Of the acquires among them; none in a workload that only renews.
    pub acquire: Option<Latency>,
    /// Requests that came to nothing, warm-up included.
    pub failures: u64,
    /// The first of them.
    pub first_failure: Option<TargetError>,
}

impl Measurement {
    /// Operations a second.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    fn to_json(&self) -> Value {
        json!({
            "operations": self.operations,
            "elapsed_ms": self.elapsed.as_millis(),
            "per_second": rounded(self.per_second()),
            "acquire": self.acquire,
            "failures": self.failures,
            "first_failure": self.first_failure.as_ref().map(ToString::to_string),
        })
    }
}

/// All repetitions of one plan against one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was measured.
    pub target: String,
    /// What the clients did.
    pub plan: Plan,
    /// At least one, in the order in which they were made.
    pub runs: Vec<Measurement>,
}

/// The middle of some values, the lower one of two.
fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).expect("rates are numbers"));
    values.get(values.len().saturating_sub(1) / 2).copied()
}

impl Report {
    /// The median of the repetitions' rates, per second.
    pub fn per_second(&self) -> f64 {
        median(self.runs.iter().map(Measurement::per_second).collect())
            .expect("a report has at least one run")
    }

    /// The medians of the repetitions' latencies, each taken for itself; none in a workload that only renews.
    pub fn acquire(&self) -> Option<Latency> {
        let all: Vec<Latency> = self.runs.iter().filter_map(|run| run.acquire).collect();
        let of = |get: fn(&Latency) -> u64| median(all.iter().map(get).collect());
        Some(Latency { p50_us: of(|l| l.p50_us)?, p99_us: of(|l| l.p99_us)?, max_us: of(|l| l.max_us)? })
    }

    /// Of all repetitions.
    pub fn failures(&self) -> u64 {
        self.runs.iter().map(|run| run.failures).sum()
    }

    /// The first failure of the first repetition that has one.
    pub fn first_failure(&self) -> Option<&TargetError> {
        self.runs.iter().find_map(|run| run.first_failure.as_ref())
    }

    /// The lowest and the highest rate.
    fn range(&self) -> (f64, f64) {
        let rates = || self.runs.iter().map(Measurement::per_second);
        (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))
    }

    /// All there is to know, for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "workload": self.plan.workload,
            "unit": self.plan.workload.unit(),
            "clients": self.plan.clients,
            "warm_up_ms": self.plan.warm_up.as_millis(),
            "measured_ms": self.plan.measured.as_millis(),
            "median": {
                "per_second": rounded(self.per_second()),
                "acquire": self.acquire(),
            },
            "failures": self.failures(),
            "runs": self.runs.iter().map(Measurement::to_json).collect::<Vec<_>>(),
        })
    }

    fn row(&self) -> [String; 8] {
        let (low, high) = self.range();
        let latency = self.acquire();
        let shown = |get: fn(&Latency) -> u64| latency.map_or("-".into(), |latency| millis(get(&latency)));
        [
            self.plan.workload.to_string(),
            self.target.clone(),
            self.plan.clients.to_string(),
            format!("{:.0} {}", self.per_second(), self.plan.workload.unit()),
            format!("{low:.0} to {high:.0}"),
            shown(|latency| latency.p50_us),
            shown(|latency| latency.p99_us),
            self.failures().to_string(),
        ]
    }
}

const HEAD: [&str; 8] =
    ["workload", "target", "clients", "per second", "range", "p50 ms", "p99 ms", "failures"];

/// The reports as a table for people: medians, and the range of the rates. Latencies are those of acquires.
pub fn table<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(reports.into_iter().map(Report::row));
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    rows.iter().map(|row| line(row, &widths)).collect::<Vec<_>>().join("\n")
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (at, (cell, &width)) in row.iter().zip(widths).enumerate() {
        // Words begin at the left, numbers end at the right.
        match at {
            0 | 1 => write!(text, "{cell:<width$}  "),
            _ => write!(text, "{cell:>width$}  "),
        }
        .expect("a string takes everything");
    }
    text.truncate(text.trim_end().len());
    text
}

fn millis(us: u64) -> String {
    format!("{:.2}", us as f64 / 1_000.0)
}

/// To a tenth: more is noise.
fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Workload;

    fn run(operations: u64, p50_us: u64) -> Measurement {
        Measurement {
            operations,
            elapsed: Duration::from_secs(2),
            acquire: Some(Latency { p50_us, p99_us: 2 * p50_us, max_us: 3 * p50_us }),
            failures: 0,
            first_failure: None,
        }
    }

    fn report(runs: Vec<Measurement>) -> Report {
        let (warm_up, measured) = (Duration::from_secs(1), Duration::from_secs(2));
        let plan = Plan { workload: Workload::Pairs, clients: 64, warm_up, measured };
        Report { target: "holdfast".into(), plan, runs }
    }

    #[test]
    fn a_report_speaks_of_medians_and_not_of_the_best_run() {
        let report = report(vec![run(200, 9_000), run(1_000, 1_000), run(600, 2_000)]);
        assert_eq!(report.per_second(), 300.0);
        assert_eq!(report.acquire(), Some(Latency { p50_us: 2_000, p99_us: 4_000, max_us: 6_000 }));
    }

    #[test]
    fn of_two_repetitions_the_worse_rate_counts() {
        assert_eq!(report(vec![run(400, 1), run(200, 1)]).per_second(), 100.0);
    }

    #[test]
    fn the_table_lines_its_columns_up() {
        let table = table([&report(vec![run(200, 1_500)])]);
        let expected = "\
workload  target    clients  per second      range  p50 ms  p99 ms  failures
pairs     holdfast       64   100 pairs  100 to 100    1.50    3.00         0";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&table), squeezed(expected));
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert_eq!(widths[0], widths[1], "{table}");
    }

    #[test]
    fn programs_see_every_run() {
        let json = report(vec![run(200, 1_500), run(300, 1_500)]).to_json();
        assert_eq!(json["runs"][1]["per_second"], 150.0);
        assert_eq!(json["median"]["acquire"]["p50_us"], 1_500);
        assert_eq!(json["workload"], "pairs");
    }
}
