//! The tasks of a replica: they end when it closes, and closing waits for them.

use std::sync::{Arc, Mutex};

use crate::watch::Watched;
use crate::world::Runtime;

/// Tells a task that the replica is closing.
#[derive(Clone)]
pub(crate) struct Closing(Watched<bool>);

impl Closing {
    /// Resolves once the replica is closing.
    pub(crate) async fn closed(&self) {
        self.0.wait_for(|closing| *closing).await;
    }

    /// Whether the replica is closing.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.get()
    }
}

/// Owner of all tasks of a replica.
pub(crate) struct Tasks<R: Runtime> {
    closing: Watched<bool>,
    handles: Arc<Mutex<Vec<R::JoinHandle<()>>>>,
}

impl<R: Runtime> Tasks<R> {
    pub(crate) fn new() -> Self {
        Self { closing: Watched::new(false), handles: Arc::default() }
    }

    pub(crate) fn closing(&self) -> Closing {
        Closing(self.closing.clone())
    }

    /// Starts a task that ends by itself once the replica is closing.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = R::spawn(task);
        self.handles.lock().expect("no code panics while it holds this").push(handle);
    }

    /// Tells all tasks to end and waits until they have.
    pub(crate) async fn close(&self) {
        self.closing.set(true);
        loop {
            let handle = self.handles.lock().expect("no code panics while it holds this").pop();
            match handle {
                Some(handle) => drop(handle.await), // A task that has panicked has ended as well.
                None => return,
            }
        }
    }
}
