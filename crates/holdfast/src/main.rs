//! The one binary: every subcommand.
fn main() {}
