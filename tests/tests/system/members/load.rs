//! Clients that hold locks and renew them through all nodes, and remember how long that took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Client, Roamer};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Some holders that renew until they are told to stop.
pub(super) struct Load {
    holders: JoinSet<(String, u64, Duration)>,
    stop: watch::Sender<bool>,
    roamer: Roamer,
}

/// Leases are short enough to run out, were renewals to fail for a while.
const TTL_MS: u64 = 5_000;
const BETWEEN: Duration = Duration::from_millis(20);

impl Load {
    /// So many holders, that use the nodes at these URLs.
    pub(super) async fn start(name: &str, urls: &[String], holders: usize) -> Self {
        let (stop, _) = watch::channel(false);
        let urls = Arc::new(urls.to_vec());
        let roamer = |first| Roamer::new(urls.iter().map(Client::new).collect(), first);
        let mut all = JoinSet::new();
        for number in 0..holders {
            let (roamer, attempt) = (roamer(number), Attempt::at(format!("{name}-{number}")).ttl_ms(TTL_MS));
            let fence = roamer.acquire(&attempt).await.ok().fence();
            let stopped = stop.subscribe();
            all.spawn(renew_until(stopped, roamer, attempt, fence));
        }
        Self { holders: all, stop, roamer: roamer(0) }
    }

    /// Stops, checks that nobody has lost anything, and gives the longest time between two renewals.
    pub(super) async fn stop(self) -> Duration {
        self.stop.send_replace(true);
        let mut longest = Duration::ZERO;
        for (lock, fence, gap) in self.holders.join_all().await {
            assert_eq!(self.roamer.lock(&lock).await.held_fence(), Some(fence), "{lock}");
            longest = longest.max(gap);
        }
        longest
    }
}

async fn renew_until(
    stopped: watch::Receiver<bool>,
    roamer: Roamer,
    attempt: Attempt,
    fence: u64,
) -> (String, u64, Duration) {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !*stopped.borrow() {
        assert_eq!(roamer.renew(&attempt).await.ok().fence(), fence, "{}", attempt.lock);
        longest = longest.max(last.elapsed());
        last = Instant::now();
        holdfast_tests::let_pass(BETWEEN).await;
    }
    (attempt.lock, fence, longest)
}
