//! The log against crashes, torn tails, damage and full disks.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of adapters to the real world"
)]
#![allow(clippy::unwrap_used, reason = "a helper that fails has failed the test")]

#[path = "storage_log/crashes.rs"]
mod crashes;
#[path = "storage_log/damage.rs"]
mod damage;
#[path = "storage_log/folder.rs"]
mod folder;
#[path = "storage_log/full_disk.rs"]
mod full_disk;
#[path = "storage_log/model.rs"]
mod model;
#[path = "storage_log/steps.rs"]
mod steps;
