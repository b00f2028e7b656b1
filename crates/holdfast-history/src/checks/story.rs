//! Hand-made histories for the tests. Times are in milliseconds.

use std::ops::Range;
use std::sync::Arc;

use crate::checks::check;
use crate::format::{Complete, Entry, Header, Invoke, Mark};
use crate::history::History;
use crate::outcome::{Answer, Holder, Outcome, Refusal};
use crate::request::Request;
use crate::share::{Mode, Share};
use crate::verdict::{Check, Verdict};

/// What a reader holds.
pub(crate) const SHARED: Share = Share::Shared;

/// A history that is being told, at the lock `db` and node `n1` unless it says otherwise.
pub(crate) struct Story {
    header: Header,
    entries: Vec<Entry>,
    next_id: u64,
}

impl Default for Story {
    fn default() -> Self {
        Self { header: Header::of_one_clock("test"), entries: Vec::new(), next_id: 1 }
    }
}

/// What the next call differs in.
pub(crate) struct Teller<'s> {
    story: &'s mut Story,
    lock: Arc<str>,
    node: Arc<str>,
}

/// A call that was made and has to be answered.
pub(crate) struct Asked<'s> {
    story: &'s mut Story,
    completed_ms: u64,
    attempt: Arc<str>,
}

impl Story {
    pub(crate) fn with_clock_error_ppm(mut self, ppm: u32) -> Self {
        self.header.clock_error_ppm = ppm;
        self
    }

    pub(crate) fn without_one_clock(mut self) -> Self {
        self.header.clock = None;
        self
    }

    pub(crate) fn fault(&mut self, at_ms: u64) {
        self.entries.push(Entry::Fault(mark(at_ms)));
    }

    pub(crate) fn healthy(&mut self, at_ms: u64) {
        self.entries.push(Entry::Healthy(mark(at_ms)));
    }

    pub(crate) fn at(&mut self, lock: &str) -> Teller<'_> {
        Teller { story: self, lock: lock.into(), node: "n1".into() }
    }

    pub(crate) fn through(&mut self, node: &str) -> Teller<'_> {
        Teller { story: self, lock: "db".into(), node: node.into() }
    }

    pub(crate) fn acquires(&mut self, attempt: &str, during: Range<u64>, ttl_ms: u64) -> Asked<'_> {
        self.at("db").acquires(attempt, during, ttl_ms)
    }

    pub(crate) fn waits(
        &mut self,
        attempt: &str,
        during: Range<u64>,
        ttl_ms: u64,
        wait_ms: u64,
    ) -> Asked<'_> {
        self.at("db").waits(attempt, during, ttl_ms, wait_ms)
    }

    pub(crate) fn reader(&mut self, attempt: &str, during: Range<u64>, ttl_ms: u64) -> Asked<'_> {
        self.at("db").takes((Mode::Shared, None), attempt, during, ttl_ms, 0)
    }

    /// `taken` of `limit` permits.
    pub(crate) fn takes(
        &mut self,
        (taken, limit): (u32, u32),
        attempt: &str,
        during: Range<u64>,
        ttl_ms: u64,
    ) -> Asked<'_> {
        self.at("db").takes_waiting((taken, limit), attempt, during, ttl_ms, 0)
    }

    pub(crate) fn limits(&mut self, during: Range<u64>, limit: u32) -> Asked<'_> {
        self.at("db").asks("operator", during, Request::Limit { lock: "db".into(), limit })
    }

    pub(crate) fn renews(&mut self, attempt: &str, during: Range<u64>) -> Asked<'_> {
        let request = Request::Renew { lock: "db".into(), attempt: attempt.into(), ttl_ms: None };
        self.at("db").asks(attempt, during, request)
    }

    pub(crate) fn renews_for(&mut self, attempt: &str, during: Range<u64>, ttl_ms: u64) -> Asked<'_> {
        let request = Request::Renew { lock: "db".into(), attempt: attempt.into(), ttl_ms: Some(ttl_ms) };
        self.at("db").asks(attempt, during, request)
    }

    pub(crate) fn releases(&mut self, attempt: &str, during: Range<u64>) -> Asked<'_> {
        let request = Request::Release { lock: "db".into(), attempt: attempt.into() };
        self.at("db").asks(attempt, during, request)
    }

    pub(crate) fn forces(&mut self, during: Range<u64>, fence: u64) -> Asked<'_> {
        self.at("db").asks("operator", during, Request::Force { lock: "db".into(), fence })
    }

    pub(crate) fn reads(&mut self, during: Range<u64>) -> Asked<'_> {
        self.at("db").reads(during)
    }

    pub(crate) fn history(&self) -> History {
        History::new(self.header.clone(), self.entries.iter().cloned()).unwrap()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        check(&self.history())
    }

    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        let violations = self.verdict().violations;
        assert!(violations.is_empty(), "{violations:#?}");
    }

    #[track_caller]
    pub(crate) fn assert_found(&self, by: Check, words: &str) {
        let verdict = self.verdict();
        let found = verdict.of(by).any(|violation| violation.what.contains(words));
        assert!(found, "{} does not find it: {:#?}", by.name(), verdict.violations);
    }
}

