//! A value that can be waited on: what tokio's watch channel is, but that it wakes in the order of waiting.
//!
//! tokio's draws lots whom to wake first, outside the runtime's own chance, so that a simulation could not be repeated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: T,
    version: u64,
    next_waiter: u64,
    /// Those who wait for the next change, by number, in the order of waiting.
    waiters: BTreeMap<u64, Waker>,
}

/// Holds the value. Cheap to clone: all clones hold the same.
pub(crate) struct Watched<T>(Arc<Mutex<State<T>>>);

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Send> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = State { value, version: 0, next_waiter: 0, waiters: BTreeMap::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The value as it is now.
    pub(crate) fn get(&self) -> T {
        self.lock().value.clone()
    }

    /// Replaces the value and wakes everybody.
    pub(crate) fn set(&self, value: T) {
        self.change(|current| {
            *current = value;
            true
        });
    }

    /// Changes the value in place; says whether it did, and wakes everybody if so.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        let woken = {
            let mut state = self.lock();
            if !change(&mut state.value) {
                return;
            }
            state.version += 1;
            std::mem::take(&mut state.waiters)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Looks at the value from now on.
    pub(crate) fn watch(&self) -> Watch<T> {
        Watch { watched: self.clone(), seen: self.lock().version }
    }

    /// Resolves with the first value, the present one included, that fits.
    pub(crate) async fn wait_for(&self, fits: impl Fn(&T) -> bool) -> T {
        let mut watch = self.watch();
        loop {
            let value = watch.take();
            if fits(&value) {
                return value;
            }
            watch.changed().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().expect("no code panics while it holds this")
    }
}

/// Somebody who looks at a value and has seen it up to some change.
pub(crate) struct Watch<T> {
    watched: Watched<T>,
    seen: u64,
}

impl<T: Clone + Send> Watch<T> {
    /// The value as it is now, which counts as seen.
    pub(crate) fn take(&mut self) -> T {
        let state = self.watched.lock();
        self.seen = state.version;
        state.value.clone()
    }

    /// Resolves once there is a value that was not seen.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + Send + use<T> {
        Changed { watched: self.watched.clone(), seen: self.seen, waiter: None }
    }
}

struct Changed<T: Clone + Send> {
    watched: Watched<T>,
    seen: u64,
    waiter: Option<u64>,
}

impl<T: Clone + Send> Future for Changed<T> {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let watched = self.watched.clone();
        let mut state = watched.lock();
        if state.version != self.seen {
            return Poll::Ready(());
        }
        let waiter = *self.waiter.get_or_insert(state.next_waiter);
        state.next_waiter = state.next_waiter.max(waiter + 1);
        state.waiters.insert(waiter, cx.waker().clone());
        Poll::Pending
    }
}

impl<T: Clone + Send> Drop for Changed<T> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.watched.lock().waiters.remove(&waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_is_seen_once_by_each_who_watches() {
        let watched = Watched::new(1);
        let (mut a, b) = (watched.watch(), watched.watch());
        assert!(a.changed().now_or_never().is_none());
        watched.set(2);
        assert!(a.changed().now_or_never().is_some());
        assert_eq!(a.take(), 2);
        assert!(a.changed().now_or_never().is_none());
        assert!(b.changed().now_or_never().is_some());
    }

    #[test]
    fn a_change_that_changes_nothing_wakes_nobody() {
        let watched = Watched::new(1);
        let watch = watched.watch();
        watched.change(|_| false);
        assert!(watch.changed().now_or_never().is_none());
    }

    #[test]
    fn waiting_ends_with_the_first_value_that_fits() {
        let watched = Watched::new(1);
        assert_eq!(watched.wait_for(|value| *value == 1).now_or_never(), Some(1));
        assert_eq!(watched.wait_for(|value| *value == 2).now_or_never(), None);
    }

    #[tokio::test]
    async fn a_waiter_is_woken_by_the_change() {
        let watched = Watched::new(1);
        let waiting = watched.wait_for(|value| *value == 2);
        let changing = async { watched.set(2) };
        assert_eq!(tokio::join!(waiting, changing).0, 2);
    }
}
