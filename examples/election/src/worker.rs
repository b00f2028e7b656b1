//! One worker: it waits for the lead, leads until it is lost, and waits again.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use holdfast_client::{AcquireError, Client, Leadership, LossReason, Moment, Standing};
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
    pub(crate) election: String,
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
    let election = client.election(&post.election).owner(&post.owner).ttl(post.ttl);
    loop {
        Report::Waits { election: &post.election }.say();
        // What everybody may see of the leader: here, who it is.
        let value = post.owner.as_str().into();
        let mut lead = match election.campaign_until(value, stop.as_mut()).await {
            Ok(lead) => lead,
            Err(AcquireError::Stopped) => return Ok(()),
            // The grant came too late to be of use. There will be another one.
            Err(AcquireError::Lost(_)) => continue,
            Err(error) => return Err(WorkError::NotAsked(error)),
        };
        let mut term = Term::begin(client, &lead, post, &mut decisions);
        let end = term.lead(stop.as_mut()).await;
        // The belief ends before anybody else can get the lock.
        let belief = term.belief_that_ends(client.clock().now());
        let resigned = lead.resign().await;
        match end? {
            End::Lost(reason) => Report::Lost { fence: belief.fence, reason }.say(),
            End::Overtaken(stale) => Report::Overtaken(stale).say(),
            End::AskedToStop => {
                match resigned {
                    Ok(()) => Report::Resigned { fence: belief.fence }.say(),
                    Err(error) => Report::NotResigned(&error).say(),
                }
                Report::Believes(belief).say();
                return Ok(());
            }
        }
    }
}

/// The time in which one grant lets a worker lead.
struct Term<'a> {
    lead: &'a Leadership,
    post: &'a Post,
    decisions: &'a mut Decisions,
    began: Moment,
    has_decided: bool,
    has_told_belief: bool,
}

impl<'a> Term<'a> {
    fn begin(client: &Client, lead: &'a Leadership, post: &'a Post, decisions: &'a mut Decisions) -> Self {
        let began = client.clock().now();
        Report::Leads { fence: lead.fence(), ttl: lead.ttl() }.say();
        Self { lead, post, decisions, began, has_decided: false, has_told_belief: false }
    }

    /// Leads: decides something at regular times, and tells how long it can believe in its lead.
    async fn lead(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> Result<End, WorkError> {
        if let Err(stale) = block_in_place(|| self.decisions.begin_term(self.lead.fence()))? {
            return Ok(End::Overtaken(stale));
        }
        let mut standing = self.lead.watch();
        standing.mark_changed();
        let mut times = tokio::time::interval(self.post.decide_every);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let end = tokio::select! {
                () = &mut stop => Some(End::AskedToStop),
                _ = standing.changed() => self.tell_belief(),
                _ = times.tick() => self.decide()?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Takes one decision. Returns why the term is over, if it is.
    fn decide(&mut self) -> Result<Option<End>, WorkError> {
        // A look at the lead saves useless work. That no late decision counts is the store's business.
        if let Standing::Lost(reason) = self.lead.standing() {
            return Ok(Some(End::Lost(reason)));
        }
        let fence = self.lead.fence();
        if let Err(stale) = block_in_place(|| self.decisions.decide(fence, &self.post.owner))? {
            return Ok(Some(End::Overtaken(stale)));
        }
        if !self.has_decided {
            Report::Decides { fence }.say();
            self.has_decided = true;
        }
        Ok(None)
    }

    /// Tells how long the lead can be believed in. Returns why the term is over, if it is.
    fn tell_belief(&mut self) -> Option<End> {
        match self.lead.standing() {
            Standing::Held { deadline } => {
                Report::Believes(self.belief_that_ends(deadline)).say();
                if self.has_told_belief {
                    Report::Renewed { fence: self.lead.fence() }.say();
                }
                self.has_told_belief = true;
                None
            }
            Standing::Lost(reason) => Some(End::Lost(reason)),
            Standing::Released => unreachable!("only the end of the term releases the lock"),
        }
    }

    fn belief_that_ends(&self, at: Moment) -> Belief {
        let (from_ms, until_ms) = (since_boot_ms(self.began), since_boot_ms(at));
        Belief { fence: self.lead.fence(), from_ms, until_ms }
    }
}
