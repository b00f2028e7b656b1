//! Histories of a naive service: those of a right one are clean, and what is wrong with a wrong one is found.

mod naive;

use holdfast_history::format::Header;
use holdfast_history::{Check, History, Verdict, check};
use naive::{Bug, Plan, run};
use proptest::prelude::*;

/// Seeds within which each bug must be found.
const SEEDS: u64 = 40;

fn history(plan: Plan) -> History {
    History::new(Header::of_one_clock("simulated"), run(plan)).expect("a run writes a history")
}

fn plan(seed: u64, bug: Bug) -> Plan {
    Plan { seed, bug, clients: 6, locks: 3, operations: 500 }
}

fn first_found(bug: Bug, by: Check) -> Option<u64> {
    (0..SEEDS).find(|seed| check(&history(plan(*seed, bug))).of(by).next().is_some())
}

#[track_caller]
fn assert_finds(by: Check, bug: Bug) {
    assert!(first_found(bug, by).is_some(), "{} does not find that a service {bug:?}", by.name());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
    #[test]
    fn the_history_of_a_right_service_is_clean(
        seed in any::<u64>(), clients in 1..12_usize, locks in 1..5_u64, operations in 1..600_u64,
    ) {
        let verdict = check(&history(Plan { seed, bug: Bug::None, clients, locks, operations }));
        prop_assert!(verdict.is_clean(), "{:#?}", verdict.violations);
    }

    #[test]
    fn the_history_of_a_right_service_is_clean_where_clocks_cannot_be_compared(seed in any::<u64>()) {
        let header = Header::of_many_clocks();
        let history = History::new(header, run(plan(seed, Bug::None))).expect("a run writes a history");
        let verdict = check(&history);
        prop_assert!(verdict.is_clean(), "{:#?}", verdict.violations);
    }

    #[test]
    fn an_answer_that_is_lost_on_the_way_to_the_history_changes_nothing(seed in any::<u64>(), kept in 2..20_usize) {
        let entries = run(plan(seed, Bug::None)).into_iter().enumerate();
        let is_kept = |(at, entry): &(usize, _)| {
            !matches!(entry, holdfast_history::format::Entry::Complete(_)) || at % kept != 0
        };
        let entries = entries.filter(is_kept).map(|(_, entry)| entry);
        let history = History::new(Header::of_one_clock("simulated"), entries).expect("a run writes a history");
        let verdict = check(&history);
        prop_assert!(verdict.is_clean(), "{:#?}", verdict.violations);
    }
}

#[test]
fn the_histories_have_everything_in_them_that_is_checked() {
    let verdict: Verdict =
        check(&history(Plan { seed: 1, bug: Bug::None, clients: 8, locks: 3, operations: 2_000 }));
    let counts = verdict.counts;
    assert!(
        counts.unknown > 20 && counts.refused > 100 && counts.reads > 100 && counts.grants > 100,
        "{counts:?}"
    );
    assert!(verdict.not_made.is_empty(), "{:?}", verdict.not_made);
}

#[test]
fn a_service_that_expires_leases_early_is_found() {
    assert_finds(Check::OneHolder, Bug::ExpiresAtHalfOfTheTtl);
    assert_finds(Check::NoEarlyGrant, Bug::ExpiresAtHalfOfTheTtl);
    assert_finds(Check::NothingLost, Bug::ExpiresAtHalfOfTheTtl);
}

#[test]
fn a_service_that_expires_leases_late_is_found() {
    assert_finds(Check::NoLateExpiry, Bug::ExpiresTwoSecondsLate);
}

#[test]
fn a_service_that_grants_what_is_held_is_found() {
    assert_finds(Check::OneHolder, Bug::GrantsWhatIsHeld);
    assert_finds(Check::NoEarlyGrant, Bug::GrantsWhatIsHeld);
}

#[test]
fn a_service_whose_fences_go_back_is_found() {
    assert_finds(Check::FenceOrder, Bug::FencesGoBack);
    assert_finds(Check::OneEffect, Bug::FencesGoBack);
}

#[test]
fn a_service_that_forgets_holds_is_found() {
    assert_finds(Check::NothingLost, Bug::ForgetsHolds);
    assert_finds(Check::Linearizable, Bug::ForgetsHolds);
}

#[test]
fn a_service_that_revives_expired_holds_is_found() {
    assert_finds(Check::NoRevival, Bug::RevivesExpiredHolds);
}

#[test]
fn a_service_that_reads_what_was_is_found() {
    assert_finds(Check::Linearizable, Bug::ReadsAreStale);
}

#[test]
fn a_service_that_serves_who_came_last_is_found() {
    assert_finds(Check::QueueOrder, Bug::LastComeFirstServed);
}

#[test]
fn a_service_that_grants_retries_anew_is_found() {
    assert_finds(Check::OneEffect, Bug::RetriesAreGrantedAnew);
}

#[test]
fn a_service_that_refuses_a_second_release_is_found() {
    assert_finds(Check::OneEffect, Bug::SecondReleaseIsRefused);
}

#[test]
fn a_service_that_releases_for_anybody_is_found() {
    assert_finds(Check::NothingLost, Bug::ReleasesForAnybody);
}

#[test]
fn a_service_that_lets_readers_in_to_writers_is_found() {
    assert_finds(Check::OneHolder, Bug::LetsReadersInToWriters);
    assert_finds(Check::NoEarlyGrant, Bug::LetsReadersInToWriters);
    assert_finds(Check::Linearizable, Bug::LetsReadersInToWriters);
}

#[test]
fn a_service_that_lets_readers_pass_writers_is_found() {
    assert_finds(Check::QueueOrder, Bug::LetsReadersPassWriters);
}

#[test]
fn a_service_that_gives_a_permit_too_many_is_found() {
    assert_finds(Check::OneHolder, Bug::GivesAPermitTooMany);
    assert_finds(Check::NoEarlyGrant, Bug::GivesAPermitTooMany);
}

#[test]
fn a_service_that_serves_small_requests_first_is_found() {
    assert_finds(Check::QueueOrder, Bug::ServesSmallRequestsFirst);
}

#[test]
fn a_service_that_ignores_limits_is_found() {
    assert_finds(Check::NoEarlyGrant, Bug::IgnoresLimits);
}

#[test]
fn a_service_that_expires_all_shares_at_once_is_found() {
    assert_finds(Check::NothingLost, Bug::ExpiresAllSharesAtOnce);
}

#[test]
fn a_service_that_forgets_how_many_permits_somebody_has_is_found() {
    assert_finds(Check::NothingLost, Bug::ForgetsHowManyPermits);
    assert_finds(Check::OneHolder, Bug::ForgetsHowManyPermits);
}
