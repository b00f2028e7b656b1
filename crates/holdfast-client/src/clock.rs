//! The clock that leases are measured with on the holder's side.
//!
//! Neither a wall clock (it jumps) nor `std::time::Instant` (on Linux it stands still while the machine is
//! suspended): a laptop that wakes up must find its lease over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep without a look at the clock: timers stand still in a suspended machine, the clock does not.
const SLICE: Duration = Duration::from_millis(250);

/// A point in time, as a span since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this much later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The moment this much earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }

    /// The span from `earlier` until this moment; zero where that comes later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A clock that never goes back and also runs while the machine is suspended.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    /// The system's: `CLOCK_BOOTTIME` on Linux.
    pub fn system() -> Self {
        Self::from_fn(since_boot)
    }

    /// A clock that tests of a program move by hand.
    pub fn from_fn(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        Moment((self.read)())
    }

    /// Sleeps until a moment; after a suspension it notices within 250 ms that the moment has passed.
    pub async fn sleep_until(&self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(SLICE)).await;
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK_ID: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK_ID: libc::clockid_t = libc::CLOCK_MONOTONIC;

fn since_boot() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own, which the call fills.
    let status = unsafe { libc::clock_gettime(CLOCK_ID, &raw mut time) };
    assert_eq!(status, 0, "every supported system has this clock");
    let seconds = u64::try_from(time.tv_sec).expect("a machine is not started in the future");
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below 10^9");
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_runs_forward() {
        let clock = Clock::system();
        let first = clock.now();
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while clock.now() == first {
            assert!(std::time::Instant::now() < deadline, "the clock stands still");
        }
        assert!(clock.now() > first);
    }

    #[test]
    fn a_span_into_the_future_counts_as_none() {
        let now = Clock::system().now();
        assert_eq!(now.since(now.after(Duration::from_secs(1))), Duration::ZERO);
    }
}
