//! A lock service in memory, as plain as can be, and what could be wrong with it.

use std::collections::{BTreeMap, VecDeque};

use holdfast_history::{Answer, Code, Holder, Mode, Outcome, Refusal, Request};

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
    LetsReadersInToWriters,
    LetsReadersPassWriters,
    GivesAPermitTooMany,
    ServesSmallRequestsFirst,
    IgnoresLimits,
    ExpiresAllSharesAtOnce,
    ForgetsHowManyPermits,
}

/// How much of a lock somebody takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    All,
    Shared,
    /// So many.
    Permits(u32),
}

#[derive(Clone, Debug)]
struct Hold {
    attempt: String,
    owner: String,
    fence: u64,
    ttl_ms: u64,
    deadline: u64,
    share: Share,
}

#[derive(Clone, Debug)]
struct Waiter {
    call: u64,
    attempt: String,
    owner: String,
    ttl_ms: u64,
    deadline: u64,
    share: Share,
    limit: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    holds: Vec<Hold>,
    queue: VecDeque<Waiter>,
    /// While anybody uses it, if they count permits.
    limit: Option<u32>,
}

impl Lock {
    fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.queue.is_empty()
    }

    fn next_due(&self) -> Option<u64> {
        let holds = self.holds.iter().map(|hold| hold.deadline);
        holds.chain(self.queue.iter().map(|waiter| waiter.deadline)).min()
    }

    fn permits_out(&self) -> u32 {
        let permits = |hold: &Hold| if let Share::Permits(taken) = hold.share { taken } else { 0 };
        self.holds.iter().map(permits).sum()
    }

    fn has_room_for(&self, share: Share, bug: Bug) -> bool {
        match share {
            Share::All => self.holds.is_empty(),
            Share::Shared if bug == Bug::LetsReadersInToWriters => true,
            Share::Shared => self.holds.iter().all(|hold| hold.share == Share::Shared),
            Share::Permits(taken) => {
                let more = u32::from(bug == Bug::GivesAPermitTooMany);
                self.permits_out() + taken <= self.limit.unwrap_or(0) + more
            }
        }
    }
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
        self.locks.values().filter_map(Lock::next_due).min()
    }

    /// Ends what is due.
    pub(crate) fn advance(&mut self, now: u64) {
        let due = self.locks.iter().filter(|(_, lock)| lock.next_due().is_some_and(|due| due <= now));
        let names: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        for name in names {
            let lock = self.locks.get_mut(&name).expect("it is one of them");
            let all_go =
                self.bug == Bug::ExpiresAllSharesAtOnce && lock.holds.iter().any(|hold| hold.deadline <= now);
            let (over, holds) = lock.holds.drain(..).partition(|hold| hold.deadline <= now || all_go);
            let over: Vec<Hold> = over;
            lock.holds = holds;
            let (gone, queue) = lock.queue.drain(..).partition(|waiter| waiter.deadline <= now);
            lock.queue = queue;
            let gone: VecDeque<Waiter> = gone;
            self.answers.extend(gone.iter().map(|waiter| (waiter.call, refused(Code::WaitTimeout))));
            for hold in over {
                self.end(&name, &hold, Code::LeaseExpired, now);
            }
            self.serve_next(&name, now);
        }
    }

    fn end(&mut self, name: &str, hold: &Hold, code: Code, now: u64) {
        let ending = Ending { code, fence: Some(hold.fence), at: now };
        self.endings.insert((name.into(), hold.attempt.clone()), ending);
        self.serve_next(name, now);
    }

    /// Serves all who are next in turn as long as there is room.
    fn serve_next(&mut self, name: &str, now: u64) {
        while let Some(waiter) = self.take_next(name) {
            let call = waiter.call;
            let granted = self.grant(name, waiter, now);
            self.answers.push((call, granted));
        }
        let lock = self.locks.entry(name.into()).or_default();
        if lock.is_unused() {
            lock.limit = None;
        }
    }

    fn take_next(&mut self, name: &str) -> Option<Waiter> {
        let bug = self.bug;
        let lock = self.locks.entry(name.into()).or_default();
        let fits = |waiter: &Waiter| lock.has_room_for(waiter.share, bug);
        let at = match bug {
            Bug::LastComeFirstServed => lock.queue.len().checked_sub(1),
            Bug::ServesSmallRequestsFirst => lock.queue.iter().position(fits),
            _ => Some(0),
        };
        let at = at.filter(|at| lock.queue.get(*at).is_some_and(fits))?;
        lock.queue.remove(at)
    }

    fn grant(&mut self, name: &str, waiter: Waiter, now: u64) -> Outcome {
        self.fence += 1;
        if self.bug == Bug::FencesGoBack && self.fence.is_multiple_of(40) {
            self.fence -= 20;
        }
        let Waiter { attempt, owner, ttl_ms, share, limit, .. } = waiter;
        let deadline = now + lease(self.bug, ttl_ms, self.fence);
        let hold = Hold { attempt, owner, fence: self.fence, ttl_ms, deadline, share };
        let granted = granted(&hold);
        let lock = self.locks.entry(name.into()).or_default();
        lock.limit = lock.limit.or(limit);
        lock.holds.push(hold);
        granted
    }

    /// The answer to a call; none if it waits.
    pub(crate) fn answer(&mut self, call: u64, request: &Request, now: u64) -> Option<Outcome> {
        self.advance(now);
        let name = request.lock().to_string();
        if self.bug == Bug::ForgetsHolds && call.is_multiple_of(50) {
            self.locks.entry(name.clone()).or_default().holds.clear();
        }
        if self.bug == Bug::ForgetsHowManyPermits && call.is_multiple_of(50) {
            let holds = self.locks.get_mut(&name).into_iter().flat_map(|lock| &mut lock.holds);
            for hold in holds.filter(|hold| matches!(hold.share, Share::Permits(_))) {
                hold.share = Share::Permits(1);
            }
        }
        if call.is_multiple_of(7) {
            self.before.insert(name.clone(), self.locks.get(&name).cloned().unwrap_or_default());
        }
        match request {
            Request::Acquire { attempt, owner, ttl_ms, wait_ms, mode, limit, permits, .. } => {
                let waiter = Waiter {
                    call,
                    attempt: attempt.to_string(),
                    owner: owner.to_string(),
                    ttl_ms: *ttl_ms,
                    deadline: now + wait_ms * MS,
                    share: share_of(*mode, limit.map(|_| permits.unwrap_or(1))),
                    limit: *limit,
                };
                self.acquire(&name, waiter, *wait_ms > 0, now)
            }
            Request::Renew { attempt, ttl_ms, .. } => Some(self.renew(&name, attempt, *ttl_ms, now)),
            Request::Release { attempt, .. } => Some(self.release(&name, attempt, now)),
            Request::Read { .. } => Some(self.read(&name, call)),
            Request::Limit { limit, .. } => Some(self.set_limit(&name, *limit, now)),
            Request::Force { fence, .. } => Some(self.force(&name, *fence, now)),
        }
    }

    fn acquire(&mut self, name: &str, waiter: Waiter, waits: bool, now: u64) -> Option<Outcome> {
        let key = (name.to_owned(), waiter.attempt.clone());
        let mut lock = self.locks.get(name).cloned().unwrap_or_default();
        if let Some(hold) = lock.holds.iter_mut().find(|hold| hold.attempt == waiter.attempt) {
            if self.bug == Bug::RetriesAreGrantedAnew {
                let attempt = waiter.attempt.clone();
                self.locks.entry(name.into()).or_default().holds.retain(|hold| hold.attempt != attempt);
                return Some(self.grant(name, waiter, now));
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
        if !lock.is_unused() && lock.limit != waiter.limit && self.bug != Bug::IgnoresLimits {
            return Some(Outcome::Refused(Refusal { limit: lock.limit, ..Code::LimitConflict.into() }));
        }
        let ignores_holder = self.bug == Bug::GrantsWhatIsHeld && waiter.call.is_multiple_of(30);
        let passes = match self.bug {
            Bug::LetsReadersPassWriters => waiter.share == Share::Shared,
            Bug::ServesSmallRequestsFirst => true,
            _ => false,
        };
        let limit = lock.limit.or(waiter.limit);
        let has_room = Lock { limit, ..lock.clone() }.has_room_for(waiter.share, self.bug);
        if ignores_holder || has_room && (passes || lock.queue.is_empty()) {
            return Some(self.grant(name, waiter, now));
        }
        if !waits {
            return Some(held(&lock));
        }
        let lock = self.locks.entry(name.into()).or_default();
        lock.queue.push_back(waiter);
        None
    }

    fn set_limit(&mut self, name: &str, limit: u32, now: u64) -> Outcome {
        let lock = self.locks.entry(name.into()).or_default();
        if lock.limit.is_none() {
            return refused(Code::NoLimit);
        }
        lock.limit = Some(limit);
        let is_too_large = |waiter: &Waiter| matches!(waiter.share, Share::Permits(taken) if taken > limit);
        let (gone, queue) = lock.queue.drain(..).partition(is_too_large);
        lock.queue = queue;
        let gone: VecDeque<Waiter> = gone;
        self.answers.extend(gone.iter().map(|waiter| (waiter.call, refused(Code::LimitConflict))));
        self.serve_next(name, now);
        Outcome::Ok(Answer::Limited { limit })
    }

    fn renew(&mut self, name: &str, attempt: &str, ttl_ms: Option<u64>, now: u64) -> Outcome {
        let key = (name.to_owned(), attempt.to_owned());
        let ending = self.endings.get(&key).cloned();
        let is_revived = self.bug == Bug::RevivesExpiredHolds
            && self.locks.get(name).is_none_or(|lock| lock.holds.is_empty())
            && ending.as_ref().is_some_and(|ending| ending.code == Code::LeaseExpired);
        if let Some(fence) = ending.as_ref().and_then(|ending| ending.fence).filter(|_| is_revived) {
            let (ttl_ms, deadline) = (1_000, now + 1_000 * MS);
            let share = Share::All;
            let hold =
                Hold { attempt: attempt.into(), owner: attempt.into(), fence, ttl_ms, deadline, share };
            let granted = granted(&hold);
            self.locks.entry(name.into()).or_default().holds.push(hold);
            return granted;
        }
        let bug = self.bug;
        let mut holds = self.locks.get_mut(name).into_iter().flat_map(|lock| &mut lock.holds);
        match holds.find(|hold| hold.attempt == attempt) {
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
        if let Some(at) = lock.holds.iter().position(|hold| hold.attempt == attempt || for_anybody) {
            let hold = lock.holds.remove(at);
            self.end(name, &hold, Code::LeaseReleased, now);
            return released(Some(hold.fence));
        }
        let key = (name.to_owned(), attempt.to_owned());
        if let Some(at) = lock.queue.iter().position(|waiter| waiter.attempt == attempt) {
            let waiter = lock.queue.remove(at).expect("it is there");
            self.answers.push((waiter.call, refused(Code::LeaseReleased)));
            self.endings.insert(key, Ending { code: Code::LeaseReleased, fence: None, at: now });
            self.serve_next(name, now);
            return released(None);
        }
        match self.endings.get(&key) {
            Some(_) if self.bug == Bug::SecondReleaseIsRefused => refused(Code::NotHolder),
            Some(ending) if ending.code == Code::LeaseReleased => released(ending.fence),
            Some(ending) => refused(ending.code),
            None => refused(Code::NotHolder),
        }
    }

    fn force(&mut self, name: &str, fence: u64, now: u64) -> Outcome {
        let lock = self.locks.entry(name.into()).or_default();
        let Some(at) = lock.holds.iter().position(|hold| hold.fence == fence) else {
            return refused(Code::NotHolder);
        };
        let hold = lock.holds.remove(at);
        self.end(name, &hold, Code::LeaseForced, now);
        Outcome::Ok(Answer::Forced { fence })
    }

    fn read(&mut self, name: &str, call: u64) -> Outcome {
        let is_stale = self.bug == Bug::ReadsAreStale && call.is_multiple_of(3);
        let lock = if is_stale { self.before.get(name) } else { self.locks.get(name) };
        let lock = lock.cloned().unwrap_or_default();
        let holders = lock.holds.iter().map(holder_seen).collect();
        let queue = lock.queue.iter().map(|waiter| waiter.owner.as_str().into()).collect();
        Outcome::Ok(Answer::Seen { holders, queue })
    }

    /// The client of a call has gone: what only that call wanted is given up.
    pub(crate) fn hang_up(&mut self, call: u64, now: u64) {
        let waits = |lock: &Lock| lock.queue.iter().any(|waiter| waiter.call == call);
        let Some(name) = self.locks.iter().find(|(_, lock)| waits(lock)).map(|(name, _)| name.clone()) else {
            return;
        };
        self.locks.entry(name.clone()).or_default().queue.retain(|waiter| waiter.call != call);
        self.serve_next(&name, now);
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
    Outcome::Refused(code.into())
}

fn held(lock: &Lock) -> Outcome {
    Outcome::Refused(Refusal { holder: lock.holds.first().map(holder), ..Code::Held.into() })
}

/// As others are told of it who want the lock, too.
fn holder(hold: &Hold) -> Holder {
    let (owner, mode) = (hold.owner.as_str().into(), Mode::Exclusive);
    Holder { owner, fence: hold.fence, expires_in_ms: hold.ttl_ms, mode, permits: None }
}

fn holder_seen(hold: &Hold) -> Holder {
    match hold.share {
        Share::All => holder(hold),
        Share::Shared => Holder { mode: Mode::Shared, ..holder(hold) },
        Share::Permits(taken) => Holder { permits: Some(taken), ..holder(hold) },
    }
}

fn share_of(mode: Mode, permits: Option<u32>) -> Share {
    match (mode, permits) {
        (_, Some(taken)) => Share::Permits(taken),
        (Mode::Shared, None) => Share::Shared,
        (Mode::Exclusive, None) => Share::All,
    }
}
