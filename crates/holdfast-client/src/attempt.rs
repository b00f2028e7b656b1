//! One acquisition attempt, under one token, over as many requests and endpoints as it takes.
//!
//! A request that waits stays in flight until it is answered. A second one under the same token joins it when the
//! node behind the first does not seem well, or before the longest wait of one request is over. The older one is kept
//! open, since its end would give the place in the queue up until the newer one has taken the attempt over; but only
//! the newest one's answer counts: to drop that one would be to give the grant back.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::select_all;
use holdfast_api::{ErrorCode, Token};

use crate::acquire::Acquire;
use crate::backoff::{self, Backoff};
use crate::call::{Answer, Pace, Trail};
use crate::client::Client;
use crate::clock::Moment;
use crate::error::CallError;
use crate::grant::{Granted, check_grant};
use crate::judge::Failure;
use crate::target::Target;

/// The longest wait that one request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// How long before the end of its wait a request gets a successor, if the attempt goes on waiting.
const OVERLAP: Duration = Duration::from_secs(30);
/// How much longer than its wait a request may take: the service answers within 5 s of it.
const ANSWER_GRACE: Duration = Duration::from_secs(6);
/// How often the node that a request waits at is looked at.
const PROBE_EVERY: Duration = Duration::from_secs(2);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How many times more patient an endless wait is once the cluster was seen well.
const PATIENCE_AFTER_CONTACT: u32 = 6;

type Exchange<'a, T> = Pin<Box<dyn Future<Output = Result<Answer<T>, Failure>> + Send + 'a>>;

/// One token's attempt at a lock, or at many.
pub(crate) struct Attempt<'a> {
    pub(crate) client: &'a Client,
    pub(crate) target: &'a Target,
    pub(crate) token: &'a Token,
    pub(crate) acquire: &'a Acquire,
    pub(crate) began: Moment,
    /// The end of the wait; none if it has none.
    pub(crate) until: Option<Moment>,
}

/// A request that is not answered yet.
struct Flight<'a, T> {
    at: usize,
    sent: Moment,
    wait: Duration,
    exchange: Exchange<'a, T>,
}

enum Happening<T> {
    Answered { at: usize, by_newest: bool, result: Result<Answer<T>, Failure> },
    SuccessorDue,
    NodeSeemsWell,
    NodeSeemsUnwell,
}

/// What an attempt has seen so far.
struct Progress {
    backoff: Backoff,
    trail: Trail,
    strange: usize,
    /// Since when nothing has looked well.
    failing_since: Option<Moment>,
    had_contact: bool,
    /// For the next request that does not wait.
    timeout: Duration,
}

impl<'a> Attempt<'a> {
    /// Asks until the attempt is granted, refused, or out of patience.
    pub(crate) async fn settle<T: Granted>(&self) -> Result<Answer<T>, CallError> {
        let pace = Pace::usual(self.began);
        let mut progress = Progress {
            backoff: Backoff::up_to(backoff::LONGEST),
            trail: Trail::default(),
            strange: 0,
            failing_since: None,
            had_contact: false,
            timeout: pace.first_timeout,
        };
        let mut flights = Vec::new();
        loop {
            self.launch(&mut flights, &mut progress, pace.timeout_max);
            if let Some(answer) = self.watch(&mut flights, &mut progress).await? {
                return Ok(answer);
            }
            if self.is_out_of_patience(&progress) {
                return Err(progress.trail.end());
            }
        }
    }

