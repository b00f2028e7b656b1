//! The program as its users see it: processes, statuses, output. Most of it against a server that follows a script.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod check;
mod commands;
mod dev;
mod elections;
#[path = "../../../holdfast-client/tests/client/fake.rs"]
#[allow(dead_code, reason = "the library's tests use the rest")]
mod fake;
mod groups;
mod losses;
mod processes;
mod pty;
mod sessions;
mod signals;
mod statuses;
mod terms;
mod waiting;
