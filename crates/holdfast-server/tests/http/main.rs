//! The HTTP API as clients see it, on a real node over real sockets.

mod client;
mod errors;
mod malformed;
mod names;
mod operations;
mod secrets;
mod several_nodes;
mod stopping;
mod waiting;
