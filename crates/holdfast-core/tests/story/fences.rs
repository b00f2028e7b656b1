//! The numbers of grants.

use holdfast_core::{Fence, LockName, LockTable, Op, Rejection, SnapshotReader};

use crate::deed::{ALICE, BOB, CAROL, abandon, acquire, release, renew};
use crate::story::Story;

fn restored(table: &LockTable) -> LockTable {
    let mut view = table.snapshot();
    let mut reader = SnapshotReader::default();
    while let Some(piece) = view.next_piece() {
        reader.push(&piece).unwrap();
    }
    reader.finish().unwrap()
}

#[test]
fn fences_go_up_by_one_over_all_locks_whatever_ends_the_holds() {
    let mut story = Story::default();
    let mut expected = 0;
    for round in 0..500_u64 {
        let (at_ms, lock) = (round * 200_000, ["a", "b", "c"][(round % 3) as usize]);
        let attempt = acquire(ALICE, lock).token(&format!("round {round}"));
        expected += 1;
        assert_eq!(story.grants(at_ms, attempt.clone()).fence, Fence(expected));
        match round % 4 {
            0 => story.abandons(at_ms, abandon(ALICE, lock).token(&format!("round {round}"))),
            // It expires, is forgotten, and the lock has no record any more.
            1 => assert!(!story.tick(at_ms + 150_000).is_nothing()),
            2 => story.table = restored(&story.table),
            _ => assert!(
                story.releases(at_ms, release(ALICE, lock).token(&format!("round {round}"))).is_some()
            ),
        }
    }
    assert_eq!(story.table.last_fence(), 500);
}

#[test]
fn reading_changes_no_number() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    let digest = story.table.digest();
    for _ in 0..10 {
        assert_eq!(story.lock("db").holders[0].fence, Fence(1));
        assert!(story.lock("never used").holders.is_empty());
        story.table.list("", None, 10, story.table.now());
    }
    assert_eq!((story.table.last_fence(), story.table.digest()), (1, digest));
}

#[test]
fn refusals_and_waiting_use_up_no_fence() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.refuses(0, acquire(BOB, "db"));
    story.queues(0, acquire(CAROL, "db").wait_ms(100));
    story.tick(200);
    story.releases(200, release(ALICE, "db"));
    assert_eq!(story.grants(200, acquire(BOB, "db").token("another")).fence, Fence(2));
}

#[test]
fn a_hold_keeps_its_fence_through_renewals_and_repeated_acquires() {
    let mut story = Story::default();
    let fence = story.grants(0, acquire(ALICE, "db")).fence;
    for n in 1..=3 {
        assert_eq!(story.renews(n, renew(ALICE, "db")).fence, fence);
        assert_eq!(story.grants(n, acquire(ALICE, "db")).fence, fence);
    }
    assert_eq!(story.releases(4, release(ALICE, "db")), Some(fence));
    assert_eq!(story.holder("db"), None); // No hidden count of how often it was acquired.
}

/// The owner is a label: another attempt of the same owner is somebody else's.
#[test]
fn the_same_owner_with_another_token_finds_the_lock_busy() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    let again = acquire(ALICE, "db").token("another");
    assert!(matches!(story.refuses(0, again.clone()), Rejection::Held { .. }));
    assert_eq!(story.queues(0, again.wait_ms(2_000)), 1);
    story.releases(1_000, release(ALICE, "db"));
    assert_eq!(story.lock("db").holders[0].fence, Fence(2));
}

/// A holder that was paused for longer than its lease can be told from the one who holds the lock now.
#[test]
fn only_the_last_grant_is_current() {
    let mut story = Story::default();
    let old = story.grants(0, acquire(ALICE, "db").ttl_ms(1_000)).fence;
    let new = story.grants(2_000, acquire(BOB, "db")).fence;
    let db = LockName::new("db").unwrap();
    assert!(new > old);
    assert!(!story.table.is_held_by(&db, old));
    assert!(story.table.is_held_by(&db, new));
    assert!(!story.table.is_held_by(&LockName::new("web").unwrap(), new));
}

#[test]
fn a_fence_is_compared_as_a_number() {
    assert!(Fence(10) > Fence(9));
    assert!(Fence::MAX > Fence(9_007_199_254_740_990));
}

/// A table whose last fence was `fence`.
fn table_after(fence: u64) -> LockTable {
    // Header of a snapshot: format, time, cluster, fence, ticket, seq, nodes, how many records of each kind follow, no
    // note of a wall clock.
    let header = (0_u8, 1_u16, 0_u64, None::<u128>, fence, 7_u64, 9_u64, (0_u8, [0_u8; 7]));
    let body = postcard::to_stdvec(&header).unwrap();
    let mut reader = SnapshotReader::default();
    reader.push(&(body.len() as u32).to_le_bytes()).unwrap();
    reader.push(&body).unwrap();
    reader.finish().unwrap()
}

#[test]
fn the_last_fence_is_the_last_grant() {
    let mut story = Story::default();
    story.table = table_after(Fence::MAX.0 - 1);
    assert_eq!(story.grants(0, acquire(ALICE, "db")).fence, Fence::MAX);
    assert_eq!(story.refuses(0, acquire(BOB, "web")), Rejection::FencesExhausted);
    story.queues(0, acquire(CAROL, "db").wait_ms(5_000));
    story.renews(1, renew(ALICE, "db"));
    story.releases(2, release(ALICE, "db"));
    // Nobody gets it, and nothing else goes wrong: the wait ends in its time.
    assert_eq!((story.holder("db"), story.queue("db")), (None, vec!["carol".to_owned()]));
    story.leader_does(3, Op::Vouch { node: holdfast_core::NodeId(2), boot: 1 }).unwrap();
    assert_eq!(story.tick(5_000).leavings_of(CAROL).len(), 1);
    assert_eq!(story.table.last_fence(), Fence::MAX.0);
}
