//! One member of a cluster: consensus, storage, peers, proposals, waiting, reads.
pub mod world;
