//! A client's end of a connection with a call on it.

use std::time::Duration;

use holdfast_replica::world::NodeId;
use tokio::sync::oneshot;

use crate::sim::executor::{self, WORLD, true_sleep};
use crate::sim::network::Network;

/// A connection that is closed says so again and again, for a while.
const FIN_TRIES: u64 = 40;
const FIN_AGAIN: Duration = Duration::from_millis(200);

/// When it is dropped, word of it travels to the node as a message does: behind a cut the node goes on waiting.
pub(super) struct Connection {
    pub(super) network: Network,
    pub(super) client: u64,
    pub(super) node: NodeId,
    pub(super) hang_up: Option<oneshot::Sender<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(hang_up) = self.hang_up.take() else { return };
        let (network, client, node) = (self.network.clone(), self.client, self.node);
        executor::spawn_on(WORLD, async move {
            for _ in 0..FIN_TRIES {
                if network.cross(client, node).await {
                    break;
                }
                true_sleep(FIN_AGAIN).await;
            }
            drop(hang_up);
        });
    }
}