impl<'s> Teller<'s> {
    pub(crate) fn acquires(self, attempt: &str, during: Range<u64>, ttl_ms: u64) -> Asked<'s> {
        self.waits(attempt, during, ttl_ms, 0)
    }

    pub(crate) fn waits(self, attempt: &str, during: Range<u64>, ttl_ms: u64, wait_ms: u64) -> Asked<'s> {
        self.takes((Mode::Exclusive, None), attempt, during, ttl_ms, wait_ms)
    }

    pub(crate) fn takes_waiting(
        self,
        permits: (u32, u32),
        attempt: &str,
        during: Range<u64>,
        ttl_ms: u64,
        wait_ms: u64,
    ) -> Asked<'s> {
        self.takes((Mode::Exclusive, Some(permits)), attempt, during, ttl_ms, wait_ms)
    }

    fn takes(
        self,
        (mode, permits): (Mode, Option<(u32, u32)>),
        attempt: &str,
        during: Range<u64>,
        ttl_ms: u64,
        wait_ms: u64,
    ) -> Asked<'s> {
        let (lock, owner) = (self.lock.clone(), attempt.into());
        let (permits, limit) = permits.unzip();
        let name = attempt.into();
        let acquire = Request::Acquire { lock, attempt: name, owner, ttl_ms, wait_ms, mode, limit, permits };
        self.asks(attempt, during, acquire)
    }

    pub(crate) fn reads(self, during: Range<u64>) -> Asked<'s> {
        let lock = self.lock.clone();
        self.asks("reader", during, Request::Read { lock })
    }

    /// Each attempt has a process of its own.
    fn asks(self, process: &str, during: Range<u64>, request: Request) -> Asked<'s> {
        let id = self.story.next_id;
        self.story.next_id += 1;
        let (process, attempt): (Arc<str>, Arc<str>) = (process.into(), process.into());
        let at_ns = ns(during.start);
        self.story.entries.push(Entry::Invoke(Invoke { id, process, at_ns, node: self.node, request }));
        Asked { story: self.story, completed_ms: during.end, attempt }
    }
}

impl Asked<'_> {
    /// As the acquire asked for it, or as long as a renewal finds in force.
    pub(crate) fn granted(self, grant: impl IntoGrant) {
        let asked = self.story.entries.iter().find_map(|entry| match entry {
            Entry::Invoke(Invoke { request: Request::Acquire { attempt, ttl_ms, .. }, .. }) => {
                (*attempt == self.attempt).then_some(*ttl_ms)
            }
            _ => None,
        });
        let (fence, ttl_ms) = grant.with_ttl(asked.unwrap_or(1_000));
        self.answers(Outcome::Ok(Answer::Granted { fence, ttl_ms, expires_in_ms: ttl_ms }));
    }

    pub(crate) fn released(self, fence: u64) {
        self.answers(Outcome::Ok(Answer::Released { fence: Some(fence) }));
    }

    pub(crate) fn forced(self, fence: u64) {
        self.answers(Outcome::Ok(Answer::Forced { fence }));
    }

    pub(crate) fn left(self) {
        self.answers(Outcome::Ok(Answer::Released { fence: None }));
    }

    pub(crate) fn sees(self, holders: &[(&str, u64)], queue: &[&str]) {
        let holders = holders.iter().map(|(owner, fence)| holder(owner, *fence)).collect();
        let queue = queue.iter().map(|owner| (*owner).into()).collect();
        self.answers(Outcome::Ok(Answer::Seen { holders, queue }));
    }

    pub(crate) fn sees_shares(self, holders: &[(&str, u64, Share)]) {
        self.sees_shares_and_queue(holders, &[]);
    }

    pub(crate) fn sees_shares_and_queue(self, holders: &[(&str, u64, Share)], queue: &[&str]) {
        let holders = holders.iter().map(|(owner, fence, share)| Holder {
            mode: if *share == Share::Shared { Mode::Shared } else { Mode::Exclusive },
            permits: if let Share::Permits(taken) = share { Some(*taken) } else { None },
            ..holder(owner, *fence)
        });
        let queue = queue.iter().map(|owner| (*owner).into()).collect();
        self.answers(Outcome::Ok(Answer::Seen { holders: holders.collect(), queue }));
    }

    pub(crate) fn limited(self, limit: u32) {
        self.answers(Outcome::Ok(Answer::Limited { limit }));
    }

    pub(crate) fn held_by(self, owner: &str, fence: u64) {
        let refusal = Refusal { holder: Some(holder(owner, fence)), ..crate::outcome::Code::Held.into() };
        self.answers(Outcome::Refused(refusal));
    }

    pub(crate) fn refused(self, code: &str) {
        let code: crate::outcome::Code = serde_json::from_value(code.into()).unwrap();
        self.answers(Outcome::Refused(code.into()));
    }

    pub(crate) fn unknown(self) {
        self.answers(Outcome::Unknown { why: String::new() });
    }

    fn answers(self, outcome: Outcome) {
        let (id, at_ns) = (self.story.next_id - 1, ns(self.completed_ms));
        self.story.entries.push(Entry::Complete(Complete { id, at_ns, outcome }));
    }
}

/// A fence alone, or with the TTL in force.
pub(crate) trait IntoGrant {
    fn with_ttl(self, asked_ms: u64) -> (u64, u64);
}

impl IntoGrant for u64 {
    fn with_ttl(self, asked_ms: u64) -> (u64, u64) {
        (self, asked_ms)
    }
}

impl IntoGrant for (u64, u64) {
    fn with_ttl(self, _: u64) -> (u64, u64) {
        self
    }
}

fn holder(owner: &str, fence: u64) -> Holder {
    Holder { owner: owner.into(), fence, expires_in_ms: 1, mode: Mode::Exclusive, permits: None }
}

fn mark(at_ms: u64) -> Mark {
    Mark { at_ns: ns(at_ms), text: String::new() }
}

fn ns(ms: u64) -> u64 {
    ms * 1_000_000
}
