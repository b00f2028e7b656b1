//! How a hold stands: held until a deadline, lost, or released. A loss is final.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_api::ErrorCode;
use tokio::sync::watch;

use crate::client::Client;
use crate::clock::Moment;
use crate::error::CallError;
use crate::lease::local_deadline;

/// Why a hold is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// No renewal was confirmed until the local deadline: somebody else may hold the lock a moment later.
    #[error("no renewal was confirmed before the local deadline")]
    Deadline,
    /// The service says that the lease is over.
    #[error("the lease is over")]
    Expired,
    /// The service says that the hold was released, by somebody who knows its token.
    #[error("it was released with its token")]
    Released,
    /// An operator ended the hold.
    #[error("an operator ended it")]
    Forced,
    /// The service knows of no such hold.
    #[error("the service knows of no such hold")]
    NotHolder,
    /// The guard was dropped without a release: nobody renews the lease any more.
    #[error("its guard was dropped without a release")]
    Dropped,
    /// It was held for as long as it may be.
    #[error("it was held for as long as it may be")]
    MaxHold,
    /// The session that kept it is over, lost, or ended.
    #[error("its session is over")]
    Session,
}

impl LossReason {
    /// The loss that an error tells of for certain; none if the lock may still be held.
    pub(crate) fn told_by(error: &CallError) -> Option<Self> {
        let CallError::Refused(refusal) = error else { return None };
        match refusal.code? {
            ErrorCode::LeaseExpired | ErrorCode::SessionExpired => Some(Self::Expired),
            ErrorCode::LeaseReleased => Some(Self::Released),
            ErrorCode::LeaseForced => Some(Self::Forced),
            ErrorCode::NotHolder | ErrorCode::SessionNotFound | ErrorCode::SessionNotYours => {
                Some(Self::NotHolder)
            }
            _ => None,
        }
    }
}

/// How a hold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The lock is held, at least until this moment.
    Held {
        /// The local deadline; renewals move it on.
        deadline: Moment,
    },
    /// The lock may be somebody else's. This never changes back.
    Lost(LossReason),
    /// It was released as its holder asked.
    Released,
}

/// What guards and their tasks know of one lease: of a hold, or of a session.
#[derive(Debug)]
pub(crate) struct Keep {
    pub(crate) client: Client,
    pub(crate) ttl: Duration,
    /// What keeps it instead of renewals of its own.
    pub(crate) session: Option<Arc<Keep>>,
    pub(crate) standing: watch::Sender<Standing>,
    /// Beyond it no renewal reaches: the end of the longest hold, as far as it is known.
    pub(crate) latest: Mutex<Option<Moment>>,
}

impl Keep {
    /// How it stands now. A deadline that has passed is noticed here too, whatever the tasks are doing.
    pub(crate) fn standing(&self) -> Standing {
        if let Some(session) = &self.session {
            self.follow(session.standing());
        }
        let standing = *self.standing.borrow();
        match standing {
            Standing::Held { deadline } if self.client.clock().now() >= deadline => {
                let is_at_most = self.latest().is_some_and(|latest| latest <= deadline);
                self.lose(if is_at_most { LossReason::MaxHold } else { LossReason::Deadline });
                *self.standing.borrow()
            }
            _ => standing,
        }
    }

    /// Returns when it has ended: with the reason if it was lost.
    pub(crate) fn lost(&self) -> impl Future<Output = Option<LossReason>> + Send + 'static {
        let mut standing = self.standing.subscribe();
        async move {
            let end = standing.wait_for(|standing| !matches!(standing, Standing::Held { .. })).await;
            match end.map(|end| *end) {
                Ok(Standing::Lost(reason)) => Some(reason),
                Ok(Standing::Held { .. } | Standing::Released) => None,
                Err(_) => Some(LossReason::Dropped),
            }
        }
    }

    fn follow(&self, session: Standing) {
        match session {
            Standing::Held { deadline } => self.move_on(deadline),
            Standing::Lost(_) | Standing::Released => self.lose(LossReason::Session),
        }
    }

    /// Ends it, if it has not ended yet.
    pub(crate) fn lose(&self, reason: LossReason) {
        self.end(Standing::Lost(reason));
    }

    /// Notes the release, if it has not ended yet.
    pub(crate) fn note_release(&self) {
        self.end(Standing::Released);
    }

    fn end(&self, end: Standing) {
        self.standing.send_if_modified(|standing| {
            let is_held = matches!(standing, Standing::Held { .. });
            if is_held {
                *standing = end;
            }
            is_held
        });
    }

    /// Moves the deadline on, unless it has ended or the deadline lies further ahead already.
    pub(crate) fn extend(&self, further: Moment) {
        if matches!(self.standing(), Standing::Held { .. }) {
            self.move_on(further);
        }
    }

    /// Until when it can be held at the longest; none if that has no end.
    pub(crate) fn latest(&self) -> Option<Moment> {
        *self.latest.lock().expect("nothing panics while it holds this")
    }

    /// What was left of the longest hold when the leader took a request that was sent at `sent`.
    pub(crate) fn bound(&self, sent: Moment, max_left_ms: Option<u64>) {
        let Some(max_left_ms) = max_left_ms else { return };
        let latest = local_deadline(sent, Duration::from_millis(max_left_ms));
        *self.latest.lock().expect("nothing panics while it holds this") = Some(latest);
    }

    fn move_on(&self, further: Moment) {
        let further = self.latest().map_or(further, |latest| further.min(latest));
        self.standing.send_if_modified(|standing| match standing {
            Standing::Held { deadline } if *deadline < further => {
                *deadline = further;
                true
            }
            _ => false,
        });
    }
}
