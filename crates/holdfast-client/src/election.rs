//! Elections: who leads, who wants to, and what the leader says. An election is the lock of that name.

use std::time::Duration;

use holdfast_api::{
    Election as Look, HandOverRequest, HandedOver, Leader, Leadership as Lead, ProclaimRequest, Released,
    ResignRequest, Token,
};
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior};

use crate::acquire::checked_name;
use crate::call::{Answer, Pace};
use crate::client::{Client, Consistency, query};
use crate::error::CallError;
use crate::leadership::Leadership;
use crate::path::election_path;
use crate::request::{AcquireError, LockRequest};
use crate::session::Session;
use crate::transport::Outgoing;

/// How often an [`Observer`] asks who leads.
pub const OBSERVE_EVERY: Duration = Duration::from_millis(500);

/// An election, as one of its candidates or observers sees it. It can be campaigned in any number of times.
#[derive(Clone, Debug)]
pub struct Election {
    name: String,
    request: LockRequest,
}

impl Election {
    /// How long the lead lasts without renewal, 100 ms to 24 h. Default 30 s.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { request: self.request.ttl(ttl), ..self }
    }

    /// How long to wait while another one leads; zero: try once. Default: until the lead is granted.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { request: self.request.wait(wait), ..self }
    }

    /// A public label, 1 to 256 bytes. Default `anonymous`.
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { request: self.request.owner(owner), ..self }
    }

    /// Lets a session keep the lead: see [`LockRequest::session`].
    #[must_use]
    pub fn session(self, session: &Session) -> Self {
        Self { request: self.request.session(session), ..self }
    }

    /// Waits for the lead, and leads. `value` is shown to everybody: any JSON of at most 1024 bytes, null for none.
    ///
    /// Cancelling it gives the place in the queue up, as [`LockRequest::acquire`] does.
    ///
    /// # Errors
    /// Every error means that this candidate does not lead.
    pub async fn campaign(&self, value: Value) -> Result<Leadership, AcquireError> {
        self.campaign_until(value, std::future::pending()).await
    }

    /// The same, unless `stop` comes first: then the result is [`AcquireError::Stopped`].
    ///
    /// # Errors
    /// As [`Election::campaign`].
    pub async fn campaign_until(
        &self,
        value: Value,
        stop: impl Future<Output = ()>,
    ) -> Result<Leadership, AcquireError> {
        let request = self.request.clone().leading(self.name.clone(), value);
        request.acquire_until(stop).await.map(Leadership::new)
    }

    /// Who leads now, for the whole cluster; none if nobody does.
    ///
    /// # Errors
    /// As every call.
    pub async fn leader(&self) -> Result<Option<Leader>, CallError> {
        let client = self.request.client();
        let look = client.get_election(&self.name, Consistency::Linearizable).await?;
        Ok(look.value.leader)
    }

    /// Follows the leader. Needs a runtime to be running.
    pub fn observe(&self) -> Observer {
        let mut looks = tokio::time::interval(OBSERVE_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Observer { election: self.clone(), looks, seen: None }
    }
}

/// Follows the leader of an election: it asks every [`OBSERVE_EVERY`].
///
/// It tells how things are, not all that was: of a leader or a value that came and went between two looks it knows
/// nothing.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    looks: Interval,
    /// What was told last; none before the first time.
    seen: Option<Option<(u64, Value)>>,
}

impl Observer {
    /// Who leads; after the first time, once that is somebody else, or nobody, or the leader says something else.
    ///
    /// Cancelling it loses nothing.
    ///
    /// # Errors
    /// As every call. The next call looks again.
    pub async fn next(&mut self) -> Result<Option<Leader>, CallError> {
        loop {
            self.looks.tick().await;
            let leader = self.election.leader().await?;
            let now = leader.as_ref().map(|leader| (leader.fence, leader.value.clone()));
            if self.seen.as_ref() != Some(&now) {
                self.seen = Some(now);
                return Ok(leader);
            }
        }
    }
}

impl Client {
    /// An election: to campaign in it, or to see who leads.
    pub fn election(&self, name: impl Into<String>) -> Election {
        let name = name.into();
        Election { request: self.lock(name.clone()).wait_forever(), name }
    }

    /// Looks at an election. A name that was never used has no leader.
    ///
    /// # Errors
    /// As every call.
    pub async fn get_election(
        &self,
        name: &str,
        consistency: Consistency,
    ) -> Result<Answer<Look>, CallError> {
        let path = election_path(checked_name(name)?.as_str(), None);
        let query = query([("consistency", consistency.as_query())]);
        self.call(&Outgoing::get(path + &query), self.usual_pace()).await
    }

    /// Changes the value of the leader that has this token. Its lease stays as it is. Safe to repeat.
    ///
    /// # Errors
    /// `lease_expired`, `lease_released`, `lease_forced` and `not_holder` mean that this token does not lead.
    pub async fn proclaim(
        &self,
        name: &str,
        token: &Token,
        value: &Value,
    ) -> Result<Answer<Lead>, CallError> {
        let path = election_path(checked_name(name)?.as_str(), Some("proclaim"));
        let request = ProclaimRequest { token: token.expose().into(), value: value.clone() };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// Ends the lead of this token, or takes its campaign out of the queue. Safe to repeat.
    ///
    /// # Errors
    /// `lease_expired`, `lease_forced` and `not_holder` mean that there was nothing left to end.
    pub async fn resign(&self, name: &str, token: &Token) -> Result<Answer<Released>, CallError> {
        let path = election_path(checked_name(name)?.as_str(), Some("resign"));
        let request = ResignRequest { token: token.expose().into() };
        self.call(&Outgoing::post(path, &request), self.usual_pace()).await
    }

    /// Ends the lead of this token and gives it to the first candidate of this owner, in one step. Safe to repeat.
    ///
    /// # Errors
    /// `no_such_candidate` means that this token goes on leading.
    pub async fn hand_over(
        &self,
        name: &str,
        token: &Token,
        to: &str,
    ) -> Result<Answer<HandedOver>, CallError> {
        self.hand_over_at_pace(name, token, to, self.usual_pace()).await
    }

    pub(crate) async fn hand_over_at_pace(
        &self,
        name: &str,
        token: &Token,
        to: &str,
        pace: Pace,
    ) -> Result<Answer<HandedOver>, CallError> {
        let path = election_path(checked_name(name)?.as_str(), Some("hand-over"));
        let request = HandOverRequest { token: token.expose().into(), to: to.into() };
        self.call(&Outgoing::post(path, &request), pace).await
    }
}
