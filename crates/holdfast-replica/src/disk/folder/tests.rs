use std::sync::mpsc::channel;

use super::*;

fn append(file: &str, bytes: &'static [u8]) -> DiskOp {
    DiskOp::Append { file: file.into(), bytes: Bytes::from_static(bytes) }
}

fn sync(file: &str) -> DiskOp {
    DiskOp::Sync { file: file.into() }
}

fn do_all(disk: &FolderDisk, ops: Vec<DiskOp>) -> io::Result<()> {
    let (tell, told) = channel();
    disk.submit(DiskLane::Log, ops, Box::new(move |result| tell.send(result).unwrap()));
    told.recv().unwrap()
}

#[test]
fn a_folder_is_refused_while_somebody_else_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = FolderDisk::open(folder.path()).unwrap();
    let refused = FolderDisk::open(folder.path()).err().unwrap();
    assert!(matches!(refused, OpenFolderError::InUse(_)));
    assert!(refused.to_string().contains(&folder.path().display().to_string()));
    drop(first);
    FolderDisk::open(folder.path()).unwrap();
}

#[test]
fn jobs_that_queue_up_behind_a_busy_lane_share_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FolderDisk::open(folder.path()).unwrap();
    do_all(&disk, vec![DiskOp::Create { file: "a".into() }, DiskOp::SyncDir]).unwrap();
    let stats = disk.stats(DiskLane::Log);
    let syncs_before = stats.syncs();

    let (busy, is_busy) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let hold = Box::new(move |_| {
        busy.send(()).unwrap();
        may_go_on.recv().unwrap();
    });
    disk.submit(DiskLane::Log, vec![], hold);
    is_busy.recv().unwrap();
    let (tell, told) = channel();
    for n in 0..50_u32 {
        let tell = tell.clone();
        let ops = vec![append("a", b"0123456789"), sync("a")];
        disk.submit(DiskLane::Log, ops, Box::new(move |result| tell.send((n, result.is_ok())).unwrap()));
    }
    go_on.send(()).unwrap();
    drop(tell);
    let answers: Vec<_> = told.iter().collect();
    assert_eq!(answers, (0..50).map(|n| (n, true)).collect::<Vec<_>>(), "in order of submission");
    assert_eq!(stats.syncs() - syncs_before, 1);
    assert_eq!(disk.len("a").unwrap(), 500);
}

#[test]
fn a_failed_write_closes_its_lane_for_ever_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FolderDisk::open(folder.path()).unwrap();
    assert!(do_all(&disk, vec![append("missing", b"x"), sync("missing")]).is_err());
    let error = do_all(&disk, vec![DiskOp::SyncDir]).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    let (tell, told) = channel();
    disk.submit(DiskLane::Bulk, vec![DiskOp::SyncDir], Box::new(move |result| tell.send(result).unwrap()));
    told.recv().unwrap().unwrap();
}

#[test]
fn every_step_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FolderDisk::open(folder.path()).unwrap();
    let create = DiskOp::Create { file: "a".into() };
    do_all(&disk, vec![create.clone(), append("a", b"abcdef"), sync("a")]).unwrap();
    assert_eq!(do_all(&disk, vec![create]).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    do_all(&disk, vec![DiskOp::Truncate { file: "a".into(), len: 4 }, append("a", b"X"), sync("a")]).unwrap();
    do_all(&disk, vec![DiskOp::Rename { from: "a".into(), to: "b".into() }, DiskOp::SyncDir]).unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert_eq!(disk.read_at("b", 1, 99).unwrap(), "bcdX");
    assert_eq!(disk.read_at("b", 99, 1).unwrap(), "");
    let gone = DiskOp::Remove { file: "b".into() };
    do_all(&disk, vec![gone.clone(), gone]).unwrap();
    assert!(disk.list().unwrap().is_empty());
    assert!(disk.free_bytes().unwrap() > 0);
}
