//! What an attempt is about: one lock, or many under one token.

use std::time::Duration;

use holdfast_api::{
    AcquireManyRequest, AcquireRequest, CampaignRequest, GrantMany, LockItem, Mode, ReleaseManyRequest,
    ReleaseRequest, Released, ReleasedMany, RenewManyRequest, RenewRequest, Token,
};
use holdfast_core::{LockName, MANY_MAX, Run};
use serde_json::Value;

use crate::acquire::{Acquire, Share, checked_name, whole_ms};
use crate::call::{Answer, Pace};
use crate::client::Client;
use crate::clock::Moment;
use crate::error::{CallError, Refusal};
use crate::grant::{Granted, check_grant};
use crate::path::{election_path, lock_path};
use crate::transport::Outgoing;

/// One lock, or 1 to 64 that are held all or none.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    One(LockName),
    /// The election of that name, with the candidate's value.
    Election(LockName, Value),
    Many(Vec<(LockName, Share)>),
}

impl Target {
    /// Checks the names; that they are different, the service does.
    pub(crate) fn many<'a>(locks: impl Iterator<Item = (&'a str, Share)>) -> Result<Self, CallError> {
        let checked = locks.map(|(name, share)| Ok((checked_name(name)?, share)));
        let locks: Vec<_> = checked.collect::<Result<_, CallError>>()?;
        if !(1..=MANY_MAX).contains(&locks.len()) {
            let detail = format!("1 to {MANY_MAX} locks can be acquired at once, not {}", locks.len());
            return Err(CallError::Refused(Refusal::invalid_argument(detail)));
        }
        Ok(Self::Many(locks))
    }

    /// The lock, or the first of them.
    pub(crate) fn first(&self) -> &str {
        match self {
            Self::One(name) | Self::Election(name, _) => name.as_str(),
            Self::Many(locks) => locks[0].0.as_str(),
        }
    }

    pub(crate) fn acquire(&self, acquire: &Acquire, token: &Token, wait: Duration) -> Outgoing {
        match self {
            Self::One(name) => {
                Outgoing::post(lock_path(name.as_str(), Some("acquire")), &acquire.request(token, wait))
            }
            Self::Election(name, value) => {
                let AcquireRequest { owner, token, ttl_ms, wait_ms, session, session_token, .. } =
                    acquire.request(token, wait);
                let value = value.clone();
                let request =
                    CampaignRequest { owner, token, ttl_ms, wait_ms, session, session_token, value };
                Outgoing::post(election_path(name.as_str(), Some("campaign")), &request)
            }
            Self::Many(locks) => {
                let request = AcquireManyRequest {
                    locks: locks.iter().map(|(name, share)| item(name, *share)).collect(),
                    owner: acquire.owner.clone(),
                    token: Some(token.expose().into()),
                    ttl_ms: acquire.ttl.map(whole_ms),
                    wait_ms: Some(whole_ms(wait)),
                };
                Outgoing::post("/v1/acquire".into(), &request)
            }
        }
    }

    /// All of them, or it is refused.
    pub(crate) fn renew(&self, token: &Token, ttl: Option<Duration>) -> Outgoing {
        let (token, ttl_ms) = (token.expose().into(), ttl.map(whole_ms));
        match self {
            Self::One(name) | Self::Election(name, _) => {
                let path = lock_path(name.as_str(), Some("renew"));
                Outgoing::post(path, &RenewRequest { token, ttl_ms })
            }
            Self::Many(locks) => {
                let request = RenewManyRequest { token, names: Some(names(locks)), ttl_ms };
                Outgoing::post("/v1/renew".into(), &request)
            }
        }
    }

    /// All of them, or it is refused. Only a run of one lock can be done.
    pub(crate) fn release(&self, token: &Token, run: Run) -> Outgoing {
        match self {
            Self::One(name) | Self::Election(name, _) => {
                let path = lock_path(name.as_str(), Some("release"));
                let done = run == Run::Done;
                Outgoing::post(path, &ReleaseRequest { token: token.expose().into(), done })
            }
            Self::Many(locks) => {
                let request = ReleaseManyRequest { token: token.expose().into(), names: Some(names(locks)) };
                Outgoing::post("/v1/release".into(), &request)
            }
        }
    }

    /// Whatever there still is of them.
    pub(crate) fn give_back(&self, token: &Token) -> Outgoing {
        match self {
            Self::One(_) | Self::Election(..) => self.release(token, Run::Open),
            Self::Many(_) => {
                let request = ReleaseManyRequest { token: token.expose().into(), names: None };
                Outgoing::post("/v1/release".into(), &request)
            }
        }
    }
}

fn item(name: &LockName, share: Share) -> LockItem {
    LockItem {
        name: name.as_str().into(),
        mode: (share == Share::Shared).then_some(Mode::Shared),
        limit: share.permits().map(|(limit, _)| limit.into()),
        permits: share.permits().map(|(_, permits)| permits.into()),
    }
}

fn names(locks: &[(LockName, Share)]) -> Vec<String> {
    locks.iter().map(|(name, _)| name.as_str().into()).collect()
}

/// A renewal that was confirmed.
pub(crate) struct Renewed {
    /// When the request had been sent.
    pub(crate) sent: Moment,
    /// In force.
    pub(crate) ttl_ms: u64,
    /// What is left of the longest hold; none if it has no end.
    pub(crate) max_left_ms: Option<u64>,
}

impl Client {
    /// Renews with the TTL in force.
    pub(crate) async fn renew_target(
        &self,
        target: &Target,
        token: &Token,
        pace: Pace,
    ) -> Result<Renewed, CallError> {
        let outgoing = target.renew(token, None);
        match target {
            Target::One(_) | Target::Election(..) => {
                self.renew_at_pace::<holdfast_api::Grant>(&outgoing, token, pace).await.map(renewed)
            }
            Target::Many(_) => self.renew_at_pace::<GrantMany>(&outgoing, token, pace).await.map(renewed),
        }
    }

    pub(crate) async fn renew_at_pace<T: Granted>(
        &self,
        outgoing: &Outgoing,
        token: &Token,
        pace: Pace,
    ) -> Result<Answer<T>, CallError> {
        let answer = self.call::<T>(outgoing, pace).await?;
        match check_grant(&answer.value, token) {
            Ok(()) => Ok(answer),
            Err(_) => Err(CallError::Protocol("the answer is not a grant of this token".into())),
        }
    }

    pub(crate) async fn release_target(
        &self,
        target: &Target,
        token: &Token,
        run: Run,
        pace: Pace,
    ) -> Result<(), CallError> {
        self.release_with(target, &target.release(token, run), pace).await
    }

    /// Frees whatever there still is, or takes the attempt out of the queue.
    pub(crate) async fn give_back(
        &self,
        target: &Target,
        token: &Token,
        pace: Pace,
    ) -> Result<(), CallError> {
        self.release_with(target, &target.give_back(token), pace).await
    }

    async fn release_with(&self, target: &Target, outgoing: &Outgoing, pace: Pace) -> Result<(), CallError> {
        match target {
            Target::One(_) | Target::Election(..) => self.call::<Released>(outgoing, pace).await.map(|_| ()),
            Target::Many(_) => self.call::<ReleasedMany>(outgoing, pace).await.map(|_| ()),
        }
    }
}

fn renewed<T: Granted>(answer: Answer<T>) -> Renewed {
    let (ttl_ms, max_left_ms) = (answer.value.ttl_ms(), answer.value.max_left_ms());
    Renewed { sent: answer.sent, ttl_ms, max_left_ms }
}
