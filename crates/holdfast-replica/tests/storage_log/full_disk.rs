//! A full disk: nothing is acknowledged that is not there; the log goes on once there is room, and opens after a crash.

use std::io;
use std::sync::{Arc, Mutex};

use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::log::Log;
use holdfast_replica::world::Disk;

use crate::model::{Change, Model, apply, open};

const APPEND: Change = Change::Append { count: 2, payload_len: 50, term: 1 };

/// What a change was told, so far.
type Told = Arc<Mutex<Option<io::Result<()>>>>;

fn begin(model: &Model, log: &Log, change: &Change) -> (Model, Told) {
    let told = Told::default();
    let tell = told.clone();
    let after = model.change(log, change, Box::new(move |result| *tell.lock().unwrap() = Some(result)));
    (after, told)
}

fn is_waiting(told: &Told) -> bool {
    told.lock().unwrap().is_none()
}

/// Appends until the disk is full: what was acknowledged, what is in the log with the append that waits, and its answer.
fn fill(log: &Log) -> (Model, Model, Told) {
    let mut acknowledged = Model::default();
    loop {
        let (after, told) = begin(&acknowledged, log, &APPEND);
        if is_waiting(&told) {
            return (acknowledged, after, told);
        }
        told.lock().unwrap().take().unwrap().unwrap();
        acknowledged = after;
    }
}

#[test]
fn a_log_goes_on_where_it_was_once_there_is_room() {
    for capacity in 600..2_600 {
        let disk = Arc::new(MemoryDisk::new());
        let (log, _) = open(&disk);
        disk.set_capacity(Some(capacity));
        let (_, model, waiting) = fill(&log);
        let (model, behind) = begin(&model, &log, &Change::Vote(3));
        assert!(is_waiting(&behind), "a vote is acknowledged out of turn");
        assert!(disk.free_bytes().unwrap() < 1_200);
        disk.set_capacity(None);
        for told in [waiting, behind] {
            told.lock().unwrap().take().expect("it goes on").unwrap();
        }
        let (model, result) = apply(&model, &log, &APPEND);
        result.unwrap();
        drop(log);
        disk.crash(|_| 0);
        assert_eq!(Model::of(&open(&disk).0), model, "capacity {capacity}");
    }
}

#[test]
fn a_crash_while_the_disk_is_full_loses_nothing_acknowledged() {
    for capacity in 600..2_600 {
        let disk = Arc::new(MemoryDisk::new());
        let (log, _) = open(&disk);
        disk.set_capacity(Some(capacity));
        let (acknowledged, _, _) = fill(&log);
        disk.crash(|unsynced| unsynced);
        disk.set_capacity(None);
        let (log, _) = open(&disk);
        assert_eq!(Model::of(&log), acknowledged, "capacity {capacity}");
        apply(&acknowledged, &log, &APPEND).1.unwrap();
    }
}
