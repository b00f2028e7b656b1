//! Runs one plan once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::plan::Plan;
use crate::report::Measurement;
use crate::session::Session;
use crate::tally::{Phase, Tally};
use crate::target::{Settings, Target, TargetError};

/// Of everything that is held: longer than a measurement, so that only renewals renew.
const TTL: Duration = Duration::from_secs(120);
/// How long clients may take to finish what they are at. Waiters in a long queue each get their turn.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Why there is nothing to report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// A client could not even begin.
    #[error("client {number} of {target}: {source}")]
    Connect {
        /// The system.
        target: String,
        /// The client, from 0.
        number: usize,
        /// What went wrong.
        source: TargetError,
    },
    /// Not one operation succeeded while it counted.
    #[error("{target} completed not a single operation of `{workload}`{}", because(.first_failure.as_ref()))]
    Nothing {
        /// The system.
        target: String,
        /// The workload.
        workload: &'static str,
        /// What went wrong first, if anything did.
        first_failure: Option<TargetError>,
    },
}

fn because(failure: Option<&TargetError>) -> String {
    failure.map(|failure| format!("; first failure: {failure}")).unwrap_or_default()
}

/// How far a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since the clients began, warm-up included.
    pub elapsed: Duration,
    /// Operations that count so far.
    pub operations: u64,
    /// Requests that came to nothing so far.
    pub failures: u64,
}

/// Connects the clients, lets them run as planned, and says what they did. `watch` hears of it once a second.
///
/// # Errors
/// A client that cannot connect at the beginning, or no operation at all. Single failures are counted instead.
pub async fn measure<T: Target>(
    target: &Arc<T>,
    plan: Plan,
    watch: impl Fn(Progress),
) -> Result<Measurement, MeasureError> {
    let tally = Arc::new(Tally::new());
    let mut clients = JoinSet::new();
    for session in connect(target, plan, &tally).await? {
        clients.spawn(session.run(plan.workload));
    }
    let elapsed = count(plan, &tally, watch).await;
    finish(clients).await;
    let latency = tally.latency();
    if tally.operations() == 0 {
        return Err(MeasureError::Nothing {
            target: target.name().into(),
            workload: plan.workload.name(),
            first_failure: tally.first_failure(),
        });
    }
    Ok(Measurement {
        operations: tally.operations(),
        elapsed,
        acquire: latency,
        failures: tally.failures(),
        first_failure: tally.first_failure(),
    })
}

async fn connect<T: Target>(
    target: &Arc<T>,
    plan: Plan,
    tally: &Arc<Tally>,
) -> Result<Vec<Session<T>>, MeasureError> {
    let prefix: Arc<str> = run_prefix().into();
    let mut sessions = Vec::with_capacity(plan.clients);
    for number in 0..plan.clients {
        let settings = Settings { number, owner: format!("bench-{number}"), ttl: TTL };
        let session = Session::connect(target.clone(), settings, tally.clone(), prefix.clone());
        let failed = |source| MeasureError::Connect { target: target.name().into(), number, source };
        sessions.push(session.await.map_err(failed)?);
    }
    Ok(sessions)
}

/// What the locks of one run begin with: no two runs get in each other's way.
pub(crate) fn run_prefix() -> String {
    format!("bench.{:08x}", getrandom::u32().expect("the system gives random numbers"))
}

/// Takes the tally through its phases. Returns how long operations counted.
async fn count(plan: Plan, tally: &Tally, watch: impl Fn(Progress)) -> Duration {
    let start = Instant::now();
    let report = || {
        watch(Progress {
            elapsed: start.elapsed(),
            operations: tally.operations(),
            failures: tally.failures(),
        });
    };
    wait_until(start + plan.warm_up, report).await;
    tally.enter(Phase::Measured);
    let measured_from = Instant::now();
    wait_until(measured_from + plan.measured, report).await;
    tally.enter(Phase::Over);
    measured_from.elapsed()
}

async fn wait_until(deadline: Instant, report: impl Fn()) {
    while Instant::now() < deadline {
        tokio::time::sleep_until(deadline.min(Instant::now() + PROGRESS_INTERVAL)).await;
        report();
    }
}

/// Lets the clients finish, and ends those that do not.
async fn finish(mut clients: JoinSet<()>) {
    let all_done = async { while clients.join_next().await.is_some() {} };
    // Those that are left wait for what will not come; their connections close with them.
    let _ = tokio::time::timeout(FINISH_TIMEOUT, all_done).await;
    clients.shutdown().await;
}