    /// Sends one more request to the endpoint in use. At most one older one stays in flight beside it.
    fn launch<T: Granted>(
        &self,
        flights: &mut Vec<Flight<'a, T>>,
        progress: &mut Progress,
        timeout_max: Duration,
    ) {
        let client = self.client;
        let now = client.clock().now();
        let wait = self.until.map_or(WAIT_MAX, |until| until.since(now).min(WAIT_MAX));
        let left = self.began.after(client.timeout()).since(now);
        let within = match (wait.is_zero(), left.is_zero()) {
            (true, true) => progress.timeout,
            (true, false) => progress.timeout.min(left),
            (false, _) => wait + ANSWER_GRACE,
        };
        progress.timeout = (progress.timeout * 2).min(timeout_max);
        let at = client.endpoints().current();
        let outgoing = self.target.acquire(self.acquire, self.token, wait);
        let token = self.token.clone();
        let exchange: Exchange<'a, T> = Box::pin(async move {
            let answer = client.exchange::<T>(at, &outgoing, within).await?;
            check_grant(&answer.value, &token).map(|()| answer)
        });
        if flights.len() > 1 {
            drop(flights.remove(0));
        }
        flights.push(Flight { at, sent: now, wait, exchange });
    }

    /// Returns the grant, or none when another request is due.
    async fn watch<T: Granted>(
        &self,
        flights: &mut Vec<Flight<'a, T>>,
        progress: &mut Progress,
    ) -> Result<Option<Answer<T>>, CallError> {
        loop {
            match self.next(flights).await {
                Happening::Answered { by_newest: false, .. } => {}
                Happening::Answered { result: Ok(answer), .. } => return Ok(Some(answer)),
                Happening::Answered { at, by_newest: true, result: Err(failure) } => {
                    self.heed(at, failure, progress)?;
                    tokio::time::sleep(progress.backoff.pause()).await;
                    return Ok(None);
                }
                Happening::SuccessorDue => return Ok(None),
                Happening::NodeSeemsWell => {
                    progress.failing_since = None;
                    progress.had_contact = true;
                }
                Happening::NodeSeemsUnwell => {
                    let at = flights.last().expect("the newest request is in flight").at;
                    self.note_failure(progress, true, "it does not serve".into(), at);
                    return Ok(None);
                }
            }
        }
    }

    async fn next<T: Granted>(&self, flights: &mut Vec<Flight<'a, T>>) -> Happening<T> {
        let newest = flights.last().expect("the newest request is in flight");
        let (at, sent, wait) = (newest.at, newest.sent, newest.wait);
        let newest_index = flights.len() - 1;
        let clock = self.client.clock();
        let successor_at = sent.after(wait.saturating_sub(OVERLAP));
        let goes_on = self.until.is_none_or(|until| until > sent.after(wait)) && wait > OVERLAP;
        let (result, index) = tokio::select! {
            biased;
            (result, index, _) = select_all(flights.iter_mut().map(|flight| &mut flight.exchange)) => {
                (result, index)
            }
            () = clock.sleep_until(successor_at), if goes_on => return Happening::SuccessorDue,
            is_well = self.probe(at), if wait > PROBE_EVERY => {
                return if is_well { Happening::NodeSeemsWell } else { Happening::NodeSeemsUnwell };
            }
        };
        let Flight { at, .. } = flights.remove(index);
        Happening::Answered { at, by_newest: index == newest_index, result }
    }

    /// After a while, whether a node still serves. A node that has just answered anything else is not asked.
    async fn probe(&self, at: usize) -> bool {
        tokio::time::sleep(PROBE_EVERY).await;
        let client = self.client;
        if client.endpoints().answered_within(at, PROBE_EVERY, client.clock().now()) {
            return true;
        }
        client.is_ready(at, PROBE_TIMEOUT).await || client.is_ready(at, PROBE_TIMEOUT).await
    }

    fn heed(&self, at: usize, failure: Failure, progress: &mut Progress) -> Result<(), CallError> {
        match failure {
            Failure::Refused(refusal) if refusal.is(ErrorCode::QueueFull) => {
                self.note_failure(progress, false, refusal.to_string(), at);
                if self.is_out_of_patience(progress) { Err(CallError::Refused(refusal)) } else { Ok(()) }
            }
            Failure::Refused(refusal) => Err(CallError::Refused(refusal)),
            Failure::Strange(why) => {
                progress.strange += 1;
                self.note_failure(progress, true, why.clone(), at);
                if progress.strange < self.client.endpoints().len() {
                    Ok(())
                } else {
                    Err(CallError::Protocol(why))
                }
            }
            Failure::Passing { may_have_happened, why } => {
                self.note_failure(progress, may_have_happened, why, at);
                Ok(())
            }
        }
    }

    fn note_failure(&self, progress: &mut Progress, may_have_happened: bool, why: String, at: usize) {
        let endpoints = self.client.endpoints();
        progress.trail.note(may_have_happened, endpoints.get(at), why);
        progress.failing_since.get_or_insert(self.client.clock().now());
        endpoints.leave(at);
    }

    /// A wait with an end is tried until then; an endless one only as long as the cluster may be just changing.
    fn is_out_of_patience(&self, progress: &Progress) -> bool {
        let Some(since) = progress.failing_since else { return false };
        let now = self.client.clock().now();
        let patience = self.client.timeout();
        match self.until {
            Some(until) => now >= until && now >= self.began.after(patience),
            None if progress.had_contact => now.since(since) >= patience * PATIENCE_AFTER_CONTACT,
            None => now.since(since) >= patience,
        }
    }
}
