//! Torn tails are trimmed and said; everything else that is not as it was written is refused.

use std::sync::Arc;

use holdfast_replica::disk::MemoryDisk;
use holdfast_replica::log::LogError;
use holdfast_replica::world::{Disk, DiskLane, DiskOp};

use crate::model::{Change, Model, apply, filled, open, segments, try_open};

/// The newest segment, with its length.
fn newest(disk: &dyn Disk) -> (String, usize) {
    let file = disk.list().unwrap().pop().unwrap();
    let len = usize::try_from(disk.len(&file).unwrap()).unwrap();
    (file, len)
}

/// Opens a log whose tail is torn: it is a beginning of what was written, and takes further entries.
fn opens_trimmed(disk: &Arc<MemoryDisk>, written: &Model, is_torn: bool) {
    let (log, report) = open(disk);
    assert_eq!(report.trimmed.is_some(), is_torn, "{report:?}");
    let found = Model::of(&log);
    assert!(written.entries.starts_with(&found.entries));
    assert_eq!(found.vote, written.vote);
    let (after, result) = apply(&found, &log, &Change::Append { count: 3, payload_len: 60, term: 9 });
    result.unwrap();
    disk.crash(|_| 0);
    let (log, report) = open(disk);
    assert_eq!((Model::of(&log), report.trimmed), (after, None));
}

#[test]
fn a_tail_cut_by_1_to_200_bytes_is_trimmed_and_the_log_goes_on() {
    let (disk, written) = filled();
    let (file, len) = newest(&*disk);
    let starts = record_starts(&*disk, &file);
    for cut in 1..=200 {
        let torn = Arc::new(disk.copy());
        torn.cut(&file, len - cut);
        opens_trimmed(&torn, &written, !starts.contains(&(len - cut)));
    }
}

#[test]
fn a_tail_of_1_to_200_zeros_is_trimmed_and_the_log_goes_on() {
    let (disk, written) = filled();
    let (file, len) = newest(&*disk);
    for zeros in 1..=200 {
        let torn = Arc::new(disk.copy());
        torn.overwrite(&file, len - zeros, &vec![0; zeros]);
        opens_trimmed(&torn, &written, true);
    }
}

#[test]
fn a_newest_segment_cut_to_any_length_is_trimmed_or_refused_but_never_read_wrongly() {
    let (disk, written) = filled();
    let (file, len) = newest(&*disk);
    for left in 0..len {
        let torn = Arc::new(disk.copy());
        torn.cut(&file, left);
        match try_open(&torn) {
            Ok((log, _)) => assert!(written.entries.starts_with(&Model::of(&log).entries), "cut to {left}"),
            // With the record of the purge gone, the segments that it removed are missing.
            Err(LogError::Damaged { what, .. }) => assert!(what.contains("missing"), "cut to {left}: {what}"),
            Err(other) => panic!("cut to {left}: {other}"),
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused_with_its_place_or_was_in_the_last_record() {
    let (disk, written) = filled();
    let (last_file, _) = newest(&*disk);
    let last_record = record_starts(&*disk, &last_file).into_iter().rev().nth(1).unwrap();
    for file in segments(&disk) {
        for at in 0..usize::try_from(disk.len(&file).unwrap()).unwrap() {
            let bad = Arc::new(disk.copy());
            bad.flip(&file, at, (at % 8) as u8);
            match try_open(&bad) {
                Err(LogError::Damaged { file: named, offset, .. }) => {
                    assert!(named == file && offset <= at as u64, "{file} {at}: {named} {offset}");
                    assert!(at - usize::try_from(offset).unwrap() < 400, "{file} {at}: near, not {offset}");
                }
                Err(other) => panic!("{file} {at}: {other}"),
                Ok((log, report)) => {
                    assert!(file == last_file && at >= last_record, "{file} {at} went unnoticed");
                    assert_eq!(report.trimmed.unwrap().offset, last_record as u64);
                    assert_eq!(Model::of(&log).entries, written.entries[..written.entries.len() - 1]);
                }
            }
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let (disk, _) = filled();
    let file = &segments(&disk)[0];
    disk.flip(file, 300, 3);
    let text = try_open(&disk).err().unwrap().to_string();
    assert!(text.contains(file) && text.contains("offset"), "{text}");
    assert!(text.contains("Remove the node from the cluster"), "{text}");
}

#[test]
fn a_missing_segment_is_refused_unless_it_was_the_last() {
    let (disk, _) = filled();
    let files = segments(&disk);
    assert!(files.len() > 3, "{files:?}");
    for file in &files[..files.len() - 1] {
        let bad = Arc::new(disk.copy());
        bad.submit(
            DiskLane::Bulk,
            vec![DiskOp::Remove { file: file.clone() }],
            Box::new(|result| result.unwrap()),
        );
        let text = try_open(&bad).err().unwrap().to_string();
        assert!(text.contains("missing"), "{text}");
    }
}

#[test]
fn a_cut_or_zeros_in_an_older_segment_are_refused() {
    let (disk, _) = filled();
    let file = &segments(&disk)[1];
    let len = usize::try_from(disk.len(file).unwrap()).unwrap();
    for gone in 1..len {
        let bad = Arc::new(disk.copy());
        bad.cut(file, len - gone);
        assert!(matches!(try_open(&bad), Err(LogError::Damaged { .. })), "{gone} cut off");
        let bad = Arc::new(disk.copy());
        bad.overwrite(file, len - gone, &vec![0; gone]);
        assert!(matches!(try_open(&bad), Err(LogError::Damaged { .. })), "{gone} zeros");
    }
}

#[test]
fn an_entry_damaged_while_the_log_is_open_is_noticed_when_it_is_read() {
    let (disk, written) = filled();
    let (log, _) = open(&disk);
    let (file, at) = place_of(&disk, &written.entries[2].payload);
    disk.flip(&file, at, 0);
    let error = log.entries(log.first_index()..u64::MAX, usize::MAX).unwrap_err();
    assert!(error.to_string().contains(&file), "{error}");
}

/// The file that has these bytes, and where.
fn place_of(disk: &MemoryDisk, bytes: &[u8]) -> (String, usize) {
    let place = |file: String| {
        let content = disk.read_at(&file, 0, usize::MAX).unwrap();
        let at = content.windows(bytes.len()).rposition(|window| window == bytes)?;
        Some((file, at))
    };
    segments(disk).into_iter().rev().find_map(place).unwrap()
}

/// Where the records of a segment begin, and its end.
fn record_starts(disk: &dyn Disk, file: &str) -> Vec<usize> {
    let len = usize::try_from(disk.len(file).unwrap()).unwrap();
    let data = disk.read_at(file, 0, len).unwrap();
    let mut starts = vec![48];
    while let Some(at) = starts.last().copied().filter(|at| *at < len) {
        let body_len = u32::from_le_bytes(data[at + 4..at + 8].try_into().unwrap()) as usize;
        starts.push(at + 24 + body_len);
    }
    starts
}
