//! Who a data folder belongs to: a small file, written when the folder is made.
//!
//! Five lines of text, so that a human can read it. The last is the CRC32C of the four before:
//!
//! ```text
//! holdfast identity 1
//! node 3
//! storage 9a4f…
//! cluster 07c2…
//! crc32c 1f00ab42
//! ```
//!
//! `cluster -` until the node has learnt which cluster it belongs to; that is set once.

use std::io;

use bytes::Bytes;

use crate::disk::run;
use crate::world::{Disk, DiskLane, DiskOp, NodeId};

/// Identifies a data folder, for ever: chosen at random when the folder is made.
pub type StorageId = u128;

const FILE: &str = "identity.hf";
const PART: &str = "identity.hf.part";
const TITLE: &str = "holdfast identity 1";
/// A file that is longer is not one of ours.
const LEN_MAX: usize = 4 << 10;
const CLUSTER_ID_LEN_MAX: usize = 64;

/// What a data folder says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node_id: NodeId,
    /// The folder.
    pub storage_id: StorageId,
    /// The cluster, once it is known: 1 to 64 characters of `[0-9a-z-]`.
    pub cluster_id: Option<String>,
}

/// Why there is no using an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is not what was written.
    #[error("{FILE} is damaged: {0}. {WHAT_TO_DO}")]
    Damaged(String),
    /// There is data, but nobody knows whose.
    #[error("{FILE} is missing, but the folder has {0}. {WHAT_TO_DO}")]
    Lost(String),
    /// It is fixed already, to this.
    #[error("the data folder belongs to cluster {0}")]
    OtherCluster(String),
    /// Not a cluster id.
    #[error("{0:?} is not a cluster id")]
    NoClusterId(String),
    /// The disk failed.
    #[error("{FILE}: {0}")]
    Io(io::Error),
}

const WHAT_TO_DO: &str = "This node must not start with it. Remove the node from the cluster, then let it join anew \
                          with an empty data folder";

impl Identity {
    /// Reads the identity of a folder; `None` if the folder is new.
    ///
    /// # Errors
    /// [`IdentityError::Damaged`], and [`IdentityError::Lost`] if there is a log or snapshot but no identity.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, IdentityError> {
        let files = disk.list().map_err(IdentityError::Io)?;
        if files.iter().any(|file| file == FILE) {
            let bytes = disk.read_at(FILE, 0, LEN_MAX).map_err(IdentityError::Io)?;
            return Self::parse(&bytes).map(Some).map_err(|what| IdentityError::Damaged(what.to_owned()));
        }
        match files.into_iter().find(|file| file.starts_with("log-") || file.starts_with("snap-")) {
            Some(file) => Err(IdentityError::Lost(file)),
            None => Ok(None),
        }
    }

    /// Gives a new folder its identity, durably.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn create(
        disk: &dyn Disk,
        node_id: NodeId,
        storage_id: StorageId,
    ) -> Result<Self, IdentityError> {
        let identity = Self { node_id, storage_id, cluster_id: None };
        identity.save(disk).await?;
        Ok(identity)
    }

    /// Says, durably and for ever, to which cluster the folder belongs. Saying it again is no error.
    ///
    /// # Errors
    /// [`IdentityError::OtherCluster`] if it belongs to another one; [`IdentityError::NoClusterId`].
    pub async fn set_cluster_id(&mut self, disk: &dyn Disk, cluster_id: &str) -> Result<(), IdentityError> {
        match &self.cluster_id {
            Some(known) if known == cluster_id => return Ok(()),
            Some(known) => return Err(IdentityError::OtherCluster(known.clone())),
            None if !is_cluster_id(cluster_id) => {
                return Err(IdentityError::NoClusterId(cluster_id.to_owned()));
            }
            None => {}
        }
        let known = Self { cluster_id: Some(cluster_id.to_owned()), ..self.clone() };
        known.save(disk).await?;
        *self = known;
        Ok(())
    }

    async fn save(&self, disk: &dyn Disk) -> Result<(), IdentityError> {
        let part = || PART.to_owned();
        let ops = vec![
            DiskOp::Remove { file: part() },
            DiskOp::Create { file: part() },
            DiskOp::Append { file: part(), bytes: Bytes::from(self.to_text()) },
            DiskOp::Sync { file: part() },
            DiskOp::Rename { from: part(), to: FILE.to_owned() },
            DiskOp::SyncDir,
        ];
        run(disk, DiskLane::Bulk, ops).await.map_err(IdentityError::Io)
    }

    fn to_text(&self) -> String {
        let cluster = self.cluster_id.as_deref().unwrap_or("-");
        let text =
            format!("{TITLE}\nnode {}\nstorage {:032x}\ncluster {cluster}\n", self.node_id, self.storage_id);
        format!("{text}crc32c {:08x}\n", crc32c::crc32c(text.as_bytes()))
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err("its first line is not that of an identity which this program knows");
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let node_id = field("node").and_then(|node| node.parse().ok()).ok_or("its node is not a number")?;
        let storage_id = field("storage").and_then(|id| StorageId::from_str_radix(id, 16).ok());
        let storage_id = storage_id.ok_or("its storage id is not a number")?;
        let cluster_id = field("cluster").ok_or("it has no cluster")?;
        let identity =
            Self { node_id, storage_id, cluster_id: (cluster_id != "-").then(|| cluster_id.to_owned()) };
        if identity.to_text() != text {
            return Err("its checksum is wrong");
        }
        Ok(identity)
    }
}

