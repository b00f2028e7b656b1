//! What one worker does with one event.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_client::{AcquireError, Client, Guard};
use tokio::task::block_in_place;

use crate::report::Report;
use crate::retry::Retry;
use crate::stock::{Applied, Event, Stock};

/// Something failed that has no status of its own.
const EXIT_FAILED: u8 = 1;
/// The command line cannot be used.
pub(crate) const EXIT_USAGE: u8 = 64;
/// The cluster cannot be reached or has no leader.
const EXIT_UNREACHABLE: u8 = 69;
/// The lock was busy at every retry.
const EXIT_BUSY: u8 = 75;

/// What one worker is to do.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) event: Event,
    pub(crate) db: PathBuf,
    pub(crate) lock: String,
    pub(crate) owner: String,
    pub(crate) ttl: Duration,
    pub(crate) retry: Retry,
    /// How long the work takes.
    pub(crate) work: Duration,
    /// Whether it stops before the write until it is continued; for the demo.
    pub(crate) pauses_in_work: bool,
}

/// Why the event may not be in the stock. It can be delivered again in any case.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// Another worker had the lock, each time.
    #[error("gave up after {0} retries: the lock was held each time")]
    GaveUp(u32),
    /// The lock could not be asked for.
    #[error("the lock was not taken: {0}")]
    NotTaken(AcquireError),
    /// The database does not work.
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
}

impl SyncError {
    /// The status to exit with.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::GaveUp(_) => EXIT_BUSY,
            Self::NotTaken(AcquireError::Unreachable(_) | AcquireError::Protocol(_)) => EXIT_UNREACHABLE,
            Self::NotTaken(AcquireError::Refused(_)) => EXIT_USAGE,
            Self::NotTaken(_) | Self::Database(_) => EXIT_FAILED,
        }
    }
}

/// Brings an event into the stock, under the lock. Needs a runtime of several threads.
pub(crate) async fn sync(client: &Client, order: &Order) -> Result<(), SyncError> {
    let mut guard = take_with_retries(client, order).await?;
    Report::Holds { lock: &order.lock, fence: guard.fence(), ttl: guard.ttl() }.say();
    let applied = block_in_place(|| apply(order));
    let released = guard.release().await;
    let event = &order.event.id;
    match applied? {
        Applied::Now => Report::Applied { event }.say(),
        Applied::Before => Report::Unchanged { event }.say(),
    }
    if let Err(error) = released {
        // Had the lock been lost, another worker may have done the same work. The stock does not mind.
        Report::NotReleased(&error).say();
    }
    Ok(())
}

/// Takes the lock; while another worker holds it, asks again a bounded number of times.
///
/// A place in the queue would be quicker (`.wait(…)`). Retries are for jobs that are better not all lined up: between
/// two of them the worker can do something else.
async fn take_with_retries(client: &Client, order: &Order) -> Result<Guard, SyncError> {
    let request = client.lock(&order.lock).owner(&order.owner).ttl(order.ttl);
    let most = order.retry.most;
    for retry in 1.. {
        let holder = match request.acquire().await {
            Ok(guard) => return Ok(guard),
            Err(AcquireError::Busy { holder, .. }) => holder,
            Err(error) => return Err(SyncError::NotTaken(error)),
        };
        if retry > most {
            break;
        }
        let left = holder.as_ref().map_or(order.ttl, |holder| Duration::from_millis(holder.expires_in_ms));
        let pause = order.retry.pause(left, rand::random());
        Report::Busy { holder: holder.as_ref(), retry, most, pause }.say();
        tokio::time::sleep(pause).await;
    }
    Err(SyncError::GaveUp(most))
}

fn apply(order: &Order) -> Result<Applied, SyncError> {
    let mut stock = Stock::open(&order.db)?;
    std::thread::sleep(order.work);
    if order.pauses_in_work {
        Report::Pauses.say();
        stage::stop_here();
    }
    Ok(stock.apply(&order.event, &order.owner)?)
}
