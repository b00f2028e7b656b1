//! The log on real files.

use std::sync::Arc;
use std::sync::mpsc::channel;

use bytes::Bytes;
use holdfast_replica::disk::FolderDisk;
use holdfast_replica::log::{Log, LogError};
use holdfast_replica::world::{Disk, DiskLane};

use crate::model::{LIMITS, Model, STORAGE, entry};

/// Opening waits for the disk's thread: poll until it has answered.
fn open(disk: &Arc<FolderDisk>) -> Result<Log, LogError> {
    let (wake, woken) = channel();
    let waker = std::task::Waker::from(Arc::new(Wake(std::sync::Mutex::new(wake))));
    let mut opening = Box::pin(Log::open_with(disk.clone(), STORAGE, LIMITS));
    loop {
        match opening.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(opened) => return opened.map(|(log, _)| log),
            std::task::Poll::Pending => woken.recv().unwrap(),
        }
    }
}

struct Wake(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl std::task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        // Nobody waits any more once the future is ready.
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_log_in_a_folder_is_there_when_the_folder_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FolderDisk::open(folder.path()).unwrap());
    let log = open(&disk).unwrap();
    let (tell, told) = channel();
    for index in 0..100 {
        let tell = tell.clone();
        log.append(
            vec![entry(index, 1, 80)],
            Box::new(move |result| tell.send((index, result.is_ok())).unwrap()),
        );
    }
    let tell_vote = tell.clone();
    log.set_vote(
        Bytes::from_static(b"v"),
        Box::new(move |result| tell_vote.send((100, result.is_ok())).unwrap()),
    );
    drop(tell);
    assert_eq!(told.iter().collect::<Vec<_>>(), (0..=100).map(|n| (n, true)).collect::<Vec<_>>());
    let written = Model::of(&log);
    assert!(disk.stats(DiskLane::Log).syncs() > 0);
    assert!(disk.list().unwrap().len() > 3);

    drop((log, disk));
    let disk = Arc::new(FolderDisk::open(folder.path()).unwrap());
    let log = open(&disk).unwrap();
    assert_eq!(Model::of(&log), written);
    assert_eq!((written.entries.len(), log.boot()), (100, 2));
}
