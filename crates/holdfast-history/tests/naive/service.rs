//! A lock service in memory, as plain as can be, and what could be wrong with it.

use std::collections::{BTreeMap, VecDeque};

use holdfast_history::{Answer, Code, Holder, Outcome, Refusal, Request};

pub(crate) const MS: u64 = 1_000_000;
const MEMORY: u64 = 75_000 * MS;

/// Something that is wrong with the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    ExpiresAtHalfOfTheTtl,
    ExpiresTwoSecondsLate,
    GrantsWhatIsHeld,
    FencesGoBack,
    ForgetsHolds,
    RevivesExpiredHolds,
    ReadsAreStale,
    LastComeFirstServed,
    RetriesAreGrantedAnew,
    SecondReleaseIsRefused,
    ReleasesForAnybody,
}

#[derive(Clone, Debug)]
struct Hold {
    attempt: String,
    owner: String,
    fence: u64,
    ttl_ms: u64,
    deadline: u64,
}

#[derive(Clone, Debug)]
struct Waiter {
    call: u64,
    attempt: String,
    owner: String,
    ttl_ms: u64,
    deadline: u64,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    hold: Option<Hold>,
    queue: VecDeque<Waiter>,
}

#[derive(Clone, Debug)]
struct Ending {
    code: Code,
    fence: Option<u64>,
    at: u64,
}

/// The locks, the endings, and answers for calls that waited.
pub(crate) struct Service {
    bug: Bug,
    fence: u64,
    locks: BTreeMap<String, Lock>,
    endings: BTreeMap<(String, String), Ending>,
    /// Calls that waited and are answered now.
    pub(crate) answers: Vec<(u64, Outcome)>,
    before: BTreeMap<String, Lock>,
}

impl Service {
    pub(crate) fn new(bug: Bug) -> Self {
        let (locks, endings) = (BTreeMap::new(), BTreeMap::new());
        Self { bug, fence: 0, locks, endings, answers: Vec::new(), before: BTreeMap::new() }
    }

