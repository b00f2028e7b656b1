//! One client in its loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::plan::Workload;
use crate::tally::Tally;
use crate::target::{LockClient, Settings, Target, TargetError};

/// How long a client of the hot lock waits for its turn: longer than any measurement's queue.
const HOT_WAIT: Duration = Duration::from_secs(60);
/// Between a failure and the next try, so that a system that is down is not asked all the time.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// One client, its connection and its part of the measurement.
pub(crate) struct Session<T: Target> {
    target: Arc<T>,
    client: T::Client,
    settings: Settings,
    tally: Arc<Tally>,
    /// What all locks of the measurement begin with.
    prefix: Arc<str>,
    /// How often it failed: a lock that it lost track of is not asked for again.
    generation: u64,
}

impl<T: Target> Session<T> {
    pub(crate) async fn connect(
        target: Arc<T>,
        settings: Settings,
        tally: Arc<Tally>,
        prefix: Arc<str>,
    ) -> Result<Self, TargetError> {
        let client = target.connect(settings.clone()).await?;
        Ok(Self { target, client, settings, tally, prefix, generation: 0 })
    }

    /// Goes on until the measurement is over.
    pub(crate) async fn run(mut self, workload: Workload) {
        while !self.tally.is_over() {
            let result = match workload {
                Workload::Single | Workload::Pairs => self.pairs().await,
                Workload::Hot => self.hot().await,
                Workload::Renew => self.renewals().await,
            };
            if let Err(error) = result {
                self.tally.failed(error);
                self.start_anew().await;
            }
        }
    }

    async fn pairs(&mut self) -> Result<(), TargetError> {
        let name = self.own_lock();
        while !self.tally.is_over() {
            self.acquire(&name, Duration::ZERO).await?;
            self.client.release().await?;
            self.tally.done();
        }
        Ok(())
    }

    async fn hot(&mut self) -> Result<(), TargetError> {
        let name = format!("{}.hot", self.prefix);
        while !self.tally.is_over() {
            self.acquire(&name, HOT_WAIT).await?;
            self.tally.done();
            self.client.release().await?;
        }
        Ok(())
    }

    async fn renewals(&mut self) -> Result<(), TargetError> {
        let name = self.own_lock();
        // Not one of those that are measured.
        self.client.acquire(&name, Duration::ZERO).await?;
        while !self.tally.is_over() {
            self.client.renew().await?;
            self.tally.done();
        }
        self.client.release().await
    }

    async fn acquire(&mut self, name: &str, wait: Duration) -> Result<(), TargetError> {
        let start = Instant::now();
        self.client.acquire(name, wait).await?;
        self.tally.acquired(start.elapsed());
        Ok(())
    }

    fn own_lock(&self) -> String {
        format!("{}.{}.{}", self.prefix, self.settings.number, self.generation)
    }

    /// After a failure nobody knows what the connection and the lock are good for: takes new ones.
    async fn start_anew(&mut self) {
        self.generation += 1;
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        match self.target.connect(self.settings.clone()).await {
            Ok(client) => self.client = client,
            Err(error) => self.tally.failed(error),
        }
    }
}
