//! The rules of the locks, told as stories: what people do at which time, and what has to come of it.

#![allow(clippy::unwrap_used, reason = "what a story cannot go on without has to be there")]

mod deadlocks;
mod deed;
mod elections;
mod events;
mod fences;
mod forced;
mod happened;
mod identity;
mod leases;
mod many;
mod many_deed;
mod names_and_limits;
mod once;
mod presence;
mod queue;
mod sessions;
mod sessions_beside;
mod sharing;
mod snapshot;
mod story;
mod terms;
mod tokens;
mod watched;
