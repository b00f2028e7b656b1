//! The HTTP API as clients see it, on a real node over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that meets a surprise has failed")]

mod client;
mod elections;
mod errors;
mod lock_metrics;
mod malformed;
mod many;
mod names;
mod operations;
mod secrets;
mod sessions;
mod several_nodes;
mod sharing;
mod stopping;
mod terms;
mod waiting;
