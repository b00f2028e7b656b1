use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::*;
use crate::disk::MemoryDisk;
use crate::world::{DiskLane, DiskOp};

const STORAGE: StorageId = 0x5701;

fn small() -> LogLimits {
    LogLimits { segment_bytes: 2_000, cache_bytes: 1_000 }
}

fn open(disk: &Arc<MemoryDisk>) -> (Log, OpenReport) {
    try_open(disk).unwrap()
}

fn try_open(disk: &Arc<MemoryDisk>) -> Result<(Log, OpenReport), LogError> {
    Log::open_with(disk.clone(), STORAGE, small()).now_or_never().expect("a disk in memory never waits")
}

/// Does one write and returns what `done` was told.
fn write(act: impl FnOnce(DiskDone)) -> io::Result<()> {
    let (tell, told) = oneshot::channel();
    act(Box::new(move |result| tell.send(result).unwrap()));
    told.now_or_never().expect("a disk in memory never waits").expect("done is called once")
}

fn id(index: u64, term: u64) -> Bytes {
    Bytes::from(format!("{term}-{index}"))
}

fn entry(index: u64, term: u64) -> LogRecord {
    LogRecord { index, id: id(index, term), payload: Bytes::from(vec![b'p'; 100]) }
}

fn append(log: &Log, range: Range<u64>, term: u64) {
    write(|done| log.append(range.map(|index| entry(index, term)).collect(), done)).unwrap();
}

fn append_one_by_one(log: &Log, range: Range<u64>) {
    range.for_each(|index| append(log, index..index + 1, 1));
}

fn indexes(log: &Log, range: Range<u64>) -> Vec<u64> {
    log.entries(range, usize::MAX).unwrap().iter().map(|entry| entry.index).collect()
}

#[test]
fn a_new_log_is_empty_and_says_that_it_is_new() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, report) = open(&disk);
    assert_eq!(report, OpenReport { fresh: true, trimmed: None });
    assert_eq!((log.vote(), log.committed(), log.last(), log.purged()), (None, None, None, None));
    assert_eq!((log.first_index(), log.boot()), (0, 1));
    assert!(indexes(&log, 0..u64::MAX).is_empty());
}

#[test]
fn everything_is_there_after_a_power_cut_and_the_boots_are_counted() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    write(|done| log.set_vote(Bytes::from_static(b"vote"), done)).unwrap();
    append_one_by_one(&log, 0..40);
    log.set_committed(Bytes::from_static(b"38"));
    append(&log, 40..60, 2);
    disk.crash(|_| 0);

    let (log, report) = open(&disk);
    assert_eq!(report, OpenReport::default());
    assert!(disk.list().unwrap().len() > 2, "several segments");
    assert_eq!(
        (log.vote(), log.committed()),
        (Some(Bytes::from_static(b"vote")), Some(Bytes::from_static(b"38")))
    );
    assert_eq!((log.last(), log.boot()), (Some(LogPoint { index: 59, id: id(59, 2) }), 2));
    let expected: Vec<_> = (0..40).map(|n| entry(n, 1)).chain((40..60).map(|n| entry(n, 2))).collect();
    assert_eq!(log.entries(0..60, usize::MAX).unwrap(), expected);
}

#[test]
fn a_truncation_holds_and_the_log_goes_on_from_there() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..40);
    write(|done| log.truncate_after(Some(4), done)).unwrap();
    assert_eq!(log.last(), Some(LogPoint { index: 4, id: id(4, 1) }), "its id comes from disk");
    assert_eq!(indexes(&log, 0..99), [0, 1, 2, 3, 4]);
    append(&log, 5..7, 2);
    disk.crash(|_| 0);
    let (log, _) = open(&disk);
    assert_eq!(log.last(), Some(LogPoint { index: 6, id: id(6, 2) }));
    assert_eq!(indexes(&log, 0..99), [0, 1, 2, 3, 4, 5, 6]);
    write(|done| log.truncate_after(None, done)).unwrap();
    assert_eq!((log.last(), log.bytes_since(0)), (None, 0));
}

#[test]
fn a_purge_removes_whole_segments_and_never_what_is_still_needed() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..100);
    let before = (disk.list().unwrap().len(), log.disk_bytes());
    write(|done| log.purge(70, id(70, 1), done)).unwrap();
    let after = (disk.list().unwrap().len(), log.disk_bytes());
    assert!(after.0 < before.0 && after.1 < before.1, "{before:?} {after:?}");
    let on_disk: u64 = disk.list().unwrap().iter().map(|file| disk.len(file).unwrap()).sum();
    assert_eq!(log.disk_bytes(), on_disk);
    disk.crash(|_| 0);
    let (log, _) = open(&disk);
    assert_eq!((log.first_index(), log.purged()), (71, Some(LogPoint { index: 70, id: id(70, 1) })));
    assert_eq!(indexes(&log, 71..100), (71..100).collect::<Vec<_>>());
    assert!(write(|done| log.purge(60, id(60, 1), done)).is_err());
    assert!(write(|done| log.truncate_after(Some(69), done)).is_err());
}

