//! One member of a cluster: consensus, storage, peers, proposals, waiting, reads.
pub mod handle;
pub mod node;
pub mod peers;
pub mod replica;
pub mod disk;
pub mod identity;
pub mod log;
pub mod node_store;
pub mod snapshot_files;
pub mod world;
