//! Seeded clients of the naive service, with a network that loses and delays, and the history that they write.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use holdfast_history::format::{Complete, Entry, Invoke, Mark};
use holdfast_history::{Answer, Mode, Outcome, Request};

use crate::naive::chance::Chance;
use crate::naive::service::{Bug, MS, Service};

const PATIENCE: u64 = 300 * MS;

/// What is to be simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) bug: Bug,
    pub(crate) clients: usize,
    pub(crate) locks: u64,
    pub(crate) operations: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Step(usize),
    Arrive(u64),
    Answer(u64, usize),
    GiveUp(u64, usize),
    HangUp(u64),
    Due,
}

/// An attempt of a client that goes on.
#[derive(Clone, Debug)]
struct Going {
    lock: Arc<str>,
    name: Arc<str>,
    ttl_ms: u64,
    wait_ms: u64,
    mode: Mode,
    /// How many permits of how many.
    permits: Option<(u32, u32)>,
    holds: bool,
    tries: u64,
}

/// What a lock is used for, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Alone,
    ReadersAndWriters,
    Permits,
}

const USES: [Use; 3] = [Use::Alone, Use::ReadersAndWriters, Use::Permits];
/// Until somebody changes it.
const FIRST_LIMIT: u32 = 4;

struct Client {
    name: Arc<str>,
    going: Option<Going>,
    waits_for: Option<u64>,
    attempts: u64,
}

struct Run {
    plan: Plan,
    chance: Chance,
    service: Service,
    clients: Vec<Client>,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    asked: u64,
    requests: BTreeMap<u64, (usize, Request)>,
    outcomes: BTreeMap<u64, Outcome>,
    entries: Vec<Entry>,
    /// Of each lock, as the clients know it.
    limits: BTreeMap<Arc<str>, u32>,
    /// Of each lock the last that a client was told of as its own.
    fences: BTreeMap<Arc<str>, u64>,
}

/// What the clients of a run write down. The same plan, the same history.
pub(crate) fn run(plan: Plan) -> Vec<Entry> {
    let client = |number: usize| Client {
        name: format!("c{number}").into(),
        going: None,
        waits_for: None,
        attempts: 0,
    };
    let mut run = Run {
        plan,
        chance: Chance::of(plan.seed),
        service: Service::new(plan.bug),
        clients: (0..plan.clients).map(client).collect(),
        now: 0,
        events: BinaryHeap::new(),
        scheduled: 0,
        asked: 0,
        requests: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        entries: vec![Entry::Healthy(Mark { at_ns: 0, text: String::new() })],
        limits: BTreeMap::new(),
        fences: BTreeMap::new(),
    };
    for number in 0..plan.clients {
        let at = 1 + run.chance.below(50 * MS);
        run.schedule(at, Event::Step(number));
    }
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        run.now = at;
        run.take(event);
    }
    run.entries
}

