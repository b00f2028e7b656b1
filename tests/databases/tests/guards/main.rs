//! What the fence guards in `guards/` promise, on real databases and on an object store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the test runner shows what a failed test said")]

mod in_the_row;
mod mariadb;
mod object_store;
mod objects;
mod postgresql;
mod promises;
mod races;
mod sqlite;
mod store;
