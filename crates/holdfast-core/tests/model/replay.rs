//! Replicas: one from the start, one that replays the bytes of the log, one that comes in with a snapshot.

use holdfast_core::{EncodedOp, Group, GroupEncoder, LockTable, SnapshotReader};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::naive::Naive;
use crate::script::Script;

pub(crate) fn run(script: &Script) -> Result<(), TestCaseError> {
    let (mut first, mut replayed, mut naive) = (LockTable::default(), LockTable::default(), Naive::default());
    let mut restored = None;
    for (number, step) in script.steps.iter().enumerate() {
        let group = step.group(&naive);
        naive.apply(&group);
        let applied = first.apply(&group);

        let again = replayed.apply(&through_bytes(&group)?);
        prop_assert_eq!(&again.outcomes, &applied.outcomes);
        prop_assert_eq!(replayed.digest(), first.digest());

        if let Some(restored) = &mut restored {
            let again = LockTable::apply(restored, &group);
            prop_assert_eq!(&again.outcomes, &applied.outcomes, "restored, step {}", number);
            prop_assert_eq!(&again.events, &applied.events, "restored, step {}", number);
            prop_assert_eq!(restored.digest(), first.digest(), "restored, step {}", number);
            prop_assert_eq!(restored.next_due(), first.next_due(), "restored, step {}", number);
            prop_assert_eq!(restored.counts(), first.counts(), "restored, step {}", number);
        }
        if number == script.snapshot_after {
            restored = Some(restore(&first, number + 1));
        }
    }
    Ok(())
}

/// What a follower reads from the log.
fn through_bytes(group: &Group) -> Result<Group, TestCaseError> {
    let mut encoder = GroupEncoder::new(group.now);
    for op in &group.ops {
        let encoded = EncodedOp::new(op);
        let decoded = encoded.decode();
        prop_assert_eq!(decoded.as_ref(), Ok(op));
        encoder.push(&encoded);
    }
    let decoded = Group::decode(&encoder.finish());
    prop_assert_eq!(decoded.as_ref(), Ok(group));
    Ok(group.clone())
}

/// Through the bytes of a snapshot that arrives in pieces of some length.
fn restore(table: &LockTable, piece_len: usize) -> LockTable {
    let mut view = table.snapshot();
    let mut reader = SnapshotReader::default();
    while let Some(piece) = view.next_piece() {
        piece.chunks(piece_len).for_each(|part| reader.push(part).unwrap());
    }
    reader.finish().unwrap()
}