impl Run {
    fn schedule(&mut self, after: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now + after, self.scheduled, event)));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Step(client) => self.step(client),
            Event::Arrive(call) => self.arrive(call),
            Event::Answer(call, client) => self.answered(call, client),
            Event::GiveUp(call, client) => self.give_up(call, client),
            Event::HangUp(call) => self.service.hang_up(call, self.now),
            Event::Due => self.service.advance(self.now),
        }
        self.send_answers();
    }

    fn step(&mut self, client: usize) {
        if self.asked == self.plan.operations {
            return;
        }
        let request = self.next_request(client);
        self.asked += 1;
        let call = self.asked;
        let node = self.chance.pick(&["n1", "n2", "n3"]).into();
        let invoke =
            Invoke { id: call, process: self.clients[client].name.clone(), at_ns: self.now, node, request };
        let patience = PATIENCE + wait_of(&invoke.request);
        self.requests.insert(call, (client, invoke.request.clone()));
        self.entries.push(Entry::Invoke(invoke));
        self.clients[client].waits_for = Some(call);
        self.schedule(patience, Event::GiveUp(call, client));
        let way = 50_000 + self.chance.below(5 * MS);
        match self.chance.below(60) {
            0 => {}
            1 => {
                let late = self.chance.below(8_000 * MS);
                self.schedule(way + late, Event::Arrive(call));
            }
            _ => self.schedule(way, Event::Arrive(call)),
        }
    }

    fn arrive(&mut self, call: u64) {
        let Some((_, request)) = self.requests.get(&call).cloned() else { return };
        if let Some(outcome) = self.service.answer(call, &request, self.now) {
            self.service.answers.push((call, outcome));
        }
    }

    /// Sends what the service has said, and wakes it when something is due.
    fn send_answers(&mut self) {
        for (call, outcome) in std::mem::take(&mut self.service.answers) {
            let Some((client, _)) = self.requests.get(&call) else { continue };
            let client = *client;
            self.outcomes.insert(call, outcome);
            if !self.chance.one_in(50) {
                let way = 50_000 + self.chance.below(5 * MS);
                self.schedule(way, Event::Answer(call, client));
            }
        }
        if let Some(due) = self.service.next_due() {
            let is_planned = self.events.peek().is_some_and(|Reverse((at, ..))| *at <= due);
            if !is_planned {
                self.schedule(due.saturating_sub(self.now), Event::Due);
            }
        }
    }

    fn answered(&mut self, call: u64, client: usize) {
        let Some(outcome) = self.outcomes.remove(&call) else { return };
        if self.clients[client].waits_for == Some(call) {
            self.complete(call, client, outcome);
        }
    }

    fn give_up(&mut self, call: u64, client: usize) {
        if self.clients[client].waits_for == Some(call) {
            if !self.chance.one_in(4) {
                let way = 50_000 + self.chance.below(5 * MS);
                self.schedule(way, Event::HangUp(call));
            }
            self.complete(call, client, Outcome::Unknown { why: "no answer".into() });
        }
    }

    fn complete(&mut self, call: u64, client: usize, outcome: Outcome) {
        self.clients[client].waits_for = None;
        let (_, request) = self.requests[&call].clone();
        if let (Request::Limit { lock, limit }, Outcome::Ok(_)) = (&request, &outcome) {
            self.limits.insert(lock.clone(), *limit);
        }
        if let Outcome::Ok(Answer::Granted { fence, .. }) = &outcome {
            self.fences.insert(request.lock().clone(), *fence);
        }
        self.learn(client, &request, &outcome);
        self.entries.push(Entry::Complete(Complete { id: call, at_ns: self.now, outcome }));
        // Now and then a client is away for longer than its lease.
        let pause = if self.chance.one_in(15) { 3_500 } else { 120 };
        let pause = self.chance.below(pause * MS);
        self.schedule(pause, Event::Step(client));
    }

    fn learn(&mut self, client: usize, request: &Request, outcome: &Outcome) {
        let is_repeated = self.chance.one_in(5);
        let is_forgotten = self.chance.one_in(15);
        let Some(going) = self.clients[client].going.as_mut() else { return };
        let keeps = match (request, outcome) {
            (Request::Read { .. } | Request::Limit { .. } | Request::Force { .. }, _) => true,
            (Request::Release { .. }, Outcome::Ok(Answer::Released { .. })) => is_repeated,
            (_, Outcome::Ok(_)) => {
                going.holds = true;
                !is_forgotten
            }
            (_, Outcome::Unknown { .. }) => {
                going.tries += 1;
                going.tries < 4
            }
            (_, Outcome::Refused(_)) => is_repeated && going.holds,
        };
        if !keeps {
            self.clients[client].going = None;
        }
    }

    fn next_request(&mut self, client: usize) -> Request {
        if let Some(going) = self.clients[client].going.clone() {
            return self.go_on(going);
        }
        let number = self.chance.below(self.plan.locks);
        let lock: Arc<str> = format!("lock-{number}").into();
        let how = USES[usize::try_from(number % 3).expect("it is below 3")];
        if how == Use::Permits && self.chance.one_in(25) {
            return Request::Limit { lock, limit: self.chance.pick(&[2, 3, 4, 6]) };
        }
        if let Some(fence) = self.fences.get(&lock).copied()
            && self.chance.one_in(12)
        {
            return Request::Force { lock, fence };
        }
        if self.chance.one_in(3) {
            return Request::Read { lock };
        }
        let ttl_ms = self.chance.pick(&[300, 1_000, 3_000]);
        let wait_ms = self.chance.pick(&[0, 0, 500, 4_000]);
        let (mode, permits) = match how {
            Use::Alone => (Mode::Exclusive, None),
            Use::ReadersAndWriters => {
                (self.chance.pick(&[Mode::Shared, Mode::Shared, Mode::Exclusive]), None)
            }
            Use::Permits => (Mode::Exclusive, Some(self.permits_of(&lock))),
        };
        let it = &mut self.clients[client];
        it.attempts += 1;
        let name: Arc<str> = format!("{}-{}", it.name, it.attempts).into();
        it.going = Some(Going { lock, name, ttl_ms, wait_ms, mode, permits, holds: false, tries: 0 });
        self.acquire(self.clients[client].going.clone().expect("it was set a moment ago"))
    }

    fn acquire(&self, going: Going) -> Request {
        let Going { lock, name, ttl_ms, wait_ms, mode, permits, .. } = going;
        let (permits, limit) = permits.unzip();
        Request::Acquire { lock, attempt: name.clone(), owner: name, ttl_ms, wait_ms, mode, limit, permits }
    }

    /// Now and then a client names a limit of its own.
    fn permits_of(&mut self, lock: &str) -> (u32, u32) {
        let known = self.limits.get(lock).copied().unwrap_or(FIRST_LIMIT);
        let limit = if self.chance.one_in(12) { self.chance.pick(&[3, 5]) } else { known };
        (self.chance.pick(&[1, 1, 2, limit]).min(limit), limit)
    }

    fn go_on(&mut self, going: Going) -> Request {
        let (lock, attempt) = (going.lock.clone(), going.name.clone());
        match (going.holds, self.chance.below(10)) {
            (false, 0..7) | (true, 0) => self.acquire(going),
            (false, _) | (true, 7..) => Request::Release { lock, attempt },
            (true, 1..3) => Request::Read { lock },
            (true, 3) => Request::Renew { lock, attempt, ttl_ms: Some(self.chance.pick(&[300, 2_000])) },
            (true, 4..7) => Request::Renew { lock, attempt, ttl_ms: None },
        }
    }
}

fn wait_of(request: &Request) -> u64 {
    match request {
        Request::Acquire { wait_ms, .. } => wait_ms * MS,
        _ => 0,
    }
}
