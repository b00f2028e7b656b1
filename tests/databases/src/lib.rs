//! Database servers of a test's own: in a temporary folder, on a Unix socket, without root's rights.
//!
//! A server ends with the value that stands for it, also when the test panics.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "only tests use it, and the runner shows what they said"
)]

mod mariadb;
mod postgres;
mod server;

pub use self::mariadb::PrivateMariadb;
pub use self::postgres::PrivatePostgres;
