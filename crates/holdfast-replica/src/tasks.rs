//! The tasks of a replica: they end when it closes, and closing waits for them.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::world::Runtime;

/// Tells a task that the replica is closing.
#[derive(Clone, Debug)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Resolves once the replica is closing.
    pub(crate) async fn closed(&self) {
        let mut closing = self.0.clone();
        let _ = closing.wait_for(|closing| *closing).await; // A vanished sender means closing, too.
    }

    /// Whether the replica is closing.
    pub(crate) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }
}

/// Owner of all tasks of a replica.
pub(crate) struct Tasks<R: Runtime> {
    closing: watch::Sender<bool>,
    handles: Arc<Mutex<Vec<R::JoinHandle<()>>>>,
}

impl<R: Runtime> Tasks<R> {
    pub(crate) fn new() -> Self {
        Self { closing: watch::Sender::new(false), handles: Arc::default() }
    }

    pub(crate) fn closing(&self) -> Closing {
        Closing(self.closing.subscribe())
    }

    /// Starts a task that ends by itself once the replica is closing.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = R::spawn(task);
        self.handles.lock().expect("no code panics while it holds this").push(handle);
    }

    /// Tells all tasks to end and waits until they have.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        loop {
            let handle = self.handles.lock().expect("no code panics while it holds this").pop();
            match handle {
                Some(handle) => drop(handle.await), // A task that has panicked has ended as well.
                None => return,
            }
        }
    }
}
