//! What a demo prints: a story line by line, its checks, and the verdict.

#![expect(clippy::print_stdout, reason = "the story is what a demo is for")]

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Instant;

/// The story of one demo. A check that fails is told at once, and turns the verdict.
#[derive(Debug)]
pub struct Story {
    began: Instant,
    checks: u32,
    failed: u32,
}

impl Story {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), checks: 0, failed: 0 }
    }

    /// Begins a chapter.
    pub fn chapter(&self, title: impl Display) {
        println!("\n{title}");
    }

    /// Tells something that nobody on the stage says.
    pub fn tell(&self, text: impl Display) {
        self.line("", text);
    }

    /// Tells what somebody said.
    pub(crate) fn line(&self, name: &str, text: impl Display) {
        let at = self.began.elapsed().as_secs_f64();
        println!("{at:>7.2} s  {name:<10}  {text}");
    }

    /// Notes whether a claim holds.
    pub fn check(&mut self, claim: impl Display, holds: bool) {
        self.checks += 1;
        if holds {
            println!("           ok          {claim}");
        } else {
            self.failed += 1;
            println!("           FAILED      {claim}");
        }
    }

    /// Prints the verdict; the exit code says the same.
    pub(crate) fn verdict(&self) -> ExitCode {
        let (checks, seconds) = (self.checks, self.began.elapsed().as_secs_f64());
        if self.failed == 0 && checks > 0 {
            println!("\nVERDICT: PASS, all {checks} checks, {seconds:.1} s");
            ExitCode::SUCCESS
        } else {
            println!("\nVERDICT: FAIL, {} of {checks} checks, {seconds:.1} s", self.failed);
            ExitCode::FAILURE
        }
    }

    /// Prints the verdict on a demo that could not be told to its end.
    pub(crate) fn broken_off(&self, why: impl Display) -> ExitCode {
        println!("\nVERDICT: FAIL, after {} checks: {why}", self.checks);
        ExitCode::FAILURE
    }
}
