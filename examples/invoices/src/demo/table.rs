//! What the demo reads from the store and from the cluster, to check it.

use std::time::{Duration, Instant};

use holdfast_client::Consistency;
use holdfast_client::api::LockState;
use stage::{Actor, PATIENCE, Stage, Trouble};
use tokio::task::block_in_place;

use super::Scene;
use crate::store::{self, Invoice, InvoiceStore, StoreError};

/// How often the cluster is asked whether a lock is free.
const ASK_EVERY: Duration = Duration::from_millis(20);

impl Scene {
    /// Starts an instance of the job as a process of its own.
    pub(super) fn instance(
        &self,
        stage: &mut Stage,
        name: &str,
        month: &str,
        more: &[&str],
    ) -> Result<Actor, Trouble> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["run-once", "--endpoints", &self.endpoints, "--db", &self.db]);
        command.args(["--month", month, "--lock", &lock_of(month), "--owner", name]).args(more);
        stage.start(name, command)
    }

    /// Asks the store something, over a connection of the demo's own.
    pub(super) fn store<T>(
        &self,
        ask: impl FnOnce(&mut dyn InvoiceStore) -> Result<T, StoreError>,
    ) -> Result<T, Trouble> {
        block_in_place(|| ask(&mut *store::open(&self.db)?)).map_err(Trouble::other)
    }

    pub(super) fn invoices(&self, month: &str) -> Result<Vec<Invoice>, Trouble> {
        self.store(|store| store.invoices(month))
    }

    pub(super) async fn is_free(&self, month: &str) -> Result<bool, Trouble> {
        let lock = self.client.get(&lock_of(month), Consistency::Linearizable).await;
        Ok(lock.map_err(Trouble::other)?.state == LockState::Free)
    }

    /// Returns when the cluster says that nobody holds the lock.
    pub(super) async fn until_free(&self, month: &str) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_free(month).await? {
            if Instant::now() >= deadline {
                let (name, what) = ("the lease".into(), "end".into());
                return Err(Trouble::Late { name, what, patience: PATIENCE });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// An old demo's invoices, or somebody's lock, would make the story a lie.
    pub(super) async fn must_be_untouched(&self, month: &str) -> Result<(), Trouble> {
        if !self.is_free(month).await? {
            return Err(Trouble::Other(format!("somebody holds {} already", lock_of(month))));
        }
        if !self.invoices(month)?.is_empty() {
            return Err(Trouble::Other(format!("{} has invoices of {month} already", self.db)));
        }
        Ok(())
    }
}

pub(super) fn lock_of(month: &str) -> String {
    format!("nightly-invoices:{month}")
}

/// Shows the table as it is.
pub(super) fn tell(stage: &Stage, invoices: &[Invoice]) {
    stage.story.tell("the table of invoices:");
    for Invoice { customer, month, amount_cents, fence, written_by } in invoices {
        let (euros, cents) = (amount_cents / 100, amount_cents % 100);
        stage.story.tell(format!(
            "  {month}  customer {customer}  {euros:>3}.{cents:02}  fence {fence}  {written_by}"
        ));
    }
}

/// The customers in the table, in its order.
pub(super) fn customers(invoices: &[Invoice]) -> Vec<i64> {
    invoices.iter().map(|invoice| invoice.customer).collect()
}
