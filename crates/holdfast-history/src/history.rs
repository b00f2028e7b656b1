//! A history as the checks read it: operations, each with its invocation and what came of it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::format::{Complete, Entry, Header, Invoke, Mark, VERSION};
use crate::outcome::{Answer, Outcome};
use crate::request::Request;

/// One call of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// As in the history.
    pub id: u64,
    /// The client.
    pub process: Arc<str>,
    /// The node that was asked.
    pub node: Arc<str>,
    /// What was asked.
    pub request: Request,
    /// Before the request was sent, in nanoseconds.
    #[serde(rename = "invoked_ns")]
    pub invoked: u64,
    /// After the answer was there; `u64::MAX` (null in JSON) if the history ends before.
    #[serde(rename = "completed_ns", serialize_with = "null_for_never")]
    pub completed: u64,
    /// What came of it.
    pub outcome: Outcome,
}

fn null_for_never<S: serde::Serializer>(at: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    (*at != u64::MAX).then_some(at).serialize(serializer)
}

impl Operation {
    /// Until when it can have taken effect: without an answer, at any later time.
    pub fn until(&self) -> u64 {
        match self.outcome {
            Outcome::Unknown { .. } => u64::MAX,
            Outcome::Ok(_) | Outcome::Refused(_) => self.completed,
        }
    }

    /// Whether nobody knows what came of it.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. })
    }

    /// The fence and the TTL in force that the client was told of.
    pub fn granted(&self) -> Option<(u64, u64)> {
        match self.outcome {
            Outcome::Ok(Answer::Granted { fence, ttl_ms, .. }) => Some((fence, ttl_ms)),
            _ => None,
        }
    }
}

/// Whether something was being done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Something was, or may still be felt.
    Faulty,
    /// Nothing was, and a leader served.
    Healthy,
}

/// Everything that clients did and were told.
#[derive(Clone, Debug)]
pub struct History {
    /// Of the first file.
    pub header: Header,
    /// In the order of their invocation.
    pub operations: Vec<Operation>,
    /// From when on the cluster was in which condition, in order of time.
    pub conditions: Vec<(u64, Condition)>,
    /// What else is to be known, in order of time.
    pub notes: Vec<Mark>,
}

/// Why lines make no history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct HistoryError {
    /// The line, from 1.
    pub line: usize,
    /// The field, and what is wrong with it.
    pub why: String,
}

/// Puts entries together.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    open: HashMap<u64, usize>,
    operations: Vec<Operation>,
    conditions: Vec<(u64, Condition)>,
    notes: Vec<Mark>,
}

impl Assembly {
    /// Adds an entry, or says what is wrong with it.
    pub(crate) fn add(&mut self, entry: Entry) -> Result<(), String> {
        match entry {
            Entry::Invoke(invoke) => self.invoke(invoke),
            Entry::Complete(complete) => self.complete(complete),
            Entry::Fault(mark) => {
                self.conditions.push((mark.at_ns, Condition::Faulty));
                self.notes.push(mark);
                Ok(())
            }
            Entry::Healthy(mark) => {
                self.conditions.push((mark.at_ns, Condition::Healthy));
                self.notes.push(Mark { at_ns: mark.at_ns, text: format!("healthy {}", mark.text) });
                Ok(())
            }
            Entry::Note(mark) => {
                self.notes.push(mark);
                Ok(())
            }
        }
    }

    fn invoke(&mut self, invoke: Invoke) -> Result<(), String> {
        let Invoke { id, process, at_ns, node, request } = invoke;
        if self.open.insert(id, self.operations.len()).is_some() {
            return Err(format!("id: an operation {id} was invoked before"));
        }
        let outcome = Outcome::Unknown { why: "the history ends before".into() };
        let completed = u64::MAX;
        self.operations.push(Operation { id, process, node, request, invoked: at_ns, completed, outcome });
        Ok(())
    }

    fn complete(&mut self, complete: Complete) -> Result<(), String> {
        let Complete { id, at_ns, outcome } = complete;
        let at = *self.open.get(&id).ok_or_else(|| format!("id: no operation {id} was invoked before"))?;
        let operation = &mut self.operations[at];
        if operation.completed != u64::MAX {
            return Err(format!("id: operation {id} was completed before"));
        }
        if at_ns < operation.invoked {
            return Err(format!("at_ns: operation {id} is completed before it was invoked"));
        }
        if !fits(&operation.request, &outcome) {
            return Err(format!("outcome: no answer to {}", operation.request.verb()));
        }
        operation.completed = at_ns;
        operation.outcome = outcome;
        Ok(())
    }

    pub(crate) fn finish(mut self, header: Header) -> History {
        self.operations.sort_by_key(|operation| operation.invoked);
        self.conditions.sort_by_key(|(at, _)| *at);
        self.notes.sort_by_key(|note| note.at_ns);
        let Self { operations, conditions, notes, .. } = self;
        History { header, operations, conditions, notes }
    }
}

fn fits(request: &Request, outcome: &Outcome) -> bool {
    match (request, outcome) {
        (_, Outcome::Unknown { .. } | Outcome::Refused(_))
        | (Request::Acquire { .. } | Request::Renew { .. }, Outcome::Ok(Answer::Granted { .. }))
        | (Request::Release { .. }, Outcome::Ok(Answer::Released { .. }))
        | (Request::Read { .. }, Outcome::Ok(Answer::Seen { .. }))
        | (Request::Limit { .. }, Outcome::Ok(Answer::Limited { .. }))
        | (Request::Force { .. }, Outcome::Ok(Answer::Forced { .. })) => true,
        (_, Outcome::Ok(_)) => false,
    }
}

impl History {
    /// Puts the entries of one history together.
    ///
    /// # Errors
    /// Where an entry contradicts the ones before; lines count from 2, as the header is the first.
    pub fn new(header: Header, entries: impl IntoIterator<Item = Entry>) -> Result<Self, HistoryError> {
        let mut assembly = Assembly::default();
        for (line, entry) in (2..).zip(entries) {
            assembly.add(entry).map_err(|why| HistoryError { line, why })?;
        }
        Ok(assembly.finish(header))
    }

    /// The histories of one run as one. Ids may be used by several of them.
    ///
    /// None if there are none.
    pub fn merge(histories: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut histories = histories.into_iter();
        let mut whole = histories.next()?;
        for next in histories {
            if whole.header.clock != next.header.clock {
                whole.header.clock = None;
            }
            whole.header.clock_error_ppm = whole.header.clock_error_ppm.max(next.header.clock_error_ppm);
            whole.operations.extend(next.operations);
            whole.conditions.extend(next.conditions);
            whole.notes.extend(next.notes);
        }
        let Self { header, operations, conditions, notes } = whole;
        let whole = Assembly { open: HashMap::new(), operations, conditions, notes };
        Some(whole.finish(header))
    }

    /// Whether the times of all processes can be compared.
    pub fn has_one_clock(&self) -> bool {
        self.header.clock.is_some()
    }
}

impl Header {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.version {
            1..=VERSION => Ok(()),
            other => Err(format!("holdfast_history: version {other} is not known, 1 to {VERSION} are")),
        }
    }
}
