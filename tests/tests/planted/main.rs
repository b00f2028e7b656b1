//! Bugs that are planted are found, each within so many seeds. With `--nocapture` each test prints how.

use holdfast_core::planted::{Bug, plant};
use holdfast_tests::sim::{Plan, Profile, simulate};

/// Most seeds that a bug may take.
const SEEDS_MAX: u64 = 200;

macro_rules! found {
    ($($test:ident: $bug:ident in $profile:ident;)*) => {
        $(
            #[test]
            fn $test() {
                find(Bug::$bug, Profile::$profile);
            }
        )*

        #[test]
        fn every_bug_has_its_test() {
            let tested = [$(Bug::$bug),*];
            let forgotten: Vec<_> = Bug::ALL.into_iter().filter(|bug| !tested.contains(bug)).collect();
            assert_eq!(forgotten, []);
        }
    };
}

found! {
    a_fence_that_a_snapshot_resets: FenceResetBySnapshot in Storage;
    a_fence_that_is_kept_in_memory_only: FenceKeptInMemory in Storage;
    a_waiter_that_is_granted_twice: WaiterGrantedTwice in Mixed;
    a_waiter_that_a_snapshot_loses: WaiterLostInSnapshot in Storage;
    a_release_that_is_matched_by_owner: ReleaseMatchedByOwner in Mixed;
    a_renewal_that_revives_an_expired_lease: RenewalRevivesExpiredLease in Mixed;
    a_token_that_is_forgotten_too_early: TokenForgottenTooEarly in Mixed;
    a_queue_that_is_served_last_first: QueueServedLastFirst in Mixed;
    a_wait_whose_deadline_is_ignored: WaitDeadlineIgnored in Mixed;
    a_renewal_that_adds_its_ttl: RenewalAddsTtl in Mixed;
    gone_waiters_that_are_never_skipped: GoneWaitersNeverSkipped in Mixed;
    a_lease_that_begins_with_the_wait: LeaseBeginsWithTheWait in Mixed;
    a_repeated_acquire_that_grants_anew: RepeatedAcquireGrantsAnew in Mixed;
    an_attempt_that_any_call_of_it_abandons: AnyCallAbandons in Network;
    a_vote_that_is_not_synced: VoteNotSynced in Storage;
    a_log_that_is_acknowledged_before_its_sync: LogAcknowledgedBeforeSync in Storage;
    a_purge_beyond_the_snapshot: PurgeBeyondSnapshot in Storage;
    a_snapshot_that_is_installed_amid_an_apply: SnapshotInstalledAmidApply in Storage;
    a_lease_that_is_judged_by_a_wall_clock: LeaseJudgedByWallClock in Mixed;
    a_deposed_leader_that_expires_leases: DeposedLeaderExpires in Network;
    an_old_leader_that_reads_stale: OldLeaderReadsStale in Network;
    a_claim_that_no_leader_confirms: ClaimNotConfirmed in Network;
    a_leader_whose_clock_begins_at_zero: LeaderClockFromZero in Mixed;
    unclaimed_grants_that_are_never_taken_back: UnclaimedNeverTakenBack in Storage;
    a_renewal_that_is_answered_before_it_is_committed: RenewalAnsweredBeforeCommit in Network;
    an_unknown_outcome_that_is_taken_for_no_effect: UnknownTakenForNoEffect in Mixed;
    writers_that_are_let_in_beside_each_other: WritersShare in Mixed;
    a_writer_that_is_let_in_beside_readers: WriterBesideReaders in Mixed;
    a_reader_that_is_let_in_past_a_waiting_writer: ReaderPassesWriter in Mixed;
    permits_of_which_each_holder_counts_as_one: PermitsCountedByHolders in Mixed;
    permits_that_a_snapshot_forgets: PermitsLostInSnapshot in Storage;
    a_limit_that_a_snapshot_forgets: LimitLostInSnapshot in Storage;
    small_requests_that_are_served_before_a_large_one: SmallRequestsServedFirst in Mixed;
    a_limit_that_conflicts_and_is_not_noticed: LimitConflictUnnoticed in Mixed;
    an_expiry_that_ends_all_shares: ExpiryEndsAllShares in Mixed;
    a_session_whose_end_frees_one_hold_of_several: SessionEndFreesHalf in Mixed;
    a_session_that_is_let_in_amid_its_own_end: SessionEndLetsItselfIn in Mixed;
    a_session_that_one_of_its_waiters_extends: SessionExtendedByWaiter in Mixed;
    an_attempt_at_many_that_is_granted_one_of_them: ManyGrantedInHalf in Mixed;
    a_renewal_of_many_that_renews_the_first: RenewalOfManyRenewsFirst in Mixed;
    a_cycle_that_is_seen_in_one_order_of_arrival: CycleSeenInOneOrder in Mixed;
    cycles_through_attempts_at_many_that_are_not_seen: CyclesThroughManyUnseen in Mixed;
    a_leader_that_leads_on_beside_its_successor: HandOverKeepsOldLeader in Mixed;
    a_lead_that_goes_to_another_than_the_chosen_one: HandOverToAnyCandidate in Mixed;
    a_proclamation_that_renews: ProclaimRenews in Mixed;
    an_event_that_a_snapshot_loses: EventLostInSnapshot in Storage;
    an_event_that_is_told_again_after_a_snapshot: EventRepeatedAfterSnapshot in Storage;
    an_entry_of_which_the_rest_is_never_told: RestOfEntryUntold in Mixed;
    a_forced_hold_that_its_owner_renews: ForcedHoldRenewed in Mixed;
    a_force_that_ends_whoever_holds: ForceIgnoresFence in Mixed;
    a_delay_that_a_snapshot_forgets: DelayLostInSnapshot in Storage;
    a_run_that_a_snapshot_forgets: DoneLostInSnapshot in Storage;
    a_run_that_is_done_and_not_noted: DoneNotNoted in Mixed;
    a_longest_hold_that_renewals_pass: MaxHoldPassedByRenewal in Mixed;
}

fn find(bug: Bug, profile: Profile) {
    for seed in 1..=SEEDS_MAX {
        plant(Some(bug));
        let report = simulate(&Plan::of(seed, profile));
        plant(None);
        if let Some(violation) = report.violations.first() {
            println!("| `{bug:?}` | {} | {seed} | {profile} | {:.300}", violation.invariant, violation.what);
            return;
        }
    }
    panic!("{bug:?} was not found within {SEEDS_MAX} seeds of the profile {profile}");
}
