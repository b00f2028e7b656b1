//! The power goes at each single step of what takes several: a new segment, a purge, opening itself.

use std::sync::Arc;

use holdfast_replica::disk::MemoryDisk;

use crate::model::{Change, Model, apply, filled, open, segments};

/// The power goes after `steps`; of what is not synced nothing, half or all survives.
fn for_each_cut(mut check: impl FnMut(u64, usize)) {
    for steps in 0..40 {
        for kept in [0, 50, 100] {
            check(steps, kept);
        }
    }
}

fn cut(disk: &MemoryDisk, kept: usize) {
    disk.crash(|unsynced| unsynced * kept / 100);
}

#[test]
fn a_power_cut_at_any_step_of_changing_over_to_a_new_segment_loses_nothing() {
    for_each_cut(|steps, kept| {
        let (disk, mut model) = filled();
        let (log, _) = open(&disk);
        disk.stop_after(steps);
        loop {
            let (after, result) =
                apply(&model, &log, &Change::Append { count: 1, payload_len: 400, term: 3 });
            if result.is_err() {
                break;
            }
            model = after;
        }
        cut(&disk, kept);
        let (log, _) = open(&disk);
        let found = Model::of(&log);
        assert!(found.entries.starts_with(&model.entries), "step {steps}, kept {kept}");
        assert!(found.entries.len() <= model.entries.len() + 1);
    });
}

#[test]
fn a_power_cut_at_any_step_of_a_purge_leaves_the_log_purged_or_not() {
    for_each_cut(|steps, kept| {
        let (disk, model) = filled();
        let (log, _) = open(&disk);
        disk.stop_after(steps);
        let (after, result) = apply(&model, &log, &Change::Purge(18));
        cut(&disk, kept);
        let (log, _) = open(&disk);
        let found = Model::of(&log);
        assert!(found == after || (result.is_err() && found == model), "step {steps}, kept {kept}");
        // What the cut kept from being removed is removed at the next start at the latest.
        let (whole, _) = filled();
        let (log, _) = open(&whole);
        apply(&model, &log, &Change::Purge(18)).1.unwrap();
        if found == after {
            assert_eq!(segments(&disk)[0], segments(&whole)[0]);
        }
    });
}

#[test]
fn a_power_cut_at_any_step_of_the_first_start_leaves_a_folder_that_starts() {
    for_each_cut(|steps, kept| {
        let disk = Arc::new(MemoryDisk::new());
        disk.stop_after(steps);
        let opened = crate::model::try_open(&disk).is_ok();
        cut(&disk, kept);
        let (log, report) = open(&disk);
        assert_eq!(Model::of(&log), Model::default());
        assert!(!(opened && report.fresh), "a log that was opened is never new again");
    });
}

#[test]
fn a_power_cut_at_any_step_of_trimming_a_tail_leaves_a_folder_that_starts() {
    for_each_cut(|steps, kept| {
        let (disk, model) = filled();
        let file = segments(&disk).pop().unwrap();
        let len = usize::try_from(holdfast_replica::world::Disk::len(&*disk, &file).unwrap()).unwrap();
        disk.cut(&file, len - 5);
        disk.stop_after(steps);
        let _ = crate::model::try_open(&disk);
        cut(&disk, kept);
        let (log, _) = open(&disk);
        assert_eq!(
            Model::of(&log).entries,
            model.entries[..model.entries.len() - 1],
            "step {steps}, kept {kept}"
        );
    });
}
