//! The demo and the instances as their users run them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the test runner shows what a failed test said"
)]

use std::process::{Command, Output};

use private_databases::PrivatePostgres;

fn invoices(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_invoices")).args(args).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn assert_passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = said.lines().last().unwrap_or_default();
    assert!(verdict.starts_with("VERDICT: PASS, all 14 checks"), "{verdict}");
    assert!(output.status.success(), "{}", output.status);
}

#[test]
fn the_demo_passes_on_sqlite() {
    assert_passed(&invoices(&["demo", "--dev"]));
}

#[test]
fn the_demo_passes_on_postgres() {
    let Some(postgres) = PrivatePostgres::start() else { return };
    assert_passed(&invoices(&["demo", "--dev", "--db", &postgres.new_database("demo")]));
}

#[test]
fn a_demo_without_its_cluster_fails_and_says_so() {
    // Whoever closes every connection unanswered is no cluster. The port stays taken, so that nobody else serves there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let output = invoices(&["demo", "--endpoints", &nobody]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("VERDICT: FAIL") && said.contains("no endpoint gave a usable answer"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
