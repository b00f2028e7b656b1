//! Who is measured, and in which order.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use holdfast_bench::holdfast::Holdfast;
use holdfast_bench::{MeasureError, Measurement, Plan, Report, TargetError, Workload, measure};

use crate::args::Args;
use crate::etcd::{EtcdLockApi, EtcdTransactions, Members};

/// A system, in one way of using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Holdfast,
    EtcdTransactions,
    EtcdLockApi,
}

impl Contestant {
    const ALL: [Self; 3] = [Self::Holdfast, Self::EtcdTransactions, Self::EtcdLockApi];

    /// Keeping an etcd lease alive is the same call in both ways of using it.
    fn takes_part_in(self, workload: Workload) -> bool {
        self != Self::EtcdLockApi || workload != Workload::Renew
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holdfast => "holdfast",
            Self::EtcdTransactions => "etcd, transactions",
            Self::EtcdLockApi => "etcd, lock API",
        })
    }
}

/// All contestants, ready to be measured.
pub(crate) struct Contest {
    holdfast: Arc<Holdfast>,
    transactions: Arc<EtcdTransactions>,
    lock_api: Arc<EtcdLockApi>,
}

impl Contest {
    pub(crate) async fn open(args: &Args) -> Result<Self, TargetError> {
        let holdfast = Holdfast::open(&args.holdfast, args.placement.into()).await?;
        let members = Members::open(&args.etcd, args.placement.into()).await?;
        Ok(Self {
            holdfast: Arc::new(holdfast),
            transactions: Arc::new(EtcdTransactions(members.clone())),
            lock_api: Arc::new(EtcdLockApi(members)),
        })
    }

    /// Measures in turns: whatever else the machine does meets all contestants alike.
    pub(crate) async fn run(&self, args: &Args) -> Result<Vec<(Contestant, Report)>, MeasureError> {
        let workloads = if args.workloads.is_empty() { &Workload::ALL[..] } else { &args.workloads };
        let mut reports: Vec<(Contestant, Report)> = lines(args, workloads).collect();
        for repetition in 1..=args.repetitions {
            for (contestant, report) in &mut reports {
                let run = self.measure(*contestant, report.plan).await?;
                let (workload, rate, unit) =
                    (report.plan.workload, run.per_second(), report.plan.workload.unit());
                say(&format!(
                    "{repetition}/{}: {workload}, {contestant}: {rate:.0} {unit} a second{}",
                    args.repetitions,
                    run.first_failure
                        .as_ref()
                        .map(|failure| format!("; failures: {failure}"))
                        .unwrap_or_default()
                ));
                report.runs.push(run);
            }
        }
        Ok(reports)
    }

    async fn measure(&self, contestant: Contestant, plan: Plan) -> Result<Measurement, MeasureError> {
        match contestant {
            Contestant::Holdfast => measure(&self.holdfast, plan, |_| {}).await,
            Contestant::EtcdTransactions => measure(&self.transactions, plan, |_| {}).await,
            Contestant::EtcdLockApi => measure(&self.lock_api, plan, |_| {}).await,
        }
    }
}

/// The lines of the table, without results as yet.
fn lines(args: &Args, workloads: &[Workload]) -> impl Iterator<Item = (Contestant, Report)> {
    let lines =
        workloads.iter().flat_map(|&workload| Contestant::ALL.map(|contestant| (contestant, workload)));
    lines.filter(|(contestant, workload)| contestant.takes_part_in(*workload)).map(
        |(contestant, workload)| {
            let plan = Plan {
                workload,
                clients: workload.clients(args.clients),
                warm_up: Duration::from_secs(args.warm_up_seconds),
                measured: Duration::from_secs(args.seconds),
            };
            (contestant, Report { target: contestant.to_string(), plan, runs: Vec::new() })
        },
    )
}

/// A word for whoever waits. If nobody takes it, the measurement goes on.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "bench-peers: {text}");
}