#[test]
fn a_segment_that_could_not_be_removed_goes_before_any_newer_one() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..100);
    let oldest = disk.list().unwrap().remove(0);
    disk.stop_after(2); // The purge itself: append and sync.
    write(|done| log.purge(30, id(30, 1), done)).unwrap();
    disk.stop_after(u64::MAX);
    assert!(disk.list().unwrap().contains(&oldest));
    write(|done| log.purge(70, id(70, 1), done)).unwrap();
    assert!(!disk.list().unwrap().contains(&oldest));
    disk.crash(|_| 0);
    assert_eq!(open(&disk).0.first_index(), 71);
}

#[test]
fn a_purge_beyond_the_end_moves_the_log_there() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append(&log, 0..10, 1);
    write(|done| log.purge(500, id(500, 7), done)).unwrap();
    assert!(indexes(&log, 0..u64::MAX).is_empty());
    append(&log, 501..503, 7);
    disk.crash(|_| 0);
    let (log, _) = open(&disk);
    assert_eq!((log.first_index(), log.last()), (501, Some(LogPoint { index: 502, id: id(502, 7) })));
    assert_eq!(indexes(&log, 0..u64::MAX), [501, 502]);
}

#[test]
fn purged_entries_stay_readable_while_they_are_in_memory() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append(&log, 0..10, 1);
    write(|done| log.purge(9, id(9, 1), done)).unwrap();
    assert_eq!(indexes(&log, 7..10), [7, 8, 9]);
    write(|done| log.purge(9, id(9, 2), done)).unwrap();
    assert!(indexes(&log, 7..10).is_empty(), "a snapshot of another history replaces them");
}

#[test]
fn reads_stop_at_the_limit_but_give_one_entry_at_least() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..50);
    assert_eq!(log.entries(3..50, 0).unwrap(), [entry(3, 1)]);
    assert_eq!(log.entries(3..50, 500).unwrap().len(), 3);
    assert_eq!(log.entries(48..50, 500).unwrap().len(), 2);
}

#[test]
fn an_append_with_a_gap_is_refused_and_changes_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append(&log, 0..3, 1);
    let error = write(|done| log.append(vec![entry(3, 1), entry(5, 1)], done)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    append(&log, 3..4, 1);
}

#[test]
fn a_callback_may_write_again() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    let again = log.clone();
    let result = write(|done| {
        let then = Box::new(move |result: io::Result<()>| {
            result.unwrap();
            again.set_vote(Bytes::from_static(b"from within"), done);
        });
        log.append(vec![entry(0, 1)], then);
    });
    result.unwrap();
    assert_eq!(log.vote(), Some(Bytes::from_static(b"from within")));
}

#[test]
fn bytes_since_counts_the_records_behind_an_entry() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..3);
    let one = log.bytes_since(1);
    assert_eq!((log.bytes_since(0), log.bytes_since(2)), (2 * one, 0));
}

/// A disk whose process is always killed before it comes to making names durable.
struct WithoutNames(Arc<MemoryDisk>);

impl Disk for WithoutNames {
    fn submit(&self, lane: DiskLane, mut ops: Vec<DiskOp>, done: DiskDone) {
        ops.retain(|op| !matches!(op, DiskOp::SyncDir));
        self.0.submit(lane, ops, done);
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn len(&self, file: &str) -> io::Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.0.read_at(file, offset, len)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
}

#[test]
fn what_a_killed_process_left_is_durable_once_the_log_is_open_again() {
    let disk = Arc::new(MemoryDisk::new());
    open(&disk);
    let killed = Arc::new(WithoutNames(disk.clone()));
    let opened = Log::open_with(killed, STORAGE, small()).now_or_never().unwrap();
    append_one_by_one(&opened.unwrap().0, 0..40);
    assert!(disk.list().unwrap().len() > 1, "several segments");

    open(&disk);
    disk.crash(|_| 0);
    assert_eq!(indexes(&open(&disk).0, 0..99), (0..40).collect::<Vec<_>>());
}

#[test]
fn the_witness_vouches_for_committed_entries_well_before_the_end_only() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..3);
    assert_eq!(log.witness_point(2).unwrap(), None);
    append_one_by_one(&log, 3..100);
    let point = log.witness_point(99).unwrap().unwrap();
    assert!((90..97).contains(&point.index), "{point:?}");
    assert!(log.bytes_since(point.index) >= WITNESS_LAG_BYTES);
    assert_eq!(log.witness_point(7).unwrap(), Some(LogPoint { index: 7, id: id(7, 1) }));
}

#[test]
fn the_witness_does_not_vouch_for_a_purge_that_may_not_be_durable() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append_one_by_one(&log, 0..20);
    disk.set_capacity(Some(0));
    log.purge(24, id(24, 1), Box::new(|_| ()));
    assert_eq!(log.purged().map(|point| point.index), Some(24));
    assert_eq!(log.witness_point(24).unwrap(), None);
}

#[test]
fn another_folders_log_and_another_version_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let (log, _) = open(&disk);
    append(&log, 0..3, 1);
    let opened = Log::open(disk.clone(), STORAGE + 1).now_or_never().unwrap();
    assert!(opened.err().unwrap().to_string().contains("belongs to another data folder"));
}
