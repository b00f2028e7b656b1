//! One worker: it waits for the lead, leads until it is lost, and waits again.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use holdfast_client::{AcquireError, Client, Guard, LossReason, Standing};
use tokio::task::block_in_place;
use tokio::time::MissedTickBehavior;

use crate::belief::{Belief, since_boot_ms};
use crate::decisions::{Decisions, StaleFence};
use crate::report::Report;

/// Something failed that has no status of its own.
const EXIT_FAILED: u8 = 1;
/// The command line cannot be used.
pub(crate) const EXIT_USAGE: u8 = 64;
/// The cluster cannot be reached or has no leader.
const EXIT_UNREACHABLE: u8 = 69;

/// What a worker is to do.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) lock: String,
    pub(crate) owner: String,
    pub(crate) ttl: Duration,
    pub(crate) db: PathBuf,
    pub(crate) decide_every: Duration,
}

/// Why a worker cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// The lead could not be asked for.
    #[error("the lead was not asked for: {0}")]
    NotAsked(AcquireError),
    /// The database does not work.
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
}

impl WorkError {
    /// The status to exit with.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::NotAsked(AcquireError::Unreachable(_) | AcquireError::Protocol(_)) => EXIT_UNREACHABLE,
            Self::NotAsked(AcquireError::Refused(_)) => EXIT_USAGE,
            Self::NotAsked(_) | Self::Database(_) => EXIT_FAILED,
        }
    }
}

/// How a term of leading ends.
enum End {
    Lost(LossReason),
    Overtaken(StaleFence),
    AskedToStop,
}

/// Leads whenever it can, until `stop`. Needs a runtime of several threads.
pub(crate) async fn work(
    client: &Client,
    post: &Post,
    stop: impl Future<Output = ()>,
) -> Result<(), WorkError> {
    let mut stop = pin!(stop);
    let mut decisions = block_in_place(|| Decisions::open(&post.db))?;
    let request = client.lock(&post.lock).owner(&post.owner).ttl(post.ttl).wait_forever();
    loop {
        let mut guard = match request.acquire_until(stop.as_mut()).await {
            Ok(guard) => guard,
            Err(AcquireError::Stopped) => return Ok(()),
            // The grant came too late to be of use. There will be another one.
            Err(AcquireError::Lost(_)) => continue,
            Err(error) => return Err(WorkError::NotAsked(error)),
        };
        let began_ms = since_boot_ms(client.clock().now());
        let fence = guard.fence();
        Report::Leads { fence, ttl: guard.ttl() }.say();
        let end = lead(&guard, post, began_ms, &mut decisions, stop.as_mut()).await?;
        // The belief ends before anybody else can get the lock.
        let until_ms = since_boot_ms(client.clock().now());
        let released = guard.release().await;
        match end {
            End::Lost(reason) => Report::Lost { fence, reason }.say(),
            End::Overtaken(stale) => Report::Overtaken(stale).say(),
            End::AskedToStop => {
                match released {
                    Ok(()) => Report::Resigned { fence }.say(),
                    Err(error) => Report::NotReleased(&error).say(),
                }
                Report::Believes(Belief { fence, from_ms: began_ms, until_ms }).say();
                return Ok(());
            }
        }
    }
}

/// Leads: decides something at regular times, and tells how long it can believe in its lead.
async fn lead(
    guard: &Guard,
    post: &Post,
    from_ms: u64,
    decisions: &mut Decisions,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<End, WorkError> {
    let fence = guard.fence();
    let mut standing = guard.watch();
    standing.mark_changed();
    let mut times = tokio::time::interval(post.decide_every);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_decided = false;
    if let Err(stale) = block_in_place(|| decisions.begin_term(fence))? {
        return Ok(End::Overtaken(stale));
    }
    loop {
        tokio::select! {
            () = &mut stop => return Ok(End::AskedToStop),
            _ = standing.changed() => {}
            _ = times.tick() => {
                // A look at the guard saves useless work. That no late decision counts is the store's business.
                if guard.is_held() {
                    if let Err(stale) = block_in_place(|| decisions.decide(fence, &post.owner))? {
                        return Ok(End::Overtaken(stale));
                    }
                    if !has_decided {
                        Report::Decides { fence }.say();
                    }
                    has_decided = true;
                    continue;
                }
            }
        }
        match guard.standing() {
            Standing::Held { deadline } => {
                Report::Believes(Belief { fence, from_ms, until_ms: since_boot_ms(deadline) }).say();
            }
            Standing::Lost(reason) => return Ok(End::Lost(reason)),
            Standing::Released => unreachable!("only the end of the term releases the lock"),
        }
    }
}
