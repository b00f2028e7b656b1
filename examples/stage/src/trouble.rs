//! Why a demo cannot go on.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Something other than a failed check: the demo has no end to tell.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A program could not be started.
    #[error("{} could not be started: {source}", .program.display())]
    NotStarted {
        /// What was to be started.
        program: OsString,
        /// Why not.
        source: io::Error,
    },
    /// The program that serves the cluster is not where cargo puts it.
    #[error("there is no {}: build the whole workspace first (cargo build --workspace)", .0.display())]
    NoProgram(PathBuf),
    /// What had to happen did not happen in time.
    #[error("{name} did not {what} within {} s", .patience.as_secs_f64())]
    Late {
        /// Who.
        name: String,
        /// What, as a verb.
        what: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A worker ended before it did what it had to do.
    #[error("{name} had ended before it could {what}")]
    Ended {
        /// Who.
        name: String,
        /// What, as a verb.
        what: &'static str,
    },
    /// Workers ended without a word that had to come.
    #[error("{names} ended without saying \"{words}\"")]
    Silent {
        /// Who.
        names: String,
        /// How the line had to begin.
        words: String,
    },
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something that is the example's own.
    #[error("{0}")]
    Other(String),
}

impl Trouble {
    /// Trouble of the example's own.
    pub fn other(error: impl std::fmt::Display) -> Self {
        Self::Other(error.to_string())
    }
}
