//! Table and model, step by step: whatever can be seen of them is the same.

use std::fmt::Debug;

use holdfast_core::{
    ClusterTime, HolderView, LockName, LockTable, LockView, Lookup, NodeId, Op, Outcome, Rejection,
    SessionDetail, SessionView, Standing, WaiterView,
};
use proptest::test_runner::TestCaseError;

use crate::invariants::Invariants;
use crate::naive::{Naive, State};
use crate::script::{LOCKS, Script, all_attempts, lock_name};

pub(crate) fn run(script: &Script) -> Result<(), TestCaseError> {
    let (mut table, mut naive, mut invariants) =
        (LockTable::default(), Naive::default(), Invariants::default());
    for (number, step) in script.steps.iter().enumerate() {
        let group = step.group(&naive);
        let applied = table.apply(&group);
        let (outcomes, events) = naive.apply(&group);
        let at = format!("step {number}, cluster time {}", naive.now);
        let told = applied.outcomes.iter().zip(&group.ops).map(|(outcome, op)| without_cycle(outcome, op));
        same(&at, "outcomes", &told.collect::<Result<Vec<_>, _>>()?, &outcomes)?;
        same(&at, "events", &applied.events, &events)?;
        same_state(&at, &table, &naive)?;
        invariants.check(&group, &applied, &table).map_err(|broken| fail(&at, &broken))?;
    }
    Ok(())
}

/// The model says whether there is a cycle; of several ones the table tells one, which begins with a lock that is wanted.
fn without_cycle(outcome: &Outcome, op: &Op) -> Result<Outcome, TestCaseError> {
    let Err(Rejection::Deadlock { cycle }) = outcome else { return Ok(outcome.clone()) };
    let is_wanted = |name: &LockName| match op {
        Op::Acquire(acquire) | Op::AcquireShare(acquire, _) | Op::AcquireInSession(acquire, ..) => {
            acquire.lock == *name
        }
        Op::AcquireOnTerms(attempt) => attempt.acquire.lock == *name,
        Op::AcquireMany(acquire) => acquire.items.iter().any(|item| item.place.lock == *name),
        _ => false,
    };
    match cycle.first().filter(|first| cycle.len() > 1 && is_wanted(first)) {
        Some(_) => Ok(Err(Rejection::Deadlock { cycle: Vec::new() })),
        None => Err(fail("an acquire", &format!("no cycle: {cycle:?}"))),
    }
}

