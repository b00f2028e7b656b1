use futures_util::FutureExt;

use super::*;
use crate::disk::MemoryDisk;

/// Polls a future that gives way but never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Some(value) = future.as_mut().now_or_never() {
            return value;
        }
    }
}

fn point(index: u64) -> LogPoint {
    LogPoint { index, id: Bytes::from(format!("term 1 {index}")) }
}

fn open(disk: &Arc<MemoryDisk>) -> (SnapshotFiles, Vec<FoundSnapshot>) {
    now(SnapshotFiles::open(disk.clone())).unwrap()
}

fn write(files: &SnapshotFiles, index: u64) -> SnapshotFile {
    now(async {
        let mut writer = files.create(point(index), Bytes::from_static(b"meta")).await.unwrap();
        for n in 0..3_u8 {
            writer.write_chunk(Bytes::from(vec![n; 100])).await.unwrap();
        }
        writer.finish().await.unwrap()
    })
}

#[test]
fn a_snapshot_outlives_a_power_cut_and_reads_as_it_was_written() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, found) = open(&disk);
    assert!(found.is_empty() && files.newest().is_none());
    write(&files, 7);
    disk.crash(|_| 0);
    let (files, found) = open(&disk);
    let snapshot = found[0].snapshot.clone().unwrap();
    assert_eq!((snapshot.point(), &snapshot.meta()[..]), (&point(7), &b"meta"[..]));
    assert_eq!((snapshot.chunk_count(), snapshot.content_len()), (3, 300));
    assert_eq!(snapshot.file_len(), disk.len(snapshot.file()).unwrap());
    assert_eq!(snapshot.read_chunk(2).unwrap(), vec![2; 100]);
    assert_eq!(snapshot.read_chunk(3).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(files.newest().unwrap().file(), snapshot.file());
}

#[test]
fn an_unfinished_snapshot_leaves_nothing_behind() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    let writer = now(files.create(point(7), Bytes::new())).unwrap();
    assert_eq!(disk.list().unwrap().len(), 1);
    drop(writer);
    assert!(disk.list().unwrap().is_empty());

    let writer = now(files.create(point(7), Bytes::new())).unwrap();
    let at_the_crash = Arc::new(disk.copy());
    drop(writer);
    open(&at_the_crash);
    assert!(at_the_crash.list().unwrap().is_empty());
}

#[test]
fn any_flipped_bit_is_noticed_and_an_older_snapshot_is_still_found() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    write(&files, 7);
    let newer = write(&files, 9);
    for at in 0..newer.file_len() {
        let bad = Arc::new(disk.copy());
        bad.flip(newer.file(), usize::try_from(at).unwrap(), (at % 8) as u8);
        let (files, found) = open(&bad);
        assert_eq!(found.iter().map(|found| found.index).collect::<Vec<_>>(), [9, 7]);
        assert!(found[0].snapshot.is_err(), "byte {at}");
        assert_eq!(files.newest().unwrap().point(), &point(7));
    }
}

#[test]
fn any_missing_tail_is_noticed() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    let snapshot = write(&files, 7);
    for len in 0..usize::try_from(snapshot.file_len()).unwrap() {
        let bad = Arc::new(disk.copy());
        bad.cut(snapshot.file(), len);
        assert!(open(&bad).1[0].snapshot.is_err(), "cut to {len}");
    }
}

#[test]
fn old_snapshots_go_but_not_one_that_is_being_read() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    let held = write(&files, 1);
    (2..6).for_each(|index| drop(write(&files, index)));
    now(files.retain(2)).unwrap();
    let left = |disk: &MemoryDisk| -> Vec<_> {
        disk.list().unwrap().iter().map(|file| format::index_of_file(file).unwrap()).collect()
    };
    assert_eq!(left(&disk), [1, 4, 5]);
    held.read_chunk(0).unwrap();
    drop(held);
    now(files.retain(2)).unwrap();
    assert_eq!(left(&disk), [4, 5]);
}

#[test]
fn a_damaged_snapshot_is_not_counted_as_one_of_those_kept() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    let names: Vec<_> = (1..4).map(|index| write(&files, index).file().to_owned()).collect();
    disk.flip(&names[2], 60, 0);
    let (files, _) = open(&disk);
    now(files.retain(2)).unwrap();
    assert_eq!(disk.list().unwrap(), names);
}

#[test]
fn chunks_of_impossible_size_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let (files, _) = open(&disk);
    let mut writer = now(files.create(point(7), Bytes::new())).unwrap();
    assert!(now(writer.write_chunk(Bytes::new())).is_err());
    assert!(now(writer.write_chunk(vec![0; CHUNK_LEN_MAX + 1].into())).is_err());
    now(writer.write_chunk(vec![0; CHUNK_LEN_MAX].into())).unwrap();
    assert_eq!(now(writer.finish()).unwrap().chunk_count(), 1);
}

#[test]
fn a_power_cut_at_any_step_leaves_the_snapshot_whole_or_absent() {
    for steps in 0..30 {
        let disk = Arc::new(MemoryDisk::new());
        let (files, _) = open(&disk);
        write(&files, 7);
        disk.stop_after(steps);
        let finished = now(async {
            let mut writer = files.create(point(9), Bytes::new()).await?;
            writer.write_chunk(Bytes::from_static(b"abc")).await?;
            writer.finish().await
        });
        disk.crash(|unsynced| if steps % 2 == 0 { unsynced } else { 0 });
        let (files, found) = open(&disk);
        assert!(found.iter().all(|found| found.snapshot.is_ok()), "{steps}: {found:?}");
        let newest = files.newest().unwrap().point().index;
        assert!(newest == 9 || (newest == 7 && finished.is_err()), "{steps}: {newest}");
    }
}
