//! Random histories with power cuts: what was acknowledged is there afterwards.

use std::sync::Arc;

use holdfast_replica::disk::MemoryDisk;
use proptest::prelude::*;

use crate::model::{Change, Model, apply, open};

/// Something that happens to a node.
#[derive(Clone, Debug)]
enum Event {
    Change(Change),
    /// The power goes now, and of what was not synced this share in percent survives.
    Cut {
        kept: usize,
    },
    /// The power goes after so many further steps of the disk.
    CutAfter {
        steps: u64,
        kept: usize,
    },
    Restart,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => (0..1_000_u64).prop_map(Change::Vote),
        8 => (1..12_u64, 0..200_usize, 1..9_u64)
            .prop_map(|(count, payload_len, term)| Change::Append { count, payload_len, term }),
        2 => (0..8_usize).prop_map(Change::Truncate),
        2 => (0..20_usize).prop_map(Change::Purge),
        1 => (0..5_u64).prop_map(Change::PurgeBeyond),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => change().prop_map(Event::Change),
        1 => (0..=100_usize).prop_map(|kept| Event::Cut { kept }),
        2 => (0..12_u64, 0..=100_usize).prop_map(|(steps, kept)| Event::CutAfter { steps, kept }),
        1 => Just(Event::Restart),
    ]
}

fn cut(disk: &MemoryDisk, kept: usize) {
    disk.crash(|unsynced| unsynced * kept / 100);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_survives_any_history_of_power_cuts(events in prop::collection::vec(event(), 1..60)) {
        let disk = Arc::new(MemoryDisk::new());
        let (mut log, _) = open(&disk);
        let mut model = Model::default();
        let mut boot = 1;
        // Set while the power is about to go: what survives of what is unsynced then.
        let mut doomed = None;
        for event in &events {
            match event {
                Event::CutAfter { steps, kept } => {
                    disk.stop_after(*steps);
                    doomed = Some(*kept);
                    continue;
                }
                Event::Change(change) => {
                    let (after, result) = apply(&model, &log, change);
                    if result.is_ok() {
                        model = after;
                        continue;
                    }
                    prop_assert!(doomed.is_some(), "a write failed although the power was on");
                    cut(&disk, doomed.take().unwrap_or(0));
                    log = open(&disk).0;
                    let found = Model::of(&log);
                    // What was not acknowledged may be there, in part if it was several entries.
                    let is_part = found.vote == after.vote
                        && found.purged == after.purged
                        && after.entries.starts_with(&found.entries)
                        && found.entries.starts_with(&model.entries);
                    prop_assert!(found == model || found == after || is_part, "{found:?}\n{model:?}\n{after:?}");
                    model = found;
                }
                Event::Cut { kept } => {
                    cut(&disk, doomed.take().unwrap_or(*kept));
                    log = open(&disk).0;
                    prop_assert_eq!(&Model::of(&log), &model);
                }
                Event::Restart => {
                    cut(&disk, doomed.take().unwrap_or(100));
                    log = open(&disk).0;
                    prop_assert_eq!(&Model::of(&log), &model);
                }
            }
            prop_assert!(log.boot() > boot);
            boot = log.boot();
        }
        prop_assert_eq!(Model::of(&log), model);
    }
}
