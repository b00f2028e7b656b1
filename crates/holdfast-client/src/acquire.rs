//! What an acquire asks for, and how often it starts over.

use std::sync::Mutex;
use std::time::Duration;

use holdfast_api::{AcquireRequest, ErrorCode, Grant, GrantMany, Mode, Token};
use serde_json::{Map, Value};

use crate::attempt::Attempt;
use crate::backoff::{self, Backoff};
use crate::call::Answer;
use crate::client::Client;
use crate::clock::Moment;
use crate::error::{CallError, Refusal};
use crate::grant::Granted;
use crate::session_calls::SessionRef;
use crate::target::Target;
use crate::terms::Terms;

/// How long to wait for a lock that is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Try once.
    #[default]
    No,
    /// Up to this long. It may be longer than the service's limit for one request (10 minutes).
    AtMost(Duration),
    /// Until it is granted.
    Forever,
}

impl Wait {
    /// When the wait is over; none if never.
    pub(crate) fn until(self, now: Moment) -> Option<Moment> {
        match self {
            Self::No => Some(now),
            Self::AtMost(span) => Some(now.after(span)),
            Self::Forever => None,
        }
    }
}

/// What an acquire asks for. Everything may be left at its default.
#[derive(Clone, Debug, Default)]
pub struct Acquire {
    /// Public label. The service's default is `anonymous`.
    pub owner: Option<String>,
    /// The secret of this attempt. Left out: the client makes one, and a new one where it has to start over.
    pub token: Option<Token>,
    /// 100 ms to 24 h. The service's default is 30 s.
    pub ttl: Option<Duration>,
    /// If the lock is busy.
    pub wait: Wait,
    /// What the holder says about itself, at most 1024 bytes of JSON.
    pub metadata: Map<String, Value>,
    /// How much of the lock.
    pub share: Share,
    /// The session that is to keep the hold, instead of a TTL of its own.
    pub session: Option<SessionRef>,
    /// What else to agree on. Not of many locks at once.
    pub terms: Terms,
}

/// How much of a lock to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All of it: nobody else holds it.
    #[default]
    Exclusive,
    /// Beside others that share it.
    Shared,
    /// Some of its permits.
    Permits {
        /// How many there are, 1 to 1,000,000; everybody has to name the same.
        limit: u32,
        /// How many to take, 1 to `limit`.
        permits: u32,
    },
}

impl Acquire {
    pub(crate) fn request(&self, token: &Token, wait: Duration) -> AcquireRequest {
        AcquireRequest {
            owner: self.owner.clone(),
            token: Some(token.expose().into()),
            ttl_ms: self.ttl.map(whole_ms),
            wait_ms: Some(whole_ms(wait)),
            metadata: (!self.metadata.is_empty()).then(|| self.metadata.clone()),
            mode: (self.share == Share::Shared).then_some(Mode::Shared),
            limit: self.share.permits().map(|(limit, _)| limit.into()),
            permits: self.share.permits().map(|(_, permits)| permits.into()),
            session: self.session.as_ref().map(|session| session.id.clone()),
            session_token: self.session.as_ref().map(|session| session.token.expose().into()),
            delay_ms: self.terms.delay.map(whole_ms),
            min_hold_ms: self.terms.min_hold.map(whole_ms),
            max_hold_ms: self.terms.max_hold.map(whole_ms),
            once: self.terms.once(),
        }
    }
}

impl Share {
    pub(crate) fn permits(self) -> Option<(u32, u32)> {
        match self {
            Self::Permits { limit, permits } => Some((limit, permits)),
            Self::Exclusive | Self::Shared => None,
        }
    }
}

/// Rounded up: no span that was asked for becomes shorter, and none becomes zero.
pub(crate) fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A new secret of 128 random bits.
pub fn fresh_token() -> Token {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has a source of randomness");
    Token::from_random(bytes)
}

impl Client {
    /// Acquires a lock, or repeats the acquire of a given token.
    ///
    /// # Errors
    /// `held` and `wait_timeout` are refusals like any other. An unanswered call may have taken the lock:
    /// repeat it with the same token, or release that.
    pub async fn acquire(&self, name: &str, acquire: &Acquire) -> Result<Answer<Grant>, CallError> {
        let target = Target::One(checked_name(name)?);
        self.acquire_noting_token(&target, acquire, &Mutex::new(None)).await
    }

    /// Acquires all of these locks or none, each with how much of it; `share` of the rest counts for nothing here.
    ///
    /// # Errors
    /// As [`Client::acquire`]; a refusal names the lock that it is about. Many locks have no metadata.
    pub async fn acquire_many(
        &self,
        locks: &[(&str, Share)],
        acquire: &Acquire,
    ) -> Result<Answer<GrantMany>, CallError> {
        let target = Target::many(locks.iter().copied())?;
        self.acquire_noting_token(&target, acquire, &Mutex::new(None)).await
    }

    /// Acquires a lock, and notes the token in use before anything is sent under it.
    ///
    /// A token whose hold is over although this client never saw its grant is of no use any more: the grant's
    /// answer was lost on the way. Where the token is the client's own it then starts over with a new one.
    pub(crate) async fn acquire_noting_token<T: Granted>(
        &self,
        target: &Target,
        acquire: &Acquire,
        in_use: &Mutex<Option<Token>>,
    ) -> Result<Answer<T>, CallError> {
        if matches!(target, Target::Many(_)) && !acquire.metadata.is_empty() {
            let detail = "many locks at once have no metadata";
            return Err(CallError::Refused(Refusal::invalid_argument(detail)));
        }
        if matches!(target, Target::Many(_)) && acquire.session.is_some() {
            let detail = "a session keeps locks that are acquired one by one, not many at once";
            return Err(CallError::Refused(Refusal::invalid_argument(detail)));
        }
        if matches!(target, Target::Many(_)) && acquire.terms != Terms::default() {
            let detail =
                "a delay, a least or longest hold and a period are of a single lock, not of many at once";
            return Err(CallError::Refused(Refusal::invalid_argument(detail)));
        }
        let began = self.clock().now();
        let until = acquire.wait.until(began);
        let mut backoff = Backoff::up_to(backoff::LONGEST);
        loop {
            let token = acquire.token.clone().unwrap_or_else(fresh_token);
            *in_use.lock().expect("nothing panics while it holds this") = Some(token.clone());
            let attempt = Attempt { client: self, target, token: &token, acquire, began, until };
            let error = match attempt.settle().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_ours = acquire.token.is_none();
            if !is_ours || !self.is_worth_another_token(&error, began, until) {
                return Err(error);
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    fn is_worth_another_token(&self, error: &CallError, began: Moment, until: Option<Moment>) -> bool {
        let CallError::Refused(refusal) = error else { return false };
        let now = self.clock().now();
        let is_waiting = until.is_none_or(|until| now < until);
        match refusal.code {
            Some(ErrorCode::LeaseReleased | ErrorCode::LeaseExpired) => {
                is_waiting || now < began.after(self.timeout())
            }
            // The place in the queue was lost before the wait was over.
            Some(ErrorCode::WaitTimeout) => is_waiting,
            _ => false,
        }
    }
}

/// A name within the limits; everything else would be refused by the service, or reach another path.
pub(crate) fn checked_name(name: &str) -> Result<holdfast_core::LockName, CallError> {
    holdfast_core::LockName::new(name)
        .map_err(|error| CallError::Refused(Refusal::invalid_argument(format!("the lock's name {error}"))))
}