    /// When something is due, if nobody calls before.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let holds = self.locks.values().filter_map(|lock| lock.hold.as_ref()).map(|hold| hold.deadline);
        let waits = self.locks.values().flat_map(|lock| &lock.queue).map(|waiter| waiter.deadline);
        holds.chain(waits).min()
    }

    /// Ends what is due.
    pub(crate) fn advance(&mut self, now: u64) {
        let names: Vec<_> = self.locks.keys().cloned().collect();
        for name in names {
            let lock = self.locks.get_mut(&name).expect("it is one of them");
            let over = lock.hold.take_if(|hold| hold.deadline <= now);
            let (gone, queue) = lock.queue.drain(..).partition(|waiter| waiter.deadline <= now);
            lock.queue = queue;
            let gone: VecDeque<Waiter> = gone;
            self.answers.extend(gone.iter().map(|waiter| (waiter.call, refused(Code::WaitTimeout))));
            if let Some(hold) = over {
                self.end(&name, &hold, Code::LeaseExpired, now);
            }
        }
    }

    fn end(&mut self, name: &str, hold: &Hold, code: Code, now: u64) {
        let ending = Ending { code, fence: Some(hold.fence), at: now };
        self.endings.insert((name.into(), hold.attempt.clone()), ending);
        self.serve_next(name, now);
    }

    fn serve_next(&mut self, name: &str, now: u64) {
        let is_backward = self.bug == Bug::LastComeFirstServed;
        let lock = self.locks.entry(name.into()).or_default();
        if lock.hold.is_some() {
            return;
        }
        let next = if is_backward { lock.queue.pop_back() } else { lock.queue.pop_front() };
        if let Some(waiter) = next {
            let Waiter { call, attempt, owner, ttl_ms, .. } = waiter;
            let granted = self.grant(name, attempt, owner, ttl_ms, now);
            self.answers.push((call, granted));
        }
    }

    fn grant(&mut self, name: &str, attempt: String, owner: String, ttl_ms: u64, now: u64) -> Outcome {
        self.fence += 1;
        if self.bug == Bug::FencesGoBack && self.fence.is_multiple_of(40) {
            self.fence -= 20;
        }
        let deadline = now + lease(self.bug, ttl_ms, self.fence);
        let hold = Hold { attempt, owner, fence: self.fence, ttl_ms, deadline };
        let granted = granted(&hold);
        self.locks.entry(name.into()).or_default().hold = Some(hold);
        granted
    }

    /// The answer to a call; none if it waits.
    pub(crate) fn answer(&mut self, call: u64, request: &Request, now: u64) -> Option<Outcome> {
        self.advance(now);
        let name = request.lock().to_string();
        if self.bug == Bug::ForgetsHolds && call.is_multiple_of(50) {
            self.locks.entry(name.clone()).or_default().hold = None;
        }
        if call.is_multiple_of(7) {
            self.before.insert(name.clone(), self.locks.get(&name).cloned().unwrap_or_default());
        }
        match request {
            Request::Acquire { attempt, owner, ttl_ms, wait_ms, .. } => {
                let waiter = Waiter {
                    call,
                    attempt: attempt.to_string(),
                    owner: owner.to_string(),
                    ttl_ms: *ttl_ms,
                    deadline: now + wait_ms * MS,
                };
                self.acquire(&name, waiter, *wait_ms > 0, now)
            }
            Request::Renew { attempt, ttl_ms, .. } => Some(self.renew(&name, attempt, *ttl_ms, now)),
            Request::Release { attempt, .. } => Some(self.release(&name, attempt, now)),
            Request::Read { .. } => Some(self.read(&name, call)),
        }
    }

    fn acquire(&mut self, name: &str, waiter: Waiter, waits: bool, now: u64) -> Option<Outcome> {
        let key = (name.to_owned(), waiter.attempt.clone());
        let mut lock = self.locks.get(name).cloned().unwrap_or_default();
        if let Some(hold) = lock.hold.as_mut().filter(|hold| hold.attempt == waiter.attempt) {
            if self.bug == Bug::RetriesAreGrantedAnew {
                return Some(self.grant(name, waiter.attempt, waiter.owner, waiter.ttl_ms, now));
            }
            hold.deadline = now + lease(self.bug, hold.ttl_ms, hold.fence);
            let granted = granted(hold);
            self.locks.insert(name.into(), lock);
            return Some(granted);
        }
        if let Some(place) = lock.queue.iter_mut().find(|other| other.attempt == waiter.attempt) {
            let former = std::mem::replace(place, waiter);
            self.answers.push((former.call, Outcome::Unknown { why: "called again".into() }));
            self.locks.insert(name.into(), lock);
            return None;
        }
        let ending = self.endings.get(&key).filter(|ending| ending.at + MEMORY > now);
        if let Some(ending) = ending {
            return Some(refused(ending.code));
        }
        let ignores_holder = self.bug == Bug::GrantsWhatIsHeld && waiter.call.is_multiple_of(30);
        match lock.hold {
            Some(hold) if !ignores_holder && !waits => Some(held(&hold)),
            Some(_) if !ignores_holder => {
                self.locks.entry(name.into()).or_default().queue.push_back(waiter);
                None
            }
            _ => Some(self.grant(name, waiter.attempt, waiter.owner, waiter.ttl_ms, now)),
        }
    }

    fn renew(&mut self, name: &str, attempt: &str, ttl_ms: Option<u64>, now: u64) -> Outcome {
        let key = (name.to_owned(), attempt.to_owned());
        let ending = self.endings.get(&key).cloned();
        let is_revived = self.bug == Bug::RevivesExpiredHolds
            && self.locks.get(name).is_none_or(|lock| lock.hold.is_none())
            && ending.as_ref().is_some_and(|ending| ending.code == Code::LeaseExpired);
        if let Some(fence) = ending.as_ref().and_then(|ending| ending.fence).filter(|_| is_revived) {
            let (ttl_ms, deadline) = (1_000, now + 1_000 * MS);
            let hold = Hold { attempt: attempt.into(), owner: attempt.into(), fence, ttl_ms, deadline };
            let granted = granted(&hold);
            self.locks.entry(name.into()).or_default().hold = Some(hold);
            return granted;
        }
        let bug = self.bug;
        let hold = self.locks.get_mut(name).and_then(|lock| lock.hold.as_mut());
        match hold.filter(|hold| hold.attempt == attempt) {
            Some(hold) => {
                hold.ttl_ms = ttl_ms.unwrap_or(hold.ttl_ms);
                hold.deadline = now + lease(bug, hold.ttl_ms, hold.fence);
                granted(hold)
            }
            None => refused(ending.map_or(Code::NotHolder, |ending| ending.code)),
        }
    }

    fn release(&mut self, name: &str, attempt: &str, now: u64) -> Outcome {
        let for_anybody = self.bug == Bug::ReleasesForAnybody;
        let lock = self.locks.entry(name.into()).or_default();
        if let Some(hold) = lock.hold.take_if(|hold| hold.attempt == attempt || for_anybody) {
            self.end(name, &hold, Code::LeaseReleased, now);
            return released(Some(hold.fence));
        }
        let key = (name.to_owned(), attempt.to_owned());
        if let Some(at) = lock.queue.iter().position(|waiter| waiter.attempt == attempt) {
            let waiter = lock.queue.remove(at).expect("it is there");
            self.answers.push((waiter.call, refused(Code::LeaseReleased)));
            self.endings.insert(key, Ending { code: Code::LeaseReleased, fence: None, at: now });
            return released(None);
        }
        match self.endings.get(&key) {
            Some(_) if self.bug == Bug::SecondReleaseIsRefused => refused(Code::NotHolder),
            Some(ending) if ending.code == Code::LeaseReleased => released(ending.fence),
            Some(ending) => refused(ending.code),
            None => refused(Code::NotHolder),
        }
    }

    fn read(&mut self, name: &str, call: u64) -> Outcome {
        let is_stale = self.bug == Bug::ReadsAreStale && call.is_multiple_of(3);
        let lock = if is_stale { self.before.get(name) } else { self.locks.get(name) };
        let lock = lock.cloned().unwrap_or_default();
        let holders = lock.hold.iter().map(holder).collect();
        let queue = lock.queue.iter().map(|waiter| waiter.owner.as_str().into()).collect();
        Outcome::Ok(Answer::Seen { holders, queue })
    }

    /// The client of a call has gone: what only that call wanted is given up.
    pub(crate) fn hang_up(&mut self, call: u64) {
        for lock in self.locks.values_mut() {
            lock.queue.retain(|waiter| waiter.call != call);
        }
    }
}

/// Up to 900 ms late: as late as the service may be.
fn lease(bug: Bug, ttl_ms: u64, fence: u64) -> u64 {
    let late_ms = fence * 37 % 900;
    match bug {
        Bug::ExpiresAtHalfOfTheTtl => ttl_ms * MS / 2,
        Bug::ExpiresTwoSecondsLate => (ttl_ms + 2_000) * MS,
        _ => (ttl_ms + late_ms) * MS,
    }
}

fn granted(hold: &Hold) -> Outcome {
    Outcome::Ok(Answer::Granted { fence: hold.fence, ttl_ms: hold.ttl_ms, expires_in_ms: hold.ttl_ms })
}

fn released(fence: Option<u64>) -> Outcome {
    Outcome::Ok(Answer::Released { fence })
}

fn refused(code: Code) -> Outcome {
    Outcome::Refused(Refusal { code, holder: None })
}

fn held(hold: &Hold) -> Outcome {
    Outcome::Refused(Refusal { code: Code::Held, holder: Some(holder(hold)) })
}

fn holder(hold: &Hold) -> Holder {
    Holder { owner: hold.owner.as_str().into(), fence: hold.fence, expires_in_ms: hold.ttl_ms }
}
