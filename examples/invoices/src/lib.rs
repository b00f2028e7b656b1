//! The nightly invoices: a job that starts on every machine and must run on one of them.
//!
//! [`job::run_once`] is what one instance does. [`store`] is where the fence of the lock is checked, in the same
//! transaction as the write. [`demo::play`] shows both on processes of their own.

pub mod args;
pub mod demo;
pub mod job;
pub mod month;
pub mod report;
pub mod store;
