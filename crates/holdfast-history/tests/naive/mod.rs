//! A naive lock service with seeded clients: it makes histories that are right, and, with a bug in it, ones that are not.

mod chance;
mod clients;
mod service;

pub(crate) use clients::{Plan, run};
pub(crate) use service::Bug;
