//! The network between the nodes, over real sockets on the loopback device.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of adapters to the real world"
)]
#![allow(clippy::unwrap_used, reason = "a test may")]
#![allow(unreachable_pub, reason = "a test program has no outside")]

mod calls;
mod failures;
mod frames;
mod garbage;
mod lanes;
mod refusals;
mod support;
