//! Names of locks, listings of them, and what has a limit.

use holdfast_core::{LockName, LockTable, Metadata, NameError, Owner, Ttl, Wait};

use crate::deed::{ALICE, BOB, CAROL, acquire, release};
use crate::story::Story;

const NAMES: [&str; 6] = ["a", "a/", "a/1", "a1", "ab", "a/b/c"];

#[test]
fn a_lock_does_not_care_for_others_whose_names_begin_with_its_own() {
    for taken in NAMES {
        let mut story = Story::default();
        story.grants(0, acquire(ALICE, taken));
        story.queues(0, acquire(CAROL, taken).wait_ms(9_000));
        for other in NAMES.iter().filter(|name| **name != taken) {
            story.grants(1, acquire(BOB, other));
        }
        let before = story.table.seq();
        story.releases(2, release(ALICE, taken));
        assert_eq!(story.holder(taken).as_deref(), Some("carol"));
        assert_eq!(story.table.seq() - before, 2);
    }
}

#[test]
fn names_that_look_alike_are_different_locks() {
    let names = [
        "/a", "a/", "a//b", "a/b", "a%2Fb", "a%252Fb", "../a", ".", "..", "a b", "a+b", "a@b:c", "a?b",
        "a#b", "🔒", "\u{e9}", "e\u{301}", "A", "ß", "ss",
    ];
    let mut story = Story::default();
    for name in names {
        story.grants(0, acquire(ALICE, name));
    }
    let listed = listed(&story.table, "", None, 1_000);
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(listed.0, expected);
}

fn listed(
    table: &LockTable,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> (Vec<String>, Option<String>) {
    let page = table.list(prefix, after, limit, table.now());
    assert_eq!(page.seq, table.seq());
    let names = page.locks.iter().map(|lock| lock.name.to_string()).collect();
    (names, page.next.map(|name| name.to_string()))
}

fn six_locks() -> LockTable {
    let mut story = Story::default();
    for name in NAMES {
        story.grants(0, acquire(ALICE, name));
    }
    story.table
}

#[test]
fn a_prefix_lists_exactly_the_names_that_begin_with_it_in_order_of_bytes() {
    let table = six_locks();
    assert_eq!(listed(&table, "a", None, 100).0, ["a", "a/", "a/1", "a/b/c", "a1", "ab"]);
    assert_eq!(listed(&table, "a/", None, 100).0, ["a/", "a/1", "a/b/c"]);
    assert_eq!(listed(&table, "ab", None, 100).0, ["ab"]);
    assert_eq!(listed(&table, "a/c", None, 100), (vec![], None));
    assert_eq!(listed(&table, "b", None, 100), (vec![], None));
}

#[test]
fn pages_follow_one_another_without_gap_or_overlap() {
    let table = six_locks();
    for limit in 1..8 {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (names, next) = listed(&table, "a", after.as_deref(), limit);
            assert!(names.len() <= limit);
            all.extend(names);
            match next {
                Some(name) => after = Some(name),
                None => break,
            }
        }
        assert_eq!(all, ["a", "a/", "a/1", "a/b/c", "a1", "ab"]);
    }
}

#[test]
fn a_page_begins_after_the_given_name_even_if_that_is_no_lock_or_lies_outside_the_prefix() {
    let table = six_locks();
    assert_eq!(listed(&table, "a/", Some("a/0"), 100).0, ["a/1", "a/b/c"]);
    assert_eq!(listed(&table, "a/", Some("Z"), 100).0, ["a/", "a/1", "a/b/c"]);
    assert_eq!(listed(&table, "a/", Some("b"), 100), (vec![], None));
    assert_eq!(listed(&table, "a/", None, 0), (vec![], None));
}

#[test]
fn a_lock_that_nobody_wants_is_listed_no_more_and_reads_as_free() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db").ttl_ms(1_000));
    story.tick(1_000);
    assert_eq!(listed(&story.table, "", None, 10), (vec![], None));
    assert_eq!(story.lock("db"), story.table.view(&LockName::new("db").unwrap(), story.table.now()));
    assert!(story.lock("db").holders.is_empty());
}

#[test]
fn counts_tell_held_locks_and_waiters() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "a"));
    story.grants(0, acquire(ALICE, "b"));
    story.queues(0, acquire(BOB, "b").wait_ms(60_000));
    story.queues(0, acquire(CAROL, "b").wait_ms(60_000));
    assert_eq!(story.table.counts(), (2, 2));
    story.kill(2);
    story.kill(3);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "b")); // Free, with two waiters that are away.
    assert_eq!(story.table.counts(), (1, 2));
}

#[test]
fn at_most_a_hundred_waiters_are_listed_and_all_are_counted() {
    let mut story = Story::default();
    story.grants(0, acquire(ALICE, "db"));
    for n in 0..150 {
        story.queues(0, acquire(BOB, "db").token(&format!("{n}")).owner(&format!("w{n}")).wait_ms(9_000));
    }
    let lock = story.lock("db");
    assert_eq!((lock.queue.len(), lock.queue_length), (100, 150));
    assert_eq!(lock.queue[99].owner.as_str(), "w99");
}

#[test]
fn a_view_shows_what_everybody_may_see() {
    let mut story = Story::default();
    story.grants(1_000, acquire(ALICE, "db").ttl_ms(10_000).metadata(r#"{"job":7}"#));
    story.queues(2_000, acquire(BOB, "db").wait_ms(9_000));
    story.tick(3_500);
    let lock = story.lock("db");
    let holder = &lock.holders[0];
    assert_eq!((holder.owner.as_str(), holder.fence.0, holder.ttl.ms()), ("alice", 1, 10_000));
    assert_eq!((holder.expires_in_ms, holder.held_ms), (7_500, 2_500));
    assert_eq!(holder.metadata.as_json(), r#"{"job":7}"#);
    assert_eq!((lock.queue[0].owner.as_str(), lock.queue[0].waiting_ms), ("bob", 1_500));
    assert_eq!(lock.seq, 2);
}

#[test]
fn what_is_out_of_range_is_refused_with_the_limits_in_the_unit_of_the_request() {
    let ttl = Ttl::from_ms(0).unwrap_err().to_string();
    assert_eq!(ttl, "must be between 100 and 86400000 milliseconds, got 0");
    assert_eq!(
        Wait::from_ms(600_001).unwrap_err().to_string(),
        "must be between 0 and 600000 milliseconds, got 600001"
    );
    assert_eq!(Owner::new(&"x".repeat(257)), Err(NameError::TooLong { len: 257, max: 256 }));
    assert_eq!(Owner::new("").unwrap_err().to_string(), "must not be empty");
    assert_eq!(Owner::new("a\u{7f}").unwrap_err(), NameError::Control(0x7f));
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1_017));
    assert_eq!(Metadata::new(&long), Err(NameError::TooLong { len: 1_025, max: 1_024 }));
    assert!(Metadata::new(&long.replacen('x', "", 1)).is_ok());
}

#[test]
fn a_limit_counts_bytes_not_characters() {
    assert!(LockName::new(&"é".repeat(256)).is_ok());
    assert_eq!(LockName::new(&"é".repeat(257)), Err(NameError::TooLong { len: 514, max: 512 }));
}
