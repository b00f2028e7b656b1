//! The runtimes that commands run on.

use crate::exit::Failure;

/// For one call, or one command under a lock: everything on this thread.
pub(crate) fn single_threaded() -> Result<tokio::runtime::Runtime, Failure> {
    started(tokio::runtime::Builder::new_current_thread().enable_all().build())
}

/// For nodes: all cores.
pub(crate) fn multi_threaded() -> Result<tokio::runtime::Runtime, Failure> {
    started(tokio::runtime::Builder::new_multi_thread().enable_all().build())
}

fn started(result: std::io::Result<tokio::runtime::Runtime>) -> Result<tokio::runtime::Runtime, Failure> {
    result.map_err(|error| Failure::other(format!("cannot start the runtime: {error}")))
}
