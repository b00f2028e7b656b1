//! A violation on a time line, for a terminal.

use std::fmt;

use crate::describe;
use crate::history::Operation;
use crate::lease::ms;
use crate::verdict::Violation;

/// Columns of the line.
const WIDTH: u64 = 48;

/// A violation as text: what is broken, how, and the operations on a time line.
#[derive(Debug)]
pub struct Timeline<'a>(pub &'a Violation);

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(violation) = self;
        writeln!(f, "{}: {}", violation.check.name(), violation.check.promise())?;
        writeln!(f, "  lock {:?}: {}", violation.lock, violation.what)?;
        let scale = Scale::of(&violation.operations);
        for operation in &violation.operations {
            let (process, node) = (&operation.process, &operation.node);
            let (asked, told) = (describe::request(operation), describe::outcome(operation));
            writeln!(f, "  {} |{}| {process} asks {node}: {asked}", start(operation), scale.bar(operation))?;
            writeln!(f, "  {} |{}|   {told}", end(operation), " ".repeat(usize_of(WIDTH)))?;
        }
        Ok(())
    }
}

fn start(operation: &Operation) -> String {
    format!("{:>18}", ms(operation.invoked))
}

fn end(operation: &Operation) -> String {
    match operation.completed {
        u64::MAX => format!("{:>18}", "never"),
        completed => format!("{:>18}", ms(completed)),
    }
}

/// Where a moment is on the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    from: u64,
    until: u64,
}

impl Scale {
    pub(crate) fn of(operations: &[Operation]) -> Self {
        let from = operations.iter().map(|operation| operation.invoked).min().unwrap_or(0);
        let known = operations.iter().map(|operation| match operation.completed {
            u64::MAX => operation.invoked,
            completed => completed,
        });
        Self { from, until: known.max().unwrap_or(0).max(from + 1) }
    }

    pub(crate) fn from(self) -> u64 {
        self.from
    }

    pub(crate) fn until(self) -> u64 {
        self.until
    }

    /// From 0 to `width`; what is outside is at the edge.
    pub(crate) fn place(self, at: u64, width: u64) -> u64 {
        let at = at.clamp(self.from, self.until) - self.from;
        let place = u128::from(at) * u128::from(width) / u128::from(self.until - self.from);
        u64::try_from(place).expect("it is at most the width")
    }

    fn bar(self, operation: &Operation) -> String {
        let first = usize_of(self.place(operation.invoked, WIDTH - 1));
        let last = usize_of(self.place(operation.completed, WIDTH - 1));
        let never_ends = operation.completed == u64::MAX;
        let column = |at| match at {
            at if at == last && never_ends => '>',
            at if at == first || at == last => '+',
            at if first < at && at < last => '-',
            _ => ' ',
        };
        (0..usize_of(WIDTH)).map(column).collect()
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("columns are few")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    #[test]
    fn a_violation_is_shown_with_its_operations_in_order_of_time() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.acquires("b", 500..510, 1_000).granted(2);
        let verdict = story.verdict();
        let text = Timeline(&verdict.violations[0]).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("one_holder: those who may believe"), "{text}");
        assert!(lines[1].contains("fences 1 and 2"), "{text}");
        assert!(lines[2].contains("0.000 ms |+") && lines[2].contains("acquire a for 1000 ms"), "{text}");
        assert!(lines[5].contains("510.000 ms") && lines[5].ends_with("granted, fence 2, 1000 ms"), "{text}");
    }

    #[test]
    fn a_call_that_was_never_answered_runs_to_the_edge() {
        let mut story = Story::default();
        story.acquires("a", 0..5, 1_000).granted(1);
        story.reads(10..100).sees(&[], &[]);
        let mut violation = story.verdict().violations[0].clone();
        violation.operations[0].completed = u64::MAX;
        assert!(Timeline(&violation).to_string().contains("->|"), "{}", Timeline(&violation));
    }
}
