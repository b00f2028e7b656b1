//! Every promise, and every case of the field, names a test that is there.

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

/// Whether a test of this name stands in any of our sources.
fn existing() -> impl Fn(&str) -> bool {
    let sources: Vec<_> = files::with_ending(".rs").iter().map(|path| files::text(path)).collect();
    move |name| sources.iter().any(|source| source.contains(&format!("fn {name}(")))
}

#[test]
fn every_case_of_the_field_names_tests_that_exist_or_what_it_waits_for() {
    let exists = existing();
    let text = files::text(Path::new("docs/testing.md"));
    let cases = text.lines().filter(|line| line.starts_with("| B"));
    let mut findings = Vec::new();
    let mut count = 0;
    for row in cases {
        count += 1;
        let named: Vec<_> = tests_named_in(row).collect();
        if named.is_empty() && !row.contains("later:") {
            findings.push(format!("neither a test nor what it waits for: {row}"));
        }
        findings
            .extend(named.iter().filter(|name| !exists(name)).map(|name| format!("no such test: {name}")));
    }
    assert!(count > 0, "docs/testing.md has no table of field cases");
    files::none(&findings, "field cases of docs/testing.md without a test");
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let exists = existing();
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