fn same_state(at: &str, table: &LockTable, naive: &Naive) -> Result<(), TestCaseError> {
    let numbers = (table.now().0, table.last_fence(), table.seq(), table.cluster());
    same(at, "(time, fence, seq, cluster)", &numbers, &(naive.now, naive.fence, naive.seq, naive.cluster))?;
    same(at, "next deadline", &table.next_due().map(|due| due.0), &naive.next_due())?;
    same(at, "(held, waiting)", &table.counts(), &naive.counts())?;
    for node in (1..=3).map(NodeId) {
        same(at, "folder", &table.storage_of(node), &naive.folder(node))?;
    }
    let kept: Vec<_> = table.event_history().after(0).into_iter().flatten().cloned().collect();
    same(at, "event history", &kept, &naive.history)?;
    for (lock, key) in all_attempts() {
        same(at, "look-up", &table.look_up(&lock, &key, table.now()), &lookup(naive, &lock, &key))?;
        same(at, "standing", &table.standing(&lock, &key), &standing(naive, &key))?;
    }
    // A leader's clock is a little ahead of the table's.
    for now in [0, naive.now, naive.now + 70] {
        let views: Vec<_> =
            (0..LOCKS.len()).map(lock_name).map(|name| view(naive, &name, now.max(naive.now))).collect();
        for expected in &views {
            same(at, "view", &table.view(&expected.name, ClusterTime(now)), expected)?;
        }
        same_sessions(at, table, naive, now)?;
        let listed = table.list("", None, 100, ClusterTime(now)).locks;
        let is_listed =
            |view: &LockView| !view.holders.is_empty() || view.queue_length > 0 || view.delay_ms.is_some();
        let used = views.into_iter().filter(is_listed);
        let present: Vec<_> = listed.into_iter().filter(is_listed).collect();
        same(at, "list", &present, &used.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn same_sessions(at: &str, table: &LockTable, naive: &Naive, now: u64) -> Result<(), TestCaseError> {
    let mut views = Vec::new();
    for session in naive.sessions.iter().filter(|session| session.lives()) {
        let (holds, waits) = (naive.kept_by(session.id, true), naive.kept_by(session.id, false));
        let view = SessionView {
            id: session.id,
            owner: session.owner.clone(),
            ttl: session.ttl,
            expires_in_ms: session.deadline.saturating_sub(now.max(naive.now)),
            held: holds.len() as u64,
            waiting: waits.len() as u64,
        };
        let detail = SessionDetail { session: view.clone(), holds, waits, seq: naive.seq };
        same(at, "session", &table.session(session.id, ClusterTime(now)), &Some(detail))?;
        views.push(view);
    }
    same(at, "sessions", &table.list_sessions(None, 100, ClusterTime(now)).sessions, &views)
}

fn standing(naive: &Naive, key: &holdfast_core::AttemptKey) -> Standing {
    let Some(attempt) = naive.attempt(key) else { return Standing::Unknown };
    match &attempt.state {
        State::Waits { .. } => Standing::Queued,
        State::Holds(hold) if hold.is_releasing => Standing::Ended(holdfast_core::Cause::Released),
        State::Holds(_) => Standing::Held(attempt.grant(naive.now)),
        State::Ended { cause, .. } => Standing::Ended(*cause),
    }
}

fn lookup(naive: &Naive, lock: &LockName, key: &holdfast_core::AttemptKey) -> Lookup {
    let Some(attempt) = naive.attempt(key) else { return Lookup::Unknown };
    match &attempt.state {
        State::Waits { .. } => {
            let ahead = naive.waiters(lock).take_while(|(_, waiter)| waiter.number < attempt.number);
            Lookup::Queued { place: ahead.count() as u64 + 1 }
        }
        State::Holds(hold) if hold.is_releasing => Lookup::Ended {
            cause: holdfast_core::Cause::Released,
            fence: Some(holdfast_core::Fence(hold.fence)),
            ago_ms: 0,
        },
        State::Holds(hold) => {
            let expires_in_ms = hold.deadline - naive.now;
            Lookup::Held { fence: holdfast_core::Fence(hold.fence), expires_in_ms }
        }
        State::Ended { cause, fence, at, .. } => {
            Lookup::Ended { cause: *cause, fence: *fence, ago_ms: naive.now - at }
        }
    }
}

fn view(naive: &Naive, name: &LockName, now: u64) -> LockView {
    let all = naive.holders(name);
    let holders = all.iter().map(|(holder, hold)| HolderView {
        owner: holder.asked.owner.clone(),
        fence: holdfast_core::Fence(hold.fence),
        ttl: hold.ttl,
        expires_in_ms: hold.deadline.saturating_sub(now),
        held_ms: now - hold.granted_at,
        share: holder.share,
        session: holder.session,
        metadata: hold.metadata.clone(),
        max_left_ms: holder.max_left_ms(now),
        is_releasing: hold.is_releasing,
    });
    let waiters = naive.present_waiters(name).into_iter();
    let queue: Vec<_> = waiters
        .map(|(waiter, since)| WaiterView { owner: waiter.asked.owner.clone(), waiting_ms: now - since })
        .collect();
    let queue_length = queue.len() as u64;
    let limit = naive.is_used(name).then(|| naive.limit(name)).flatten();
    let delay_ms = naive.delay_of(name).map(|until| until.saturating_sub(now)).filter(|left| *left > 0);
    let (name, holders, seq) = (name.clone(), holders.collect(), naive.seq);
    LockView { name, holders, limit, queue, queue_length, seq, delay_ms }
}

fn same<T: PartialEq + Debug>(at: &str, what: &str, table: &T, naive: &T) -> Result<(), TestCaseError> {
    if table == naive {
        return Ok(());
    }
    Err(fail(at, &format!("{what} differ\n  table: {table:?}\n  model: {naive:?}")))
}

fn fail(at: &str, what: &str) -> TestCaseError {
    TestCaseError::fail(format!("{at}: {what}"))
}
