//! What `guards/object-write` promises.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use tempfile::NamedTempFile;

use crate::object_store::ObjectStore;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guards/object-write");
const WRITTEN: Option<i32> = Some(0);
const FAILED: Option<i32> = Some(1);
const USAGE: Option<i32> = Some(64);
const STALE: Option<i32> = Some(76);

/// Starts a write of one holder.
fn start(store: &ObjectStore, fence: &str, content: &str) -> Writer {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let mut command = Command::new(SCRIPT);
    command.arg(store.url("report")).arg(fence).arg(file.path()).stdin(Stdio::null());
    command.env("no_proxy", "*");
    Writer { script: command.spawn().unwrap(), _file: file }
}

/// The script at work, and the file that it reads.
struct Writer {
    script: Child,
    _file: NamedTempFile,
}

impl Writer {
    fn end(mut self) -> Option<i32> {
        self.script.wait().unwrap().code()
    }
}

fn write(store: &ObjectStore, fence: i64, content: &str) -> Option<i32> {
    start(store, &fence.to_string(), content).end()
}

fn content(store: &ObjectStore) -> String {
    store.get("report").unwrap()
}

#[test]
fn an_object_is_not_overwritten_under_an_older_fence() {
    let store = ObjectStore::start();
    for (fence, text) in [(3, "a\n"), (3, "b\n"), (10, "it's \"c\"\n")] {
        assert_eq!(write(&store, fence, text), WRITTEN);
        assert_eq!(content(&store), format!("fence: {fence}\n{text}"));
    }
    assert_eq!(write(&store, 9, "late\n"), STALE);
    assert_eq!(content(&store), "fence: 10\nit's \"c\"\n");
}

#[test]
fn an_object_write_that_was_overtaken_on_its_way_is_refused_by_its_condition() {
    for is_there in [false, true] {
        let store = ObjectStore::start();
        if is_there {
            assert_eq!(write(&store, 1, "first"), WRITTEN);
        }
        let gate = store.hold_the_next_put();
        let late = start(&store, "2", "late");
        gate.wait_for_the_put();
        assert_eq!(write(&store, 3, "new"), WRITTEN);
        drop(gate);
        assert_eq!(late.end(), STALE);
        assert_eq!(content(&store), "fence: 3\nnew");
    }
}

/// A tag of the content alone would not show it, were the fence kept beside the content.
#[test]
fn an_object_that_is_written_again_with_the_same_content_refuses_those_who_read_it_before() {
    let store = ObjectStore::start();
    assert_eq!(write(&store, 1, "the same"), WRITTEN);
    let gate = store.hold_the_next_put();
    let late = start(&store, "2", "late");
    gate.wait_for_the_put();
    assert_eq!(write(&store, 3, "the same"), WRITTEN);
    drop(gate);
    assert_eq!(late.end(), STALE);
    assert_eq!(content(&store), "fence: 3\nthe same");
}

#[test]
fn a_newer_object_write_that_was_overtaken_by_an_older_one_tries_again() {
    let store = ObjectStore::start();
    let gate = store.hold_the_next_put();
    let newer = start(&store, "3", "new");
    gate.wait_for_the_put();
    assert_eq!(write(&store, 2, "old"), WRITTEN);
    drop(gate);
    assert_eq!(newer.end(), WRITTEN);
    assert_eq!(content(&store), "fence: 3\nnew");
}

#[test]
fn the_older_of_two_object_writes_at_once_never_lands_on_the_newer_one() {
    let store = ObjectStore::start();
    for round in 1..=20 {
        let (older, newer) = (2 * round, 2 * round + 1);
        let (older, newer) =
            (start(&store, &older.to_string(), "old"), start(&store, &newer.to_string(), "new"));
        assert_eq!(newer.end(), WRITTEN);
        let older = older.end();
        assert!(older == WRITTEN || older == STALE, "{older:?}");
        assert_eq!(content(&store), format!("fence: {}\nnew", 2 * round + 1));
    }
}

#[test]
fn an_object_without_a_fence_is_left_alone() {
    let store = ObjectStore::start();
    for theirs in ["somebody else's", "", "fence: many\n", "fence: 1 \n"] {
        store.put("report", theirs);
        assert_eq!(write(&store, 1, "ours"), FAILED);
        assert_eq!(content(&store), theirs);
    }
}

#[test]
fn what_is_no_fence_writes_no_object() {
    let store = ObjectStore::start();
    for fence in ["0", "-1", "", "7a", "08", "12345678901234567"] {
        assert_eq!(start(&store, fence, "ours").end(), USAGE, "{fence}");
    }
    assert_eq!(store.get("report"), None);
}
