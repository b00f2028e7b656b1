//! Tests wait for conditions, not for time, and take the ports that are free.

use std::path::{Path, PathBuf};

use crate::files;

/// Where waiting is done for everybody, by looking again until a deadline, or where time itself is under test.
const MAY_SLEEP: [&str; 1] = ["tests/src/eventually.rs"];

fn is_test(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("tests.rs")
}

fn lines_of_tests() -> Vec<(PathBuf, usize, String)> {
    let mut lines = Vec::new();
    for path in files::with_ending(".rs") {
        if !is_test(&path) || path.starts_with("tests/tests/repository") {
            continue;
        }
        for (number, line) in (1..).zip(files::text(&path).lines()) {
            lines.push((path.clone(), number, line.to_owned()));
        }
    }
    lines
}

#[test]
fn no_test_sleeps_to_wait() {
    let mut findings = Vec::new();
    for (path, number, line) in lines_of_tests() {
        // A sleep that a comment in its line explains is no waiting: it looks again until a deadline, or time is under
        // test. A `sleep` in a shell line is a child under test.
        let sleeps = line.contains("thread::sleep(") || line.contains("tokio::time::sleep(");
        if sleeps && !line.contains("// ") && !MAY_SLEEP.iter().any(|allowed| path == Path::new(allowed)) {
            findings.push(format!("{}:{number}: {}", path.display(), line.trim()));
        }
    }
    files::none(&findings, "tests that sleep instead of waiting for a condition");
}

#[test]
fn no_test_uses_a_fixed_port() {
    let mut findings = Vec::new();
    for (path, number, line) in lines_of_tests() {
        let code = line.split("//").next().unwrap();
        for host in ["127.0.0.1:", "localhost:", "[::1]:"] {
            let after = code.split(host).skip(1).filter_map(|rest| {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u32>().ok()
            });
            // Ports below 10 are nobody's: a test uses them where nothing must listen.
            if after.into_iter().any(|port| port >= 10) {
                findings.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    files::none(&findings, "tests with a fixed port");
}
