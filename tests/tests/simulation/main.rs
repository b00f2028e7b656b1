//! Seeds of the simulation.

use holdfast_tests::sim::{Profile, simulate};

const MIXED: Profile = Profile { nodes: 3, clients: 5, locks: 2, seconds: 20 };

#[test]
fn the_same_seed_gives_the_same_run() {
    let [first, second] = [simulate(1, MIXED), simulate(1, MIXED)];
    assert_eq!((first.trace, first.polls, first.lines), (second.trace, second.polls, second.lines));
}

#[test]
fn seeds_of_the_mixed_profile_show_no_violation() {
    show_logs_if_asked();
    let (from, count) = (number("HOLDFAST_SEED", 1), number("HOLDFAST_SEEDS", 4));
    for seed in from..from + count {
        let report = simulate(seed, MIXED);
        println!(
            "seed {seed}: {} lines, {} grants, {} of them waited, {} unknown, {} polls",
            report.lines, report.grants, report.waited_grants, report.unknown, report.polls
        );
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// `RUST_LOG` shows what the replicas say, which is a lot.
fn show_logs_if_asked() {
    if let Ok(filter) = std::env::var("RUST_LOG") {
        let _ = tracing_subscriber::fmt().without_time().with_env_filter(filter).with_ansi(false).try_init();
    }
}
