//! What clients were told, as the checks of `holdfast check` see it: the history that they write, and its verdict.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_core::{HolderSummary, Rejection, Share};
use holdfast_history::format::{Complete, Entry, Header, Invoke, Mark};
use holdfast_history::{Answer, Code, History, Holder, Mode, Outcome, Refusal, Request};

use super::Violation;
use crate::sim::executor::Nanos;
use crate::sim::lines::{Came, Deed, Line, is_part, label, name};

/// The history's clock is the true one; those of the nodes run within 2.5 % of it.
const CLOCK_ERROR_PPM: u32 = 26_000;

pub(crate) fn check(lines: &[Line], doubled: &[Nanos]) -> Vec<Violation> {
    let history = match History::new(header(), entries(lines, doubled)) {
        Ok(history) => history,
        Err(error) => return vec![Violation::new("the history is one", error.to_string())],
    };
    let verdict = holdfast_history::check(&history);
    let found = verdict.violations.iter();
    found.map(|violation| Violation::new(violation.check.promise(), violation.what.clone())).collect()
}

fn header() -> Header {
    Header { clock_error_ppm: CLOCK_ERROR_PPM, ..Header::of_one_clock("simulated") }
}

/// The lines of the history, in the order in which things were written down.
fn entries(lines: &[Line], doubled: &[Nanos]) -> Vec<Entry> {
    let mut entries = vec![(0, Entry::Fault(Mark { at_ns: 0, text: "faults".into() }))];
    let hand_overs = lines.iter().filter(|line| line.deed == Deed::HandOver);
    let handed_over: BTreeSet<u64> = hand_overs.map(|line| line.lock).collect();
    // The history does not know of waits that are ended by force.
    let told = lines.iter().filter(|line| line.deed != Deed::ForceLeave);
    for (id, line) in (1..).zip(told) {
        entries.push((line.invoked, Entry::Invoke(invoke(id, line))));
        if line.returned < Nanos::MAX {
            let is_doubled = doubled.iter().any(|at| (line.invoked..=line.returned).contains(at));
            let mut outcome = match is_kept_unseen(line, lines) {
                true => Outcome::unknown("the hold may have been ended by force".into()),
                false => outcome(line, is_doubled),
            };
            if let Outcome::Ok(Answer::Seen { queue, .. }) = &mut outcome
                && handed_over.contains(&line.lock)
            {
                queue.clear(); // A leader that hands over passes the queue by.
            }
            let complete = Complete { id, at_ns: line.returned, outcome };
            entries.push((line.returned, Entry::Complete(complete)));
        }
    }
    entries.sort_by_key(|(at, _)| *at);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// A session that is renewed or ended says nothing of a hold that an operator may have ended before.
fn is_kept_unseen(line: &Line, lines: &[Line]) -> bool {
    let ((Deed::RenewSession, Came::Granted(fence, _)) | (Deed::EndSession, Came::Released(Some(fence)))) =
        (&line.deed, &line.came)
    else {
        return false;
    };
    let is_force = |other: &Line| other.deed == Deed::ForceRelease(*fence) && other.invoked <= line.returned;
    lines.iter().any(is_force)
}

fn invoke(id: u64, line: &Line) -> Invoke {
    let (process, node) = (format!("c{}", line.client).into(), format!("node-{}", line.node).into());
    Invoke { id, process, at_ns: line.invoked, node, request: request(line) }
}

/// The history knows of holds and of what they do: a session that is renewed renews each of them, one that is ended
/// releases each of them, and whoever hands over releases, too.
fn request(line: &Line) -> Request {
    let (lock, attempt): (Arc<str>, Arc<str>) =
        (name(line.lock).as_str().into(), label(&line.attempt).into());
    match line.deed {
        Deed::Acquire { wait_ms } => {
            let (owner, ttl_ms) = (line.owner.as_str().into(), line.ttl_ms);
            let (mode, limit, permits) = wish(line.share);
            Request::Acquire { lock, attempt, owner, ttl_ms, wait_ms, mode, limit, permits }
        }
        Deed::Renew | Deed::Proclaim | Deed::RenewSession => Request::Renew { lock, attempt, ttl_ms: None },
        // Refused, these say no more than a renewal that is refused.
        Deed::HandOver | Deed::EndSession if matches!(line.came, Came::Refused(_)) => {
            Request::Renew { lock, attempt, ttl_ms: None }
        }
        Deed::Release | Deed::HandOver | Deed::EndSession => Request::Release { lock, attempt },
        Deed::ForceRelease(fence) => Request::Force { lock, fence },
        Deed::Read | Deed::ForceLeave => Request::Read { lock },
        Deed::SetLimit(limit) => Request::Limit { lock, limit },
    }
}

/// Mode, limit and permits.
fn wish(share: Share) -> (Mode, Option<u32>, Option<u32>) {
    match share {
        Share::Exclusive => (Mode::Exclusive, None, None),
        Share::Shared => (Mode::Shared, None, None),
        Share::Permits(permits) => (Mode::Exclusive, Some(permits.limit()), Some(permits.taken())),
    }
}

fn outcome(line: &Line, is_doubled: bool) -> Outcome {
    if is_doubled && matches!(line.deed, Deed::SetLimit(_) | Deed::ForceRelease(_)) {
        // A copy may do it later, whatever was said of the first.
        return Outcome::unknown("a copy may be on its way".into());
    }
    match &line.came {
        Came::Granted(fence, expires_in_ms) => {
            // A longest hold cuts leases.
            let is_cut = line.terms.max_hold_ms().is_some();
            let is_anew = line.session.is_none() && line.deed != Deed::Proclaim && !is_cut;
            let ttl_ms = if is_anew { line.ttl_ms } else { *expires_in_ms };
            Outcome::Ok(Answer::Granted { fence: *fence, ttl_ms, expires_in_ms: *expires_in_ms })
        }
        Came::Released(fence) => Outcome::Ok(Answer::Released { fence: *fence }),
        Came::Seen(holders, queue) => Outcome::Ok(Answer::Seen {
            holders: holders.iter().map(|(summary, share)| holder_seen(summary, *share)).collect(),
            queue: queue.iter().map(|owner| owner.as_str().into()).collect(),
        }),
        Came::LimitSet | Came::Forced => done(line),
        Came::Refused(Rejection::Of { lock, why }) if *lock == name(line.lock) => refused(why),
        // Of all that an attempt at many has, this says nothing certain of a single lock.
        Came::Refused(_) if is_part(&line.attempt) => code(Code::InvalidArgument),
        Came::Refused(rejection) => refused(rejection),
        Came::WaitTimeout => code(Code::WaitTimeout),
        // The second copy may do what the first rightly says was not done.
        Came::NotDone if is_doubled => Outcome::unknown("a copy may be on its way".into()),
        Came::NotDone => code(Code::NoLeader),
        Came::Unknown => Outcome::unknown(String::new()),
    }
}

fn holder(summary: &HolderSummary) -> Holder {
    let HolderSummary { owner, fence, expires_in_ms } = summary;
    let (owner, mode) = (owner.as_str().into(), Mode::Exclusive);
    Holder { owner, fence: fence.0, expires_in_ms: *expires_in_ms, mode, permits: None }
}

fn holder_seen(summary: &HolderSummary, share: Share) -> Holder {
    let (mode, _, permits) = wish(share);
    Holder { mode, permits, ..holder(summary) }
}

fn done(line: &Line) -> Outcome {
    match line.deed {
        Deed::SetLimit(limit) => Outcome::Ok(Answer::Limited { limit }),
        Deed::ForceRelease(fence) => Outcome::Ok(Answer::Forced { fence }),
        _ => Outcome::unknown("only a limit can be set, and a hold be ended".into()),
    }
}

fn code(code: Code) -> Outcome {
    Outcome::Refused(code.into())
}

fn refused(rejection: &Rejection) -> Outcome {
    match rejection {
        Rejection::Held { holder: summary, .. } | Rejection::Delayed { holder: summary, .. } => {
            Outcome::Refused(Refusal { holder: summary.as_ref().map(holder), ..Code::Held.into() })
        }
        // It says nothing of who holds the lock.
        Rejection::AlreadyDone { .. } => code(Code::InvalidArgument),
        Rejection::LeaseExpired => code(Code::LeaseExpired),
        Rejection::LeaseReleased | Rejection::HandedOver => code(Code::LeaseReleased),
        Rejection::LeaseForced => code(Code::LeaseForced),
        Rejection::NotHolder => code(Code::NotHolder),
        Rejection::TokenConflict => code(Code::TokenConflict),
        Rejection::QueueFull => code(Code::QueueFull),
        Rejection::LimitConflict { limit } => {
            Outcome::Refused(Refusal { limit: *limit, ..Code::LimitConflict.into() })
        }
        Rejection::NoLimit => code(Code::NoLimit),
        Rejection::Deadlock { .. } => code(Code::Deadlock),
        Rejection::NoSuchCandidate => code(Code::NoSuchCandidate),
        Rejection::SessionExpired => code(Code::SessionExpired),
        Rejection::FencesExhausted
        | Rejection::ForeignStorage
        | Rejection::Of { .. }
        | Rejection::SessionNotFound
        | Rejection::SessionNotYours
        | Rejection::SessionFull
        | Rejection::NoSuchWaiter => Outcome::unknown(rejection.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{AttemptKey, Owner, Permits};

    use super::*;
    use crate::sim::executor::MS;

    fn granted(attempt: u8, share: Share, fence: u64, at_ms: u64) -> Line {
        Line {
            client: u64::from(attempt),
            node: 1,
            lock: 0,
            attempt: AttemptKey([attempt; 16]),
            owner: Owner::default(),
            session: None,
            share,
            deed: Deed::Acquire { wait_ms: 0 },
            ttl_ms: 1_000,
            terms: holdfast_core::Terms::default(),
            invoked: at_ms * MS,
            returned: (at_ms + 1) * MS,
            came: Came::Granted(fence, 1_000),
        }
    }

    #[test]
    fn two_who_are_told_that_they_hold_the_same_lock_at_once_are_found() {
        let told = |attempt, at_ms| granted(attempt, Share::Exclusive, attempt.into(), at_ms);
        assert_eq!(check(&[told(1, 10), told(2, 1_300)], &[]), []);
        assert!(!check(&[told(1, 10), told(2, 500)], &[]).is_empty());
    }

    #[test]
    fn those_who_share_a_lock_are_right_and_one_permit_too_many_is_found() {
        let reads = |attempt, at_ms| granted(attempt, Share::Shared, attempt.into(), at_ms);
        assert_eq!(check(&[reads(1, 10), reads(2, 500)], &[]), []);
        let three = Share::Permits(Permits::new(5, 3).unwrap());
        let takes = |attempt, at_ms| granted(attempt, three, attempt.into(), at_ms);
        assert!(check(&[takes(1, 10), takes(2, 500)], &[])[0].what.contains("6 permits of 5"));
    }
    #[test]
    fn a_limit_whose_change_was_refused_may_be_set_by_a_copy_of_the_call() {
        let takes = |attempt: u8, limit, at_ms| {
            granted(attempt, Share::Permits(Permits::new(limit, 3).unwrap()), attempt.into(), at_ms)
        };
        let refused = Line {
            deed: Deed::SetLimit(6),
            came: Came::Refused(Rejection::NoLimit),
            ..granted(3, Share::Exclusive, 0, 5)
        };
        let lines = [refused, takes(1, 3, 10), takes(2, 6, 500)];
        assert_eq!(check(&lines, &[5 * MS]), []);
        assert!(!check(&lines, &[]).is_empty());
    }
    /// The end of a session is told as a release of all that it was known to hold.
    #[test]
    fn the_end_of_a_session_does_not_contradict_a_force_that_came_before_it() {
        let attempt = AttemptKey(std::array::from_fn(|at| u8::from(at == 1))); // At this lock alone.
        let held = Line { attempt, ..granted(1, Share::Exclusive, 7, 10) };
        let at = |at_ms: u64, deed, came| Line {
            deed,
            came,
            invoked: at_ms * MS,
            returned: (at_ms + 1) * MS,
            attempt,
            ..granted(1, Share::Exclusive, 7, 0)
        };
        let forced = at(20, Deed::ForceRelease(7), Came::Forced);
        let ended = at(30, Deed::EndSession, Came::Released(Some(7)));
        let refused = at(40, Deed::Release, Came::Refused(Rejection::LeaseForced));
        let lines = [held.clone(), forced, ended.clone(), refused.clone()];
        assert_eq!(check(&lines, &[]), []);
        assert!(!check(&[held, ended, refused], &[]).is_empty());
    }
}
