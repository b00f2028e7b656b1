//! Seeds of the simulation.

use holdfast_tests::sim::{Plan, Profile, simulate};

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let [first, second] = [simulate(&Plan::of(1, Profile::Mixed)), simulate(&Plan::of(1, Profile::Mixed))];
    assert!(first.trace.lines.len() > 1_000);
    assert_eq!(first.trace, second.trace);
}

#[test]
fn seeds_of_the_mixed_profile_show_no_violation() {
    let (from, count) = (number("HOLDFAST_SEED", 1), number("HOLDFAST_SEEDS", 4));
    for seed in from..from + count {
        let report = simulate(&Plan::of(seed, Profile::Mixed));
        println!("seed {seed}: {:?}", report.extent);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
