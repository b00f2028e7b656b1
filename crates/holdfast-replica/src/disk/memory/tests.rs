use futures_util::FutureExt;

use super::*;
use crate::disk::run;

fn create(file: &str) -> DiskOp {
    DiskOp::Create { file: file.into() }
}

fn append(file: &str, bytes: &'static [u8]) -> DiskOp {
    DiskOp::Append { file: file.into(), bytes: Bytes::from_static(bytes) }
}

fn sync(file: &str) -> DiskOp {
    DiskOp::Sync { file: file.into() }
}

fn do_all(disk: &MemoryDisk, ops: Vec<DiskOp>) -> io::Result<()> {
    run(disk, DiskLane::Log, ops).now_or_never().expect("a job in memory is over at once")
}

#[test]
fn a_crash_takes_unsynced_bytes_and_may_tear_the_last_write() {
    let disk = MemoryDisk::new();
    do_all(&disk, vec![create("a"), append("a", b"one"), sync("a"), DiskOp::SyncDir]).unwrap();
    do_all(&disk, vec![append("a", b"two"), append("a", b"three")]).unwrap();
    disk.crash(|unsynced| if unsynced == 8 { 5 } else { 0 });
    assert_eq!(disk.read_at("a", 0, 99).unwrap(), "onetwoth");
}

#[test]
fn a_crash_takes_names_whose_folder_was_not_synced() {
    let disk = MemoryDisk::new();
    do_all(&disk, vec![create("a"), append("a", b"one"), sync("a"), DiskOp::SyncDir]).unwrap();
    do_all(&disk, vec![DiskOp::Rename { from: "a".into(), to: "b".into() }, create("c")]).unwrap();
    let other = disk.copy();
    disk.crash(|_| 0);
    assert_eq!(disk.list().unwrap(), ["a"]);
    other.crash(|_| 0);
    assert_eq!(other.list().unwrap(), ["b", "c"]);
}

#[test]
fn a_cut_that_was_not_synced_may_come_undone() {
    for (kept, content) in [(0, "abcd"), (1, "ab")] {
        let disk = MemoryDisk::new();
        do_all(&disk, vec![create("a"), append("a", b"abcd"), sync("a"), DiskOp::SyncDir]).unwrap();
        do_all(&disk, vec![DiskOp::Truncate { file: "a".into(), len: 2 }]).unwrap();
        disk.crash(|unsynced| kept.min(unsynced));
        assert_eq!(disk.read_at("a", 0, 99).unwrap(), content);
    }
}

#[test]
fn jobs_wait_in_their_order_while_the_disk_is_full() {
    let disk = MemoryDisk::new();
    do_all(&disk, vec![create("a"), DiskOp::SyncDir]).unwrap();
    disk.set_capacity(Some(2));
    let mut first = Box::pin(run(&disk, DiskLane::Log, vec![append("a", b"abc"), sync("a")]));
    let mut second = Box::pin(run(&disk, DiskLane::Log, vec![append("a", b"d")]));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none(), "it would fit, but it is not its turn");
    disk.set_capacity(Some(4));
    first.now_or_never().unwrap().unwrap();
    second.now_or_never().unwrap().unwrap();
    disk.crash(|_| 0);
    assert_eq!(disk.read_at("a", 0, 99).unwrap(), "abc");
}

#[test]
fn a_crash_forgets_jobs_that_wait_for_room() {
    let disk = MemoryDisk::new();
    do_all(&disk, vec![create("a"), DiskOp::SyncDir]).unwrap();
    disk.set_capacity(Some(0));
    let mut job = Box::pin(run(&disk, DiskLane::Log, vec![append("a", b"abc")]));
    assert!(job.as_mut().now_or_never().is_none());
    disk.crash(|all| all);
    assert!(job.now_or_never().unwrap().is_err());
    assert_eq!(disk.len("a").unwrap(), 0);
}
