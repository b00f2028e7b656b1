//! Finds the smallest part of a failing run that still fails.

use std::time::{Duration, Instant};

use super::plan::{Plan, Reduction};
use super::run::{Report, simulate};

/// A smaller run that fails as well.
#[derive(Debug)]
pub struct Shrunk {
    /// What is left out.
    pub reduction: Reduction,
    /// What it came to.
    pub report: Report,
    /// How many runs it took to find it.
    pub tries: u64,
}

/// Tries to leave out time, clients, locks and faults, for so long at most. `None` if the plan does not fail.
pub fn shrink(plan: &Plan, patience: Duration) -> Option<Shrunk> {
    let report = simulate(plan);
    if report.violations.is_empty() {
        return None;
    }
    let shrunk = Shrunk { reduction: Reduction::default(), report, tries: 1 };
    let mut search = Search { plan, deadline: Instant::now() + patience, shrunk };
    search.shorten();
    search.drop_steps();
    search.drop_clients();
    search.shorten();
    Some(search.shrunk)
}

struct Search<'a> {
    plan: &'a Plan,
    deadline: Instant,
    shrunk: Shrunk,
}

impl Search<'_> {
    fn has_time(&self) -> bool {
        Instant::now() < self.deadline
    }

    /// Keeps the reduction if the same thing fails with it.
    fn keeps(&mut self, reduction: Reduction) -> bool {
        if !self.has_time() || reduction == self.shrunk.reduction {
            return false;
        }
        let report = simulate(&self.plan.reduced(&reduction));
        self.shrunk.tries += 1;
        let wanted = self.shrunk.report.violations.first().map(|violation| violation.invariant);
        if report.violations.first().map(|violation| violation.invariant) != wanted {
            return false;
        }
        (self.shrunk.reduction, self.shrunk.report) = (reduction, report);
        true
    }

    fn current(&self) -> Reduction {
        self.shrunk.reduction.clone()
    }

    /// Less time, by ever smaller parts.
    fn shorten(&mut self) {
        let mut faults_ms = self.shrunk.reduction.faults_ms.unwrap_or(self.plan.faults_ms);
        let mut part = faults_ms / 2;
        while part >= 250 {
            let less = faults_ms - part;
            if self.keeps(Reduction { faults_ms: Some(less), ..self.current() }) {
                faults_ms = less;
            }
            part = part.min(faults_ms) / 2;
        }
    }

    /// Fewer faults: halves, quarters, and so on down to single ones.
    fn drop_steps(&mut self) {
        let kept = self.plan.reduced(&self.shrunk.reduction);
        let mut steps: Vec<usize> = kept.steps.iter().map(|step| step.number).collect();
        let mut size = steps.len().div_ceil(2);
        while size >= 1 {
            let mut at = 0;
            while at < steps.len() {
                let end = (at + size).min(steps.len());
                let fewer = [&steps[..at], &steps[end..]].concat();
                if self.keeps(Reduction { steps: Some(fewer.clone()), ..self.current() }) {
                    steps = fewer;
                } else {
                    at = end;
                }
                if !self.has_time() {
                    return;
                }
            }
            size /= 2;
        }
    }

    fn drop_clients(&mut self) {
        for clients in 1..self.plan.clients {
            if self.keeps(Reduction { clients: Some(clients), ..self.current() }) {
                break;
            }
        }
        for locks in 1..self.plan.locks {
            if self.keeps(Reduction { locks: Some(locks), ..self.current() }) {
                break;
            }
        }
    }
}
