//! The demo as its users run it.

use std::process::Command;

#[test]
fn the_demo_passes() {
    let output = Command::new(env!("CARGO_BIN_EXE_leader")).args(["demo", "--dev"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    let verdict = said.lines().last().unwrap_or_default();
    assert!(verdict.starts_with("VERDICT: PASS, all 8 checks"), "{verdict}");
    assert!(output.status.success(), "{}", output.status);
}
