use std::fs;

use bytes::Bytes;

use super::*;

fn point(index: u64) -> LogPoint {
    LogPoint { index, id: Bytes::from_static(b"id") }
}

fn entry(index: u64) -> SnapshotEntry {
    SnapshotEntry { file: format!("snap-{index}"), index, bytes: 5, created_ms: 6 }
}

/// A folder whose store knows one witness and one snapshot.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = SledNodeStore::open(folder.path()).unwrap();
    store.set_witness(point(7));
    store.add_snapshot(entry(3));
    store.add_snapshot(entry(5));
    store.remove_snapshot("snap-3");
    assert_eq!(store.witness(), Some(point(7)));
    folder
}

#[test]
fn what_it_was_told_is_there_when_it_is_opened_again() {
    let folder = filled();
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!((store.witness(), store.snapshots()), (Some(point(7)), vec![entry(5)]));
    assert_eq!(store.health(), NodeStoreHealth::default());
}

#[test]
fn a_damaged_store_is_set_aside_and_a_new_one_begun() {
    let folder = filled();
    for entry in fs::read_dir(folder.path().join("node-store")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            let mut bytes = fs::read(entry.path()).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
            fs::write(entry.path(), bytes).unwrap();
        }
    }

    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!((store.witness(), store.snapshots()), (None, vec![]));
    assert_eq!(store.health(), NodeStoreHealth { set_aside: 1, stopped: false });
    assert!(folder.path().join("node-store.damaged-1").is_dir());
    store.set_witness(point(9));
    drop(store);
    assert_eq!(SledNodeStore::open(folder.path()).unwrap().witness(), Some(point(9)));
}

#[test]
fn a_store_that_sled_finds_empty_but_once_had_content_is_damaged() {
    let folder = filled();
    fs::write(folder.path().join("node-store").join("db"), b"").unwrap();
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!(store.health(), NodeStoreHealth { set_aside: 1, stopped: false });
}

#[test]
fn a_half_written_file_of_sleds_does_not_keep_it_from_opening() {
    let folder = filled();
    fs::write(folder.path().join("node-store").join("snap.0000000000000009.generating"), b"half").unwrap();
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!(store.witness(), Some(point(7)));
}

#[test]
fn a_store_that_cannot_be_opened_is_done_without() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("node-store"), b"a file where a folder should be").unwrap();
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert!(store.health().stopped);
    store.set_witness(point(9));
    assert_eq!(store.witness(), Some(point(9)), "it still remembers while it runs");
}

#[test]
fn blocks_of_the_past_are_found_before_and_after_they_are_written_and_the_oldest_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let block = |number: u64| (number, Bytes::from(vec![number as u8; 100]));
    let store = SledNodeStore::open(folder.path()).unwrap();
    store.keep_past((1..=5).map(|n| block(n * 10)).collect());
    assert_eq!(store.past_before(u64::MAX), Some(block(50)));
    drop(store);
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!(store.past_extent(), PastExtent { blocks: 5, last: 50 });
    store.keep_past(vec![block(60)]);
    let all = |store: &SledNodeStore| -> Vec<u64> {
        let next = |number: &u64| store.past_before(*number).map(|(number, _)| number);
        std::iter::successors(next(&u64::MAX), next).collect()
    };
    assert_eq!(all(&store), [60, 50, 40, 30, 20, 10]);
    store.forget_past(2);
    drop(store);
    let store = SledNodeStore::open(folder.path()).unwrap();
    assert_eq!((store.oldest_past(), all(&store)), (Some(block(30)), vec![60, 50, 40, 30]));
}
