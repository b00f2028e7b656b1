//! What is kept of what happened, for those who come late.

use holdfast_core::{EVENTS_KEPT, Event, Fence, Group, LockName, Op, SnapshotReader};

use crate::deed::{ALICE, BOB, acquire, release};
use crate::story::Story;

fn numbers<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<u64> {
    events.map(|event| event.seq).collect()
}

/// So many grants and releases, a hundred to an entry.
fn busy(story: &mut Story, rounds: usize) {
    for round in 0..rounds as u64 {
        let deeds: Vec<_> =
            (0..50).map(|n| n.to_string()).flat_map(|n| [acquire(ALICE, &n), release(ALICE, &n)]).collect();
        // The token of a released attempt is spent: another one for each round.
        let deeds: Vec<_> = deeds.into_iter().map(|deed| deed.token(&round.to_string())).collect();
        story.do_together(round, &deeds);
    }
}

#[test]
fn whoever_comes_late_gets_all_that_he_has_missed() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    let seen = story.table.seq();
    story.queues(10, acquire(BOB, "db").wait_ms(9_000));
    story.releases(20, release(ALICE, "db"));
    let history = story.table.event_history();
    assert_eq!(numbers(history.after(seen).unwrap()), [2, 3, 4]);
    assert_eq!(numbers(history.after(4).unwrap()), [0; 0]);
    // Whatever is still to come, nobody has missed.
    assert_eq!(numbers(history.after(99).unwrap()), [0; 0]);
}

#[test]
fn a_gap_that_is_too_old_is_told_and_never_left_out_silently() {
    let mut story = Story::default();
    busy(&mut story, EVENTS_KEPT / 100 + 2);
    let history = story.table.event_history();
    let first = history.seq() - EVENTS_KEPT as u64;
    assert!(first > 1);
    assert!(history.after(first - 1).is_none());
    assert_eq!(history.after(first).unwrap().count(), EVENTS_KEPT);
}

#[test]
fn a_restored_table_has_the_same_past() {
    let mut story = Story::default();
    busy(&mut story, 3);
    let mut reader = SnapshotReader::default();
    let mut view = story.table.snapshot();
    std::iter::from_fn(|| view.next_piece()).for_each(|piece| reader.push(&piece).unwrap());
    let restored = reader.finish().unwrap();
    let all = |table: &holdfast_core::LockTable| -> Vec<Event> {
        table.event_history().after(0).unwrap().cloned().collect()
    };
    assert_eq!(all(&restored), all(&story.table));
}

#[test]
fn the_highest_fence_of_a_lock_is_known_when_it_is_free_again() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    story.releases(10, release(ALICE, "db"));
    story.grants(20, acquire(BOB, "web"));
    let history = story.table.event_history();
    assert_eq!(history.highest_fence(&LockName::new("db").unwrap()), Some(Fence(1)));
    assert_eq!(history.highest_fence(&LockName::new("other").unwrap()), None);
}

#[test]
fn what_the_clock_on_the_wall_showed_is_told_with_a_past_moment() {
    let mut story = Story::default();
    story.leader_does(1_000, Op::TellWallClock { unix_ms: 1_700_000_000_000 }).unwrap();
    story.tick(5_000);
    assert_eq!(story.table.wall_clock(holdfast_core::ClusterTime(4_000)), Some(1_700_000_003_000));
    let group = Group { now: story.table.now(), ops: Vec::new() };
    assert_eq!(story.table.apply(&group).events, []);
}
