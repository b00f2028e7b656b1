//! Every promise names a test that is there.

use std::path::Path;

use crate::files;

/// Names in backticks that look like those of tests: words with underscores, at least three of them.
fn tests_named_in(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        name.matches('_').count() >= 2
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let sources: Vec<_> = files::with_ending(".rs").iter().map(|path| files::text(path)).collect();
    let exists = |name: &str| sources.iter().any(|source| source.contains(&format!("fn {name}(")));
    let text = files::text(Path::new("docs/guarantees.md"));
    let mut findings = Vec::new();
    let is_row =
        |line: &&str| line.starts_with('|') && !line.starts_with("| ---") && !line.starts_with("| promise");
    for row in text.lines().filter(is_row) {
        let named: Vec<_> = tests_named_in(row).collect();
        if named.is_empty() {
            findings.push(format!("no test: {row}"));
        }
        findings
            .extend(named.iter().filter(|name| !exists(name)).map(|name| format!("no such test: {name}")));
    }
    files::none(&findings, "promises of docs/guarantees.md that no test shows");
}
