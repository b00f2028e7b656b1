//! A lead that is held.

use std::ops::Deref;

use holdfast_api::ErrorCode;
use serde_json::Value;

use crate::call::Pace;
use crate::error::CallError;
use crate::guard::{Guard, ReleaseError};
use crate::standing::{LossReason, Standing};

/// Why a hand-over did not take place, or is not known to have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOverError {
    /// No candidate of that name waits. This one goes on leading.
    #[error("no such candidate waits")]
    NoSuchCandidate,
    /// The lead had ended before, or ended meanwhile.
    #[error("the lead was lost: {0}")]
    Lost(LossReason),
    /// As every call. Where it is not known whether it took place, renewals find out; or hand over again.
    #[error("the hand-over was not confirmed: {0}")]
    NotConfirmed(CallError),
}

/// The lead in an election. It renews itself, and knows when it is lost: it is a [`Guard`] that can do more.
///
/// It must be given up with [`Leadership::resign`] or [`Leadership::hand_over`]. Dropped without that, nobody else leads
/// until the lease has run out.
#[derive(Debug)]
#[must_use = "dropping a lead leaves the election without a leader until the lease has run out; resign"]
pub struct Leadership {
    guard: Guard,
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl Leadership {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// The lead as the hold of a lock, for what needs no more than that.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Says something else, to everybody: any JSON of at most 1024 bytes.
    ///
    /// # Errors
    /// As every call. If the service says that this candidate leads no more, the lead is lost.
    pub async fn proclaim(&self, value: &Value) -> Result<(), CallError> {
        let (hold, keep) = (self.guard.hold(), self.guard.kept());
        let answer = keep.client.proclaim(hold.target.first(), &hold.token, value).await;
        if let Some(reason) = answer.as_ref().err().and_then(LossReason::told_by) {
            keep.lose(reason);
        }
        answer.map(|_| ())
    }

    /// Gives the lead up: the first candidate leads. As [`Guard::release`].
    ///
    /// # Errors
    /// [`ReleaseError::Lost`] if the lead had ended before.
    pub async fn resign(&mut self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Gives the lead to the first candidate of this owner, whoever else waits. Nobody can come in between.
    ///
    /// Stop leading before you call it: the other one may lead before this returns. Renewals rest meanwhile, and go on
    /// after an error. If it is cancelled they do not: call it again, or resign.
    ///
    /// # Errors
    /// With [`HandOverError::NoSuchCandidate`] this one goes on leading.
    pub async fn hand_over(&mut self, to: &str) -> Result<(), HandOverError> {
        let deadline = match self.guard.standing() {
            Standing::Held { deadline } => deadline,
            Standing::Lost(reason) => return Err(HandOverError::Lost(reason)),
            Standing::Released => return Err(HandOverError::Lost(LossReason::Released)),
        };
        self.guard.pause().await;
        let (hold, keep) = (self.guard.hold(), self.guard.kept());
        let pace = Pace::usual(keep.client.after(keep.client.timeout()).min(deadline));
        let Err(error) = keep.client.hand_over_at_pace(hold.target.first(), &hold.token, to, pace).await
        else {
            self.guard.conclude().await;
            return Ok(());
        };
        if let Some(reason) = LossReason::told_by(&error) {
            keep.lose(reason);
            return Err(HandOverError::Lost(reason));
        }
        self.guard.resume();
        Err(match error.is_refused_with(ErrorCode::NoSuchCandidate) {
            true => HandOverError::NoSuchCandidate,
            false => HandOverError::NotConfirmed(error),
        })
    }
}
