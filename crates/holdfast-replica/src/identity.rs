//! Who a data folder belongs to.

/// Identifies a data folder, for ever: chosen at random when the folder is made.
pub type StorageId = u128;
