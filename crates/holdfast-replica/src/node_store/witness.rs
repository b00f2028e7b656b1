//! Does the log still have what it once had?

use std::io;

use crate::log::{Log, LogPoint};

/// The log is not the one that the witness saw.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// It ends too early.
    #[error(
        "the log has lost entries: entry {witnessed} was once committed and durable here, but the log {}. {WHAT_TO_DO}",
        ends(.last)
    )]
    Lost {
        /// Index of the entry that the witness saw.
        witnessed: u64,
        /// Index of the last entry, if there is any.
        last: Option<u64>,
    },
    /// Another entry is in that place.
    #[error("entry {index} of the log is not the one that was once committed and durable here. {WHAT_TO_DO}")]
    Replaced {
        /// Its index.
        index: u64,
    },
    /// The entry cannot be read.
    #[error("the log cannot be compared with its witness: {0}")]
    Io(io::Error),
}

const WHAT_TO_DO: &str = "This node must not start with it. Remove the node from the cluster, then let it join anew \
                          with an empty data folder";

fn ends(last: &Option<u64>) -> String {
    last.map_or_else(|| "is empty".to_owned(), |last| format!("ends with entry {last}"))
}

/// Compares a log that was just opened with what its witness says, if there is one.
///
/// # Errors
/// If the log has lost or exchanged a committed entry: the node must not start.
pub fn check_witness(log: &Log, witness: Option<&LogPoint>) -> Result<(), WitnessError> {
    let Some(witness) = witness else { return Ok(()) };
    let last = log.last().map(|last| last.index);
    if last.is_none_or(|last| last < witness.index) {
        return Err(WitnessError::Lost { witnessed: witness.index, last });
    }
    let purged = log.purged().filter(|purged| purged.index >= witness.index);
    let id = match purged {
        Some(purged) if purged.index > witness.index => return Ok(()),
        Some(purged) => Some(purged.id),
        None => entry_id(log, witness.index).map_err(WitnessError::Io)?,
    };
    if id.as_ref() != Some(&witness.id) {
        return Err(WitnessError::Replaced { index: witness.index });
    }
    Ok(())
}

fn entry_id(log: &Log, index: u64) -> io::Result<Option<bytes::Bytes>> {
    Ok(log.entries(index..index + 1, 0)?.pop().map(|entry| entry.id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::log::LogRecord;

    fn point(index: u64, id: &'static str) -> LogPoint {
        LogPoint { index, id: Bytes::from_static(id.as_bytes()) }
    }

    /// Entries 0 to 9, the first six of them purged.
    fn log() -> Log {
        let (log, _) = Log::open(Arc::new(MemoryDisk::new()), 1).now_or_never().unwrap().unwrap();
        let entry = |index| LogRecord { index, id: Bytes::from_static(b"a"), payload: Bytes::new() };
        log.append((0..10).map(entry).collect(), Box::new(|result| result.unwrap()));
        log.purge(5, Bytes::from_static(b"a"), Box::new(|result| result.unwrap()));
        log
    }

    #[test]
    fn a_log_that_has_what_was_witnessed_may_start() {
        let log = log();
        check_witness(&log, None).unwrap();
        for index in [3, 5, 7, 9] {
            check_witness(&log, Some(&point(index, "a"))).unwrap();
        }
    }

    #[test]
    fn a_log_that_ends_before_what_was_witnessed_must_not_start() {
        let error = check_witness(&log(), Some(&point(10, "a"))).unwrap_err();
        assert!(error.to_string().contains("entry 10 was once committed"), "{error}");
        let (empty, _) = Log::open(Arc::new(MemoryDisk::new()), 1).now_or_never().unwrap().unwrap();
        let error = check_witness(&empty, Some(&point(0, "a"))).unwrap_err();
        assert!(matches!(error, WitnessError::Lost { witnessed: 0, last: None }));
    }

    #[test]
    fn a_log_with_another_entry_in_that_place_must_not_start() {
        for index in [5, 7] {
            let error = check_witness(&log(), Some(&point(index, "b"))).unwrap_err();
            assert!(matches!(error, WitnessError::Replaced { .. }), "{error}");
        }
    }
}
