//! What one instance does: take the lock or skip the run, write the invoices, release.

use std::time::Duration;

use holdfast_client::{AcquireError, Client, Guard, LossReason, Standing};
use tokio::task::block_in_place;

use crate::month::Month;
use crate::report::Report;
use crate::store::{self, Customer, Invoice, InvoiceStore, Pass, StaleFence, StoreError, Written};

/// Something failed that has no status of its own.
const EXIT_FAILED: u8 = 1;
/// The command line cannot be used.
pub const EXIT_USAGE: u8 = 64;
/// The cluster cannot be reached or has no leader.
const EXIT_UNREACHABLE: u8 = 69;
/// The lock was lost, or its fence refused, before the work was done.
pub const EXIT_LOST: u8 = 76;

/// What one instance is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The lock's name.
    pub lock: String,
    /// How others see this instance.
    pub owner: String,
    /// The lease without renewal.
    pub ttl: Duration,
    /// What is invoiced.
    pub month: Month,
    /// An SQLite file or a `postgres://` URL.
    pub db: String,
    /// How many customers there must be.
    pub customers: u32,
    /// How long the work on one invoice takes.
    pub work: Duration,
    /// Before whose invoice it stops until it is continued; for the demo.
    pub pause_at_customer: Option<u32>,
}

/// Why a run has failed. What it wrote before is complete and stays; the next run writes the rest.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The lock could not be asked for.
    #[error("the lock was not taken: {0}")]
    NotTaken(AcquireError),
    /// The lock was lost, and noticed in time.
    #[error("stopped, since the lock is lost: {0}")]
    Lost(LossReason),
    /// The lock was lost, and the store noticed.
    #[error(
        "stopped: fence {} is older than {}; the lock was lost unnoticed, and another instance has written since",
        .0.fence, .0.newest
    )]
    Overtaken(#[from] StaleFence),
    /// The database does not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JobError {
    /// The status to exit with.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotTaken(AcquireError::Unreachable(_) | AcquireError::Protocol(_)) => EXIT_UNREACHABLE,
            Self::Lost(_) | Self::Overtaken(_) | Self::NotTaken(AcquireError::Lost(_)) => EXIT_LOST,
            Self::NotTaken(AcquireError::Refused(_)) => EXIT_USAGE,
            Self::NotTaken(_) | Self::Store(_) => EXIT_FAILED,
        }
    }
}

/// Runs the job if the lock is free, and skips the run if it is held. Needs a runtime of several threads.
///
/// The guard renews the lease every third of its TTL, on other threads than the work.
///
/// # Errors
/// The run has failed. That another instance holds the lock is no failure.
pub async fn run_once(client: &Client, job: &Job) -> Result<(), JobError> {
    // No wait: an instance that came second has nothing left to do.
    let request = client.lock(&job.lock).owner(&job.owner).ttl(job.ttl);
    let mut guard = match request.acquire().await {
        Ok(guard) => guard,
        Err(AcquireError::Busy { holder, .. }) => {
            Report::Skips { lock: &job.lock, holder: holder.as_ref() }.say();
            return Ok(());
        }
        Err(error) => return Err(JobError::NotTaken(error)),
    };
    Report::Holds { lock: &job.lock, fence: guard.fence(), ttl: guard.ttl() }.say();
    let worked = block_in_place(|| work(client, &guard, job));
    // By its token: this frees the lock only if it is still ours.
    let released = guard.release().await;
    let (new, already) = worked?;
    Report::Ran { new, already }.say();
    if let Err(error) = released {
        // Nothing is undone by it: the store has taken every write.
        Report::NotReleased(&error).say();
    }
    Ok(())
}

/// Writes all invoices. Returns how many were new, and how many were there already.
fn work(client: &Client, guard: &Guard, job: &Job) -> Result<(u32, u32), JobError> {
    let mut store = store::open(&job.db)?;
    store.add_customers(job.customers)?;
    let pass = Pass { lock: job.lock.clone(), fence: guard.fence() };
    store.begin_run(&pass)?.inspect_err(|stale| tell_refusal(None, *stale))?;
    let (mut new, mut already) = (0, 0);
    for customer in store.customers()? {
        std::thread::sleep(job.work);
        let left = time_left(client, guard)?;
        if job.pause_at_customer.map(i64::from) == Some(customer.id) {
            Report::Pauses { customer: customer.id, left }.say();
            stage::stop_here();
        }
        match write(&mut *store, job, guard.fence(), &customer)? {
            Written::New => new += 1,
            Written::Already => already += 1,
        }
    }
    Ok((new, already))
}

/// How long the lock is still held for certain.
///
/// A courtesy to whoever waits, and no protection: anything can happen between this look and the write.
fn time_left(client: &Client, guard: &Guard) -> Result<Duration, JobError> {
    match guard.standing() {
        Standing::Held { deadline } => Ok(deadline.since(client.clock().now())),
        Standing::Lost(reason) => Err(JobError::Lost(reason)),
        Standing::Released => unreachable!("only the end of the run releases the lock"),
    }
}

fn write(
    store: &mut dyn InvoiceStore,
    job: &Job,
    fence: u64,
    customer: &Customer,
) -> Result<Written, JobError> {
    let invoice = Invoice {
        customer: customer.id,
        month: job.month.to_string(),
        amount_cents: customer.fee_cents,
        fence,
        written_by: job.owner.clone(),
    };
    let ruling = store.write(&job.lock, &invoice)?;
    let written = ruling.inspect_err(|stale| tell_refusal(Some(customer.id), *stale))?;
    Report::Wrote(&invoice, written).say();
    Ok(written)
}

fn tell_refusal(customer: Option<i64>, stale: StaleFence) {
    Report::Refused { customer, fence: stale.fence, newest: stale.newest }.say();
}
