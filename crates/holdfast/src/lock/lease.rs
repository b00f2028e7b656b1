//! When a command must be told to stop, so that it is gone before the lease is over anywhere.

use std::time::Duration;

use holdfast_client::Moment;

const GRACE_MAX: Duration = Duration::from_secs(5);
const LEAD_MIN: Duration = Duration::from_millis(10);
const LEAD_MAX: Duration = Duration::from_secs(1);

/// The last moments of a lease that is not renewed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastMoments {
    /// The command's group is told to stop (SIGTERM).
    pub(crate) terminate_at: Moment,
    /// What is left of it is killed (SIGKILL).
    pub(crate) kill_at: Moment,
}

impl LastMoments {
    /// Counted back from the local deadline, which itself lies the library's safety margin before the lease's end.
    ///
    /// The kill comes a twentieth of the TTL before the deadline (10 ms to 1 s), so that the kernel has time for it.
    /// Before that the group has a sixth of the TTL to end by itself, at most 5 s and at most `grace_max`.
    pub(crate) fn before(deadline: Moment, ttl: Duration, grace_max: Duration) -> Self {
        let kill_at = deadline.before((ttl / 20).clamp(LEAD_MIN, LEAD_MAX));
        let grace = (ttl / 6).min(GRACE_MAX).min(grace_max);
        Self { terminate_at: kill_at.before(grace), kill_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_client::{Clock, safety_margin};

    #[test]
    fn a_renewal_may_fail_for_more_than_a_third_of_the_lease_before_the_command_notices() {
        for ttl in [100, 500, 1_000, 3_000, 10_000, 60_000, 3_600_000].map(Duration::from_millis) {
            let sent = Clock::system().now();
            let deadline = sent.after(ttl - safety_margin(ttl));
            let moments = LastMoments::before(deadline, ttl, Duration::from_secs(10));
            assert!(moments.terminate_at > sent.after(ttl / 2), "{ttl:?}");
            assert!(moments.terminate_at < moments.kill_at && moments.kill_at < deadline, "{ttl:?}");
        }
    }
}
