//! A full disk: nothing is acknowledged that is not there, and the log opens again.

use std::sync::Arc;

use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::world::Disk;

use crate::model::{Change, Model, apply, open};

#[test]
fn a_full_disk_loses_nothing_acknowledged_and_the_log_goes_on_once_there_is_room() {
    for capacity in 600..2_600 {
        let disk = Arc::new(MemoryDisk::new());
        let (log, _) = open(&disk);
        disk.set_capacity(Some(capacity));
        let mut model = Model::default();
        let append = Change::Append { count: 2, payload_len: 50, term: 1 };
        loop {
            let (after, result) = apply(&model, &log, &append);
            if result.is_err() {
                break;
            }
            model = after;
        }
        assert!(apply(&model, &log, &Change::Vote(3)).1.is_err(), "the log is closed now");
        assert!(disk.free_bytes().unwrap() < 1_200);
        disk.set_capacity(None);
        disk.crash(|unsynced| unsynced);
        let (log, report) = open(&disk);
        let trimmed_a_segment = report.trimmed.is_some_and(|tail| tail.offset == 0);
        assert_eq!(Model::of(&log), model, "capacity {capacity}, trimmed {trimmed_a_segment}");
        apply(&model, &log, &append).1.unwrap();
    }
}
