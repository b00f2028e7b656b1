//! Looking attempts up, checking fences, an operator's hand, and the past: one method for each call of the API.

use std::time::Duration;

use holdfast_api::{
    AttemptRequest, AttemptStatus, CheckRequest, FenceCheck, ForceLeaveRequest, ForceLeft,
    ForceReleaseRequest, ForceReleased, Lock, PastHolds, Token, Why,
};

use crate::acquire::{checked_name, whole_ms};
use crate::call::{Answer, Pace};
use crate::client::{Client, Consistency, query};
use crate::error::CallError;
use crate::path::lock_path;
use crate::transport::Outgoing;

/// How much longer than its wait a call may take.
const BEYOND_WAIT: Duration = Duration::from_secs(6);

impl Client {
    /// What became of an attempt: for whoever has lost an answer. It changes nothing.
    ///
    /// A request that is still on its way may be carried out after an answer of `unknown`. To be sure of the lock, repeat
    /// the acquire with the same token.
    ///
    /// # Errors
    /// As every call.
    pub async fn look_up(&self, name: &str, token: &Token) -> Result<Answer<AttemptStatus>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("attempt"));
        let request = AttemptRequest { token: token.expose().into() };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// Whether a fence is that of a hold in force, and the highest one of the lock that is known.
    ///
    /// # Errors
    /// As every call.
    pub async fn check_fence(&self, name: &str, fence: u64) -> Result<Answer<FenceCheck>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("check"));
        self.call(&Outgoing::post(path, &CheckRequest { fence }), self.usual_pace()).await
    }

    /// Ends a hold, whoever has it, if it is this fence that holds the lock. For operators. Safe to repeat.
    ///
    /// `by` and `reason` are shown to those who watch or read the history.
    ///
    /// # Errors
    /// `not_holder` means that no hold in force has this fence.
    pub async fn force_release(
        &self,
        name: &str,
        fence: u64,
        by: Option<&str>,
        reason: &str,
    ) -> Result<Answer<ForceReleased>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("force-release"));
        let request = ForceReleaseRequest { fence, reason: reason.into(), by: by.map(Into::into) };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// Takes all attempts of an owner out of a queue. For operators. Safe to repeat.
    ///
    /// # Errors
    /// `not_holder` means that nobody of that label waits.
    pub async fn force_leave(
        &self,
        name: &str,
        owner: &str,
        by: Option<&str>,
        reason: &str,
    ) -> Result<Answer<ForceLeft>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("force-leave"));
        let (owner, reason) = (owner.into(), reason.into());
        let request = ForceLeaveRequest { owner, reason, by: by.map(Into::into) };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// The holds of the past of a lock, the newest first: those whose fence is below `before`, if that is given.
    ///
    /// # Errors
    /// As every call.
    pub async fn history(
        &self,
        name: &str,
        limit: Option<usize>,
        before: Option<u64>,
    ) -> Result<Answer<PastHolds>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("history"));
        let text = |number: u64| number.to_string();
        let query = query([("limit", limit.map(|limit| limit.to_string())), ("before", before.map(text))]);
        self.call(&Outgoing::get(path + &query), self.usual_pace()).await
    }

    /// What keeps a lock from whoever asks for it now.
    ///
    /// # Errors
    /// As every call.
    pub async fn why(&self, name: &str) -> Result<Answer<Why>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), Some("why"));
        self.call(&Outgoing::get(path), self.usual_pace()).await
    }

    /// Looks at a lock once something has happened to it after `since` (a `seq` of another answer; none: after now), or
    /// once `wait` is over.
    ///
    /// # Errors
    /// As every call.
    pub async fn get_after(
        &self,
        name: &str,
        since: Option<u64>,
        wait: Duration,
    ) -> Result<Answer<Lock>, CallError> {
        let path = lock_path(checked_name(name)?.as_str(), None);
        let query = query([
            ("since", since.map(|seq| seq.to_string())),
            ("wait_ms", Some(whole_ms(wait).to_string())),
            ("consistency", Consistency::Linearizable.as_query()),
        ]);
        let usual = self.usual_pace();
        let pace = Pace {
            until: usual.until.after(wait),
            first_timeout: wait + BEYOND_WAIT,
            timeout_max: wait + BEYOND_WAIT,
            ..usual
        };
        self.call(&Outgoing::get(path + &query), pace).await
    }
}
