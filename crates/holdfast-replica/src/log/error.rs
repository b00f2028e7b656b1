//! Why a log does not open, and what was found when it does.

use std::io;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It is not what this node once wrote: it may have lost what was acknowledged.
    #[error(
        "{file} is damaged at offset {offset} ({}): {what}. This node must not start with it. Remove the node from \
         the cluster, then let it join anew with an empty data folder",
        near(.index)
    )]
    Damaged {
        /// Name of the file in the node's folder.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The entry that should be there or is the next to come, if that is known.
        index: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// Another version of the program wrote it.
    #[error(
        "{file} has format {found}, this program reads format {known} only. Start the version of the program that \
         wrote it"
    )]
    OtherVersion {
        /// Name of the file in the node's folder.
        file: String,
        /// Version found.
        found: u32,
        /// Version this program knows.
        known: u32,
    },
    /// The disk failed.
    #[error("the log cannot be opened: {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the disk said.
        source: io::Error,
    },
}

/// What opening a log has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Whether there was no log before.
    pub fresh: bool,
    /// The incomplete tail that was cut off, if there was one.
    pub trimmed: Option<TrimmedTail>,
}

/// An incomplete tail that a crash had left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrimmedTail {
    /// Name of the file in the node's folder.
    pub file: String,
    /// Where the tail began, in bytes. At 0 the file was removed: it had only been begun.
    pub offset: u64,
    /// How much was cut off, in bytes.
    pub bytes: u64,
    /// What was wrong with it.
    pub what: String,
}

fn near(index: &Option<u64>) -> String {
    index.map_or_else(|| "no entry is known".to_owned(), |index| format!("near entry {index}"))
}
