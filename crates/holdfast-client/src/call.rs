//! A call that is repeated on the next endpoint until it is settled or its time is over.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::backoff::{self, Backoff};
use crate::client::Client;
use crate::clock::Moment;
use crate::endpoint::Endpoint;
use crate::error::{CallError, Unanswered};
use crate::judge::{Failure, judge};
use crate::transport::Outgoing;

/// A success, and what the holder's arithmetic needs to know about it.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// The answer as the service sent it.
    pub json: Bytes,
    /// When the request that was answered so had been sent.
    pub sent: Moment,
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Answer<T> {
    /// The same answer, read as something else.
    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { value: read(self.value), json: self.json, sent: self.sent }
    }
}

/// How patient a call is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// When the call gives up.
    pub(crate) until: Moment,
    /// How long the first request may take; each further one twice as long as the one before.
    pub(crate) first_timeout: Duration,
    /// Longest that a request may take.
    pub(crate) timeout_max: Duration,
    /// Longest pause between two requests.
    pub(crate) pause_max: Duration,
}

impl Pace {
    /// A node answers within 5 s whatever happens to the cluster; one that is frozen does not.
    const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
    const TIMEOUT_MAX: Duration = Duration::from_secs(6);

    /// The pace of calls that hang on nothing but their caller's patience.
    pub(crate) fn usual(until: Moment) -> Self {
        Self {
            until,
            first_timeout: Self::FIRST_TIMEOUT,
            timeout_max: Self::TIMEOUT_MAX,
            pause_max: backoff::LONGEST,
        }
    }

    /// The pace of a renewal: several requests fit into what is left of the lease.
    pub(crate) fn renewal(until: Moment, ttl: Duration) -> Self {
        Self {
            until,
            first_timeout: (ttl / 10).clamp(Duration::from_millis(30), Self::FIRST_TIMEOUT),
            timeout_max: Self::TIMEOUT_MAX,
            pause_max: (ttl / 10).clamp(Duration::from_millis(10), backoff::LONGEST),
        }
    }
}

/// What is known of a call that is not settled yet.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    may_have_happened: bool,
    /// What each endpoint last said, in the order in which they were first asked.
    said: Vec<(String, String)>,
}

impl Trail {
    pub(crate) fn note(&mut self, may_have_happened: bool, endpoint: &Endpoint, why: String) {
        self.may_have_happened |= may_have_happened;
        let endpoint = endpoint.to_string();
        match self.said.iter_mut().find(|(known, _)| *known == endpoint) {
            Some((_, said)) => *said = why,
            None => self.said.push((endpoint, why)),
        }
    }

    pub(crate) fn end(self) -> CallError {
        CallError::Unanswered(Unanswered { may_have_happened: self.may_have_happened, said: self.said })
    }
}

impl Client {
    /// Repeats a request until it is settled. Only for requests that are safe to repeat, which all of ours are.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        outgoing: &Outgoing,
        pace: Pace,
    ) -> Result<Answer<T>, CallError> {
        let mut backoff = Backoff::up_to(pace.pause_max);
        let mut trail = Trail::default();
        let mut timeout = pace.first_timeout;
        let mut strange = 0;
        loop {
            let left = pace.until.since(self.clock().now());
            if left.is_zero() {
                return Err(trail.end());
            }
            let at = self.endpoints().current();
            let failure = match self.exchange(at, outgoing, timeout.min(left)).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match failure {
                Failure::Refused(refusal) => return Err(CallError::Refused(refusal)),
                Failure::Strange(why) if strange + 1 >= self.endpoints().len() => {
                    return Err(CallError::Protocol(format!("{} gave {why}", self.endpoints().get(at))));
                }
                Failure::Strange(why) => {
                    strange += 1;
                    trail.note(true, self.endpoints().get(at), why);
                }
                Failure::Passing { may_have_happened, why } => {
                    trail.note(may_have_happened, self.endpoints().get(at), why);
                }
            }
            self.endpoints().leave(at);
            timeout = (timeout * 2).min(pace.timeout_max);
            let pause = backoff.pause().min(pace.until.since(self.clock().now()));
            tokio::time::sleep(pause).await;
        }
    }

    /// One request to one endpoint.
    pub(crate) async fn exchange<T: DeserializeOwned>(
        &self,
        at: usize,
        outgoing: &Outgoing,
        within: Duration,
    ) -> Result<Answer<T>, Failure> {
        let sent = self.clock().now();
        let url = self.endpoints().get(at).url(&outgoing.path);
        let incoming = self.transport().exchange(url, outgoing, within).await;
        if incoming.is_ok() {
            self.endpoints().note_answer(at, self.clock().now());
        }
        let (value, json) = judge(incoming)?;
        Ok(Answer { value, json, sent })
    }
}
