//! The runtime that replicas get: the scheduler's time, tasks and chance.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use holdfast_replica::world::AsyncRuntime;
use holdfast_replica::world::runtime::{Instant, OptionalSend, TokioMpsc, TokioMutex, TokioOneshot};
use openraft_rt_sim::SimWatch;
use rand::rngs::SmallRng;

use super::executor::{self, Nanos, Sleep};

/// The runtime of simulated nodes.
#[derive(Debug)]
pub(crate) struct SimRuntime;

/// A moment on a node's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SimInstant(Nanos);

fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 4)
}

impl Add<Duration> for SimInstant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for SimInstant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for SimInstant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl SubAssign<Duration> for SimInstant {
    fn sub_assign(&mut self, span: Duration) {
        *self = *self - span;
    }
}

impl Sub for SimInstant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Instant for SimInstant {
    fn now() -> Self {
        Self(executor::local_now())
    }
}

/// A future with a deadline.
pub(crate) struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Pin<Box<Sleep>>,
}

/// The deadline came first.
#[derive(Debug)]
pub(crate) struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline came first")
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        self.sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
    }
}

/// A task that can be waited for.
pub(crate) struct Handle<T>(tokio::sync::oneshot::Receiver<T>);

/// The task was killed.
#[derive(Debug)]
pub(crate) struct Killed;

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task was killed")
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, Killed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|told| told.map_err(|_| Killed))
    }
}

impl AsyncRuntime for SimRuntime {
    type JoinError = Killed;
    type JoinHandle<T: OptionalSend + 'static> = Handle<T>;
    type Sleep = Sleep;
    type Instant = SimInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = TokioMpsc;
    type Watch = SimWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Handle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let (tell, told) = tokio::sync::oneshot::channel();
        executor::spawn_on(executor::running_on(), async move {
            let _ = tell.send(future.await); // Nobody may wait for it.
        });
        Handle(told)
    }

    fn sleep(span: Duration) -> Sleep {
        Self::sleep_until(SimInstant::now() + span)
    }

    fn sleep_until(moment: SimInstant) -> Sleep {
        Sleep::until(moment.0)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(span: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Box::pin(Self::sleep(span)) }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(moment: SimInstant, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Box::pin(Self::sleep_until(moment)) }
    }

    fn is_panic(_: &Killed) -> bool {
        false
    }

    fn thread_rng() -> SmallRng {
        executor::fork_chance()
    }

    fn new(_: usize) -> Self {
        Self
    }

    fn block_on<F: Future<Output = T>, T>(&mut self, _: F) -> T {
        unreachable!("a run is driven by its scheduler")
    }
}
