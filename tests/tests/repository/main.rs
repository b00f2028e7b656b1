//! What has to hold for the repository as a whole: which crate knows which, what is documented, what tests may do.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod codes;
mod dependencies;
mod files;
mod guarantees;
mod links;
mod tests_behave;
