//! What a node does not take any more as its disk fills up.

use std::sync::atomic::{AtomicU64, Ordering};

/// With less free space on the disk, in bytes, nothing new is taken.
pub(crate) const SPACE_BYTES_MIN: u64 = 16 << 20;
/// With less, a leader that cannot get rid of its part puts nothing into its log: it would wait there for room.
const ROOM_BYTES_MIN: u64 = 256 << 10;

/// Free space on the disk when it was last looked at.
#[derive(Debug)]
pub(crate) struct Space(AtomicU64);

impl Default for Space {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Space {
    /// In bytes.
    pub(crate) fn set_free(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// No new attempts: what is left is for those who hold something.
    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) < SPACE_BYTES_MIN
    }

    /// Nothing at all.
    pub(crate) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) < ROOM_BYTES_MIN
    }
}
