//! Histories of what clients of a lock service did and were told, and the checks of what must hold of them.
//!
//! A history is lines of JSON ([`mod@format`], docs/history-format.md). The checks know the service's promises and nothing of
//! its implementation; they read no clock and do no IO. They never call a history wrong that could have come about
//! rightly, and they say which of them could not be made.

mod attempt;
mod checks;
mod conditions;
mod describe;
pub mod format;
mod history;
mod holds;
mod lease;
mod outcome;
mod picture;
mod read;
mod request;
mod share;
mod timeline;
mod verdict;
mod write;

pub use checks::check;
pub use history::{Condition, History, HistoryError, Operation};
pub use outcome::{Answer, Code, Holder, Outcome, Refusal};
pub use picture::picture;
pub use read::read;
pub use request::Request;
pub use share::Mode;
pub use timeline::Timeline;
pub use verdict::{Check, Counts, NotMade, Verdict, Violation};
pub use write::Writer;
