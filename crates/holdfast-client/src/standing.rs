//! How a hold stands: held until a deadline, lost, or released. A loss is final.

use std::time::Duration;

use holdfast_api::{ErrorCode, Fenced, Token};
use tokio::sync::watch;

use crate::client::Client;
use crate::clock::Moment;
use crate::error::CallError;
use crate::target::Target;

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
}

impl LossReason {
    /// The loss that an error tells of for certain; none if the lock may still be held.
    pub(crate) fn told_by(error: &CallError) -> Option<Self> {
        let CallError::Refused(refusal) = error else { return None };
        match refusal.code? {
            ErrorCode::LeaseExpired => Some(Self::Expired),
            ErrorCode::LeaseReleased => Some(Self::Released),
            ErrorCode::LeaseForced => Some(Self::Forced),
            ErrorCode::NotHolder => Some(Self::NotHolder),
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

/// What the guard and its tasks know of one hold.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: Client,
    pub(crate) target: Target,
    pub(crate) owner: String,
    pub(crate) token: Token,
    /// One at least.
    pub(crate) grants: Vec<Fenced>,
    pub(crate) ttl: Duration,
    pub(crate) standing: watch::Sender<Standing>,
}

impl Hold {
    /// How it stands now. A deadline that has passed is noticed here too, whatever the tasks are doing.
    pub(crate) fn standing(&self) -> Standing {
        let standing = *self.standing.borrow();
        match standing {
            Standing::Held { deadline } if self.client.clock().now() >= deadline => {
                self.lose(LossReason::Deadline);
                *self.standing.borrow()
            }
            _ => standing,
        }
    }

    /// Ends the hold, if it has not ended yet.
    pub(crate) fn lose(&self, reason: LossReason) {
        self.end(Standing::Lost(reason));
    }

    /// Notes the release, if the hold has not ended yet.
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

    /// Moves the deadline on, unless the hold has ended or the deadline lies further ahead already.
    pub(crate) fn extend(&self, further: Moment) {
        if matches!(self.standing(), Standing::Held { .. }) {
            self.standing.send_if_modified(|standing| match standing {
                Standing::Held { deadline } if *deadline < further => {
                    *deadline = further;
                    true
                }
                _ => false,
            });
        }
    }
}
