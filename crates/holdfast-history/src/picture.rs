//! Violations as pictures: one page of HTML that needs nothing else.

use std::fmt::{self, Write};

use crate::describe;
use crate::history::{History, Operation};
use crate::lease::ms;
use crate::timeline::Scale;
use crate::verdict::{Verdict, Violation};

const WIDTH: u64 = 1_000;
const ROW: u64 = 22;
/// Of one violation so many other operations at the same lock are drawn.
const CONTEXT_MAX: usize = 40;
/// So many violations are drawn.
const VIOLATIONS_MAX: usize = 50;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>holdfast check</title><style>
body{font:14px/1.4 system-ui,sans-serif;margin:2em;max-width:1100px}
svg{width:100%;background:#fafafa;border:1px solid #ddd}
text{font:12px ui-monospace,monospace}
.context{opacity:.35}
.ok{fill:#2e7d32}.refused{fill:#b26a00}.unknown{fill:#757575}
.lease{fill:#a5d6a7}.mark{stroke:#c62828;stroke-dasharray:3 3}
</style></head><body>
"#;

/// A page with the verdict and a picture of each violation.
pub fn picture(history: &History, verdict: &Verdict) -> String {
    let mut page = String::from(HEAD);
    write_page(&mut page, history, verdict).expect("a string takes everything");
    page
}

fn write_page(page: &mut String, history: &History, verdict: &Verdict) -> fmt::Result {
    let count = verdict.violations.len();
    writeln!(page, "<h1>{count} violations in {} operations</h1>", verdict.counts.operations)?;
    if count > VIOLATIONS_MAX {
        writeln!(page, "<p>The first {VIOLATIONS_MAX} are drawn.</p>")?;
    }
    writeln!(
        page,
        "<p>A bar is a call, from its invocation to its completion: green a success, orange refused, grey unknown. Pale \
         green is the lease that its answer promises. Faint rows are other calls at the same lock.</p>"
    )?;
    for violation in verdict.violations.iter().take(VIOLATIONS_MAX) {
        write_violation(page, history, violation)?;
    }
    for not_made in &verdict.not_made {
        writeln!(page, "<p>Not checked: {}: {}</p>", not_made.check.name(), escape(&not_made.why))?;
    }
    page.write_str("</body></html>\n")
}

fn write_violation(page: &mut String, history: &History, violation: &Violation) -> fmt::Result {
    let (check, lock) = (violation.check, escape(&violation.lock));
    writeln!(page, "<h2>{}: {}</h2>", check.name(), check.promise())?;
    writeln!(page, "<p>Lock <code>{lock}</code>: {}</p>", escape(&violation.what))?;
    let scale = Scale::of(&violation.operations);
    let rows = rows(history, violation, scale);
    let height = ROW * (2 * rows.len() as u64 + 1);
    writeln!(page, r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#)?;
    for note in &history.notes {
        if scale.from() < note.at_ns && note.at_ns < scale.until() {
            let x = scale.place(note.at_ns, WIDTH);
            writeln!(page, r#"<line class="mark" x1="{x}" x2="{x}" y1="0" y2="{height}"/>"#)?;
            writeln!(page, r#"<text x="{x}" y="{}">{}</text>"#, height - 6, escape(&note.text))?;
        }
    }
    for (row, (operation, is_context)) in (0..).zip(rows) {
        write_row(page, operation, is_context, 2 * row * ROW, scale)?;
    }
    page.write_str("</svg>\n")
}

/// The operations of a violation and those around them, in order of time.
fn rows<'a>(history: &'a History, violation: &'a Violation, scale: Scale) -> Vec<(&'a Operation, bool)> {
    let is_named = |operation: &Operation| violation.operations.contains(operation);
    let is_near = |operation: &&Operation| {
        operation.request.lock() == &violation.lock
            && operation.invoked <= scale.until()
            && operation.completed >= scale.from()
            && !is_named(operation)
    };
    let context =
        history.operations.iter().filter(is_near).take(CONTEXT_MAX).map(|operation| (operation, true));
    let mut rows: Vec<_> =
        violation.operations.iter().map(|operation| (operation, false)).chain(context).collect();
    rows.sort_by_key(|(operation, _)| operation.invoked);
    rows
}

fn write_row(
    page: &mut String,
    operation: &Operation,
    is_context: bool,
    y: u64,
    scale: Scale,
) -> fmt::Result {
    let from = scale.place(operation.invoked, WIDTH);
    let until = scale.place(operation.completed, WIDTH);
    let class = match operation.outcome {
        crate::Outcome::Ok(_) => "ok",
        crate::Outcome::Refused(_) => "refused",
        crate::Outcome::Unknown { .. } => "unknown",
    };
    let words = format!(
        "{} {} asks {}: {} → {}",
        ms(operation.invoked),
        operation.process,
        operation.node,
        describe::request(operation),
        describe::outcome(operation)
    );
    writeln!(page, r#"<g class="{}">"#, if is_context { "context" } else { "named" })?;
    writeln!(page, r#"<text x="4" y="{}">{}</text>"#, y + 15, escape(&words))?;
    let bar_y = y + ROW - 2;
    if let Some((_, ttl_ms)) = operation.granted() {
        let end = scale.place(operation.invoked.saturating_add(ttl_ms * 1_000_000), WIDTH);
        let width = (end - from).max(2);
        writeln!(page, r#"<rect class="lease" x="{from}" y="{bar_y}" width="{width}" height="12"/>"#)?;
    }
    let width = (until - from).max(2);
    writeln!(page, r#"<rect class="{class}" x="{from}" y="{bar_y}" width="{width}" height="12"/></g>"#)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    #[test]
    fn a_page_stands_for_itself_and_shows_no_text_as_markup() {
        let mut story = Story::default();
        story.acquires("<b>", 0..5, 1_000).granted(1);
        story.acquires("b", 500..510, 1_000).granted(2);
        story.fault(250);
        let page = picture(&story.history(), &story.verdict());
        assert!(page.contains("<svg") && page.contains("&lt;b&gt;") && page.contains("class=\"mark\""));
        assert!(!page.contains("<b>") && !page.contains("http"));
    }
}
