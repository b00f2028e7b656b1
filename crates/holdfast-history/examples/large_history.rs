//! Writes a long history of a naive lock service to standard output, to measure the checker with.
//!
//! usage: large_history OPERATIONS [LOCKS [CLIENTS]]
#![allow(clippy::print_stderr, reason = "it is a tool")]

#[path = "../tests/naive/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod naive;

use std::io::BufWriter;
use std::process::ExitCode;

use holdfast_history::Writer;
use holdfast_history::format::Header;
use naive::{Bug, Plan, run};

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let Some(operations) = numbers.first().copied() else {
        eprintln!("usage: large_history OPERATIONS [LOCKS [CLIENTS]]");
        return ExitCode::from(64);
    };
    let locks = numbers.get(1).copied().unwrap_or(20);
    let clients = numbers.get(2).and_then(|number| usize::try_from(*number).ok()).unwrap_or(50);
    let entries = run(Plan { seed: 1, bug: Bug::None, clients, locks, operations });
    let written = Writer::begin(BufWriter::new(std::io::stdout().lock()), &Header::of_one_clock("simulated"))
        .and_then(|mut writer| entries.iter().try_for_each(|entry| writer.write(entry)).and(writer.finish()));
    match written {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("large_history: {error}");
            ExitCode::FAILURE
        }
    }
}
