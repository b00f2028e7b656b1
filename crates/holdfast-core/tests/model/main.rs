//! The table against a naive model, on random scripts.
//!
//! A failure prints the shortest script found that still fails, as a story, and what table and model say of it.
//! `PROPTEST_CASES=100000` looks for longer.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without has to be there")]

mod cycles;
mod invariants;
mod many;
mod naive;
mod replay;
mod script;
mod sessions;
mod terms;
mod versus;

use proptest::test_runner::Config;

/// At least this many scripts, and more if the environment asks for them.
fn config(cases: u32) -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(cases),
        failure_persistence: None,
        max_shrink_iters: 100_000,
        ..default
    }
}

proptest::proptest! {
    #![proptest_config(config(3_000))]

    /// Outcomes, events and views are those of the model, and no invariant is ever broken.
    #[test]
    fn the_table_does_what_the_naive_model_does(script in script::scripts()) {
        versus::run(&script)?;
    }

    /// The same log gives the same digest on every replica, with or without a snapshot in between.
    #[test]
    fn a_replica_that_restored_a_snapshot_goes_on_as_the_others(script in script::scripts()) {
        replay::run(&script)?;
    }
}
