//! The demo and the workers as their users run them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the test runner shows what a failed test said"
)]

use std::process::{Command, Output};

fn warehouse(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_warehouse")).args(args).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_demo_passes() {
    let output = warehouse(&["demo", "--dev"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = said.lines().last().unwrap_or_default();
    assert!(verdict.starts_with("VERDICT: PASS, all 11 checks"), "{verdict}");
    assert!(output.status.success(), "{}", output.status);
}
