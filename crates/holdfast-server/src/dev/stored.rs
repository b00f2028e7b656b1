//! What a folder knows of the development cluster in it: its nodes have kept each other's ports.

use std::io::ErrorKind;
use std::path::Path;

use crate::node::ServeError;

/// Lies beside the folders of the nodes.
const FILE: &str = "dev-cluster";

/// How a folder's cluster was started. It can only be started again in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) nodes: u16,
    /// Client port of the first node. 0: any free ports, which it does not get a second time.
    pub(super) base_port: u16,
}

impl Shape {
    /// Fails if the folder has a cluster that would look for its nodes at other ports.
    ///
    /// # Errors
    /// The refusal says how the cluster can be started, if it can.
    pub(super) fn check(self, folder: &Path) -> Result<(), ServeError> {
        let stored = match Self::load(folder)? {
            Some(stored) if stored == self && self.base_port != 0 => return Ok(()),
            None if self.base_port != 0 || !folder.join("node-1").exists() => return Ok(()),
            stored => stored,
        };
        let advice = match stored {
            Some(Self { base_port: 0, .. }) => {
                "on free ports, which it cannot get again: use another folder, and a --base-port for one that is to \
                 stay"
                .into()
            }
            Some(Self { nodes, base_port }) => format!(
                "with --nodes {nodes} --base-port {base_port}: start it so, or use another folder"
            ),
            None => "on ports of its own: give its --base-port, or use another folder".into(),
        };
        let what = format!("{} has a cluster in it already, started {advice}", folder.display());
        Err(ServeError::Refused(what))
    }

    /// Notes how the folder's cluster is started.
    ///
    /// # Errors
    /// The folder cannot be made, or not be written to.
    pub(super) fn save(self, folder: &Path) -> Result<(), ServeError> {
        let Self { nodes, base_port } = self;
        std::fs::create_dir_all(folder).map_err(ServeError::Folder)?;
        std::fs::write(folder.join(FILE), format!("{nodes} {base_port}\n")).map_err(ServeError::Folder)
    }

    fn load(folder: &Path) -> Result<Option<Self>, ServeError> {
        let text = match std::fs::read_to_string(folder.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServeError::Folder(error)),
        };
        let numbers = text.trim_end().split_once(' ');
        // A file that was cut short says nothing.
        Ok(numbers.and_then(|(nodes, port)| {
            Some(Self { nodes: nodes.parse().ok()?, base_port: port.parse().ok()? })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(shape: Shape, folder: &Path) -> String {
        shape.check(folder).unwrap_err().to_string()
    }

    #[test]
    fn a_cluster_starts_again_only_as_it_was_started_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = Shape { nodes: 3, base_port: 7301 };
        first.check(folder.path()).unwrap();
        first.save(folder.path()).unwrap();
        first.check(folder.path()).unwrap();
        for other in
            [Shape { base_port: 0, ..first }, Shape { base_port: 7401, ..first }, Shape { nodes: 1, ..first }]
        {
            assert!(refusal(other, folder.path()).contains("--nodes 3 --base-port 7301"), "{other:?}");
        }
    }

    #[test]
    fn a_cluster_on_free_ports_does_not_start_again() {
        let folder = tempfile::tempdir().unwrap();
        let free = Shape { nodes: 3, base_port: 0 };
        free.check(folder.path()).unwrap();
        free.save(folder.path()).unwrap();
        for again in [free, Shape { base_port: 7301, ..free }] {
            assert!(refusal(again, folder.path()).contains("use another folder"), "{again:?}");
        }
    }

    #[test]
    fn free_ports_are_refused_for_a_node_of_unknown_ports() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("node-1")).unwrap();
        assert!(refusal(Shape { nodes: 3, base_port: 0 }, folder.path()).contains("--base-port"));
    }
}
