//! Watching: a stream of events that goes on at another node where one has stopped.

use std::time::Duration;

use bytes::Bytes;
use holdfast_api::{EventReset, LockEvent};
use serde::de::DeserializeOwned;

use crate::backoff::{self, Backoff};
use crate::call::Trail;
use crate::client::{Client, query};
use crate::clock::Moment;
use crate::error::CallError;
use crate::judge::{Failure, judge};
use crate::sse::{Message, Messages};
use crate::transport::{Outgoing, Streaming};

/// The service says something at least every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// A node answers a request for a stream within this time, or does not.
const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// What somebody who watches is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// Something happened.
    Event {
        /// What: `queued`, `left`, `acquired`, `released`, `expired`, `forced`, `handed_over`, `changed`, or what a newer
        /// service calls it.
        kind: String,
        /// To which lock, to whom, and why.
        event: Box<LockEvent>,
        /// The same as the service sent it.
        json: Bytes,
    },
    /// What happened in between cannot be told any more: read again what was learned from events. It goes on from here.
    Reset(EventReset),
}

/// Follows the events of locks whose names begin with some text. See [`Client::watch`].
#[derive(Debug)]
pub struct Watch {
    client: Client,
    prefix: String,
    /// Up to here everything has been told; none before the first connection, if it is to begin with now.
    seq: Option<u64>,
    connection: Option<(Streaming, Messages)>,
}

impl Client {
    /// Follows what happens to the locks whose names begin with `prefix`, after the event number `since`, or from now on.
    ///
    /// Nothing is left out, whatever happens to the nodes: where that cannot be, [`Watched::Reset`] says so. List first,
    /// then watch from the `seq` of the list.
    pub fn watch(&self, prefix: impl Into<String>, since: Option<u64>) -> Watch {
        Watch { client: self.clone(), prefix: prefix.into(), seq: since, connection: None }
    }
}

impl Watch {
    /// Up to which number everything has been told; none before it is known where the stream begins.
    pub fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// What happens next, however long that takes.
    ///
    /// Cancelling it loses nothing.
    ///
    /// # Errors
    /// If no endpoint can be followed for as long as the client's timeout. The next call tries again.
    pub async fn next(&mut self) -> Result<Watched, CallError> {
        let mut backoff = Backoff::up_to(backoff::LONGEST);
        let mut trail = Trail::default();
        let mut until: Option<Moment> = None;
        loop {
            let at = self.client.endpoints().current();
            let why = match self.told(at).await {
                Ok(Some(watched)) => return Ok(watched),
                // It has been connected: the patience begins anew.
                Ok(None) => {
                    (until, trail) = (None, Trail::default());
                    "the stream has ended".to_owned()
                }
                Err(Failure::Refused(refusal)) => return Err(CallError::Refused(refusal)),
                Err(Failure::Strange(why) | Failure::Passing { why, .. }) => why,
            };
            self.connection = None;
            let now = self.client.clock().now();
            let until = *until.get_or_insert(self.client.usual_pace().until);
            trail.note(false, self.client.endpoints().get(at), why);
            if until.since(now).is_zero() {
                return Err(trail.end());
            }
            self.client.endpoints().leave(at);
            tokio::time::sleep(backoff.pause().min(until.since(now))).await;
        }
    }

    /// The next thing that is told on the present connection, or a new one; none once that has ended.
    async fn told(&mut self, at: usize) -> Result<Option<Watched>, Failure> {
        let (streaming, messages) = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let since = self.seq.map(|seq| seq.to_string());
                let query = query([("prefix", Some(self.prefix.clone())), ("since", since)]);
                let outgoing = Outgoing::get(format!("/v1/events{query}"));
                let url = self.client.endpoints().get(at).url(&outgoing.path);
                let opened = self.client.transport().open(url, &outgoing, OPEN_TIMEOUT).await;
                let streaming = match opened {
                    Ok(Ok(streaming)) => streaming,
                    Ok(Err(incoming)) => return Err(refused(judge::<EventReset>(Ok(incoming)))),
                    Err(none) => return Err(refused(judge::<EventReset>(Err(none)))),
                };
                self.client.endpoints().note_answer(at, self.client.clock().now());
                self.connection.insert((streaming, Messages::default()))
            }
        };
        loop {
            while let Some(message) = messages.next() {
                if let Some(seq) = message.id {
                    self.seq = Some(seq);
                }
                if let Some(watched) = read(message)? {
                    return Ok(Some(watched));
                }
            }
            match streaming.piece(SILENCE_MAX).await {
                Some(piece) => messages.push(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// An answer that is no stream.
fn refused<T>(judged: Result<T, Failure>) -> Failure {
    judged.err().unwrap_or_else(|| Failure::Strange("something else than a stream of events".into()))
}

/// None where a message only says how far the stream is.
fn read(message: Message) -> Result<Option<Watched>, Failure> {
    let Message { kind, data, .. } = message;
    Ok(match kind.as_deref() {
        None => None,
        Some("reset") => Some(Watched::Reset(parsed(&data)?)),
        Some(_) => {
            let event = Box::new(parsed(&data)?);
            Some(Watched::Event { kind: kind.unwrap_or_default(), event, json: data.into() })
        }
    })
}

fn parsed<T: DeserializeOwned>(data: &str) -> Result<T, Failure> {
    serde_json::from_str(data)
        .map_err(|error| Failure::Strange(format!("an event of another kind ({error})")))
}