fn is_cluster_id(id: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'-');
    (1..=CLUSTER_ID_LEN_MAX).contains(&id.len()) && id != "-" && id.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::disk::MemoryDisk;

    const STORAGE: StorageId = 0xfeed;

    fn create(disk: &MemoryDisk) -> Identity {
        Identity::create(disk, 3, STORAGE).now_or_never().unwrap().unwrap()
    }

    fn set(identity: &mut Identity, disk: &MemoryDisk, cluster: &str) -> Result<(), IdentityError> {
        identity.set_cluster_id(disk, cluster).now_or_never().unwrap()
    }

    #[test]
    fn a_new_folder_has_no_identity_and_gets_one_that_stays() {
        let disk = MemoryDisk::new();
        assert_eq!(Identity::load(&disk).unwrap(), None);
        let made = create(&disk);
        disk.crash(|_| 0);
        assert_eq!(Identity::load(&disk).unwrap(), Some(made));
    }

    #[test]
    fn the_cluster_is_learnt_once() {
        let disk = MemoryDisk::new();
        let mut identity = create(&disk);
        assert!(matches!(set(&mut identity, &disk, "Not One"), Err(IdentityError::NoClusterId(_))));
        set(&mut identity, &disk, "07c2").unwrap();
        set(&mut identity, &disk, "07c2").unwrap();
        assert!(matches!(set(&mut identity, &disk, "07c3"), Err(IdentityError::OtherCluster(_))));
        disk.crash(|_| 0);
        assert_eq!(Identity::load(&disk).unwrap().unwrap().cluster_id.as_deref(), Some("07c2"));
    }

    #[test]
    fn a_power_cut_while_the_cluster_is_learnt_leaves_the_old_identity_or_the_new_one() {
        for steps in 0..7 {
            let disk = MemoryDisk::new();
            let mut identity = create(&disk);
            disk.stop_after(steps);
            let result = set(&mut identity, &disk, "07c2");
            disk.crash(|unsynced| unsynced / 2);
            let mut loaded = Identity::load(&disk).unwrap().unwrap();
            assert!(loaded.cluster_id.is_some() || result.is_err());
            set(&mut loaded, &disk, "07c2").unwrap();
        }
    }

    #[test]
    fn any_flipped_bit_or_missing_tail_is_refused_with_the_name_of_the_file() {
        let disk = MemoryDisk::new();
        create(&disk);
        let len = usize::try_from(disk.len(FILE).unwrap()).unwrap();
        for at in 0..len {
            let bad = disk.copy();
            bad.flip(FILE, at, (at % 8) as u8);
            assert!(Identity::load(&bad).unwrap_err().to_string().contains(FILE), "byte {at}");
            bad.cut(FILE, at);
            assert!(Identity::load(&bad).is_err(), "cut to {at}");
        }
    }

    #[test]
    fn a_folder_with_data_but_without_identity_is_refused() {
        let disk = MemoryDisk::new();
        let file = "log-00000000000000000001.hf".to_owned();
        run(&disk, DiskLane::Log, vec![DiskOp::Create { file }]).now_or_never().unwrap().unwrap();
        assert!(matches!(Identity::load(&disk), Err(IdentityError::Lost(_))));
    }
}
