//! The store in an SQLite file.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{Customer, Invoice, InvoiceStore, Pass, Ruling, StaleFence, StoreError, Written, sql};
use super::{from_column, to_column};

/// How long a transaction waits for another process's: SQLite lets one write at a time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Invoices in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
}

impl SqliteStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// SQLite cannot use it.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut store = Self { connection };
        store.transaction(|transaction| Ok(transaction.execute_batch(sql::TABLES)?))?;
        Ok(store)
    }

    /// Immediate: it takes the right to write before it reads, so that nothing that it has read can change.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl InvoiceStore for SqliteStore {
    fn add_customers(&mut self, count: u32) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            for id in 1..=i64::from(count) {
                transaction.execute(sql::ADD_CUSTOMER, params![id, sql::fee_cents(id)])?;
            }
            Ok(())
        })
    }

    fn remove_customer(&mut self, id: i64) -> Result<(), StoreError> {
        self.connection.execute(sql::REMOVE_CUSTOMER, [id])?;
        Ok(())
    }

    fn customers(&mut self) -> Result<Vec<Customer>, StoreError> {
        let mut statement = self.connection.prepare(sql::CUSTOMERS)?;
        let rows = statement.query_map([], |row| Ok(Customer { id: row.get(0)?, fee_cents: row.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn begin_run(&mut self, pass: &Pass) -> Result<Ruling<()>, StoreError> {
        self.transaction(|transaction| raise_fence(transaction, &pass.lock, pass.fence))
    }

    fn write(&mut self, lock: &str, invoice: &Invoice) -> Result<Ruling<Written>, StoreError> {
        self.transaction(|transaction| {
            if let Err(stale) = raise_fence(transaction, lock, invoice.fence)? {
                return Ok(Err(stale));
            }
            let Invoice { customer, month, amount_cents, fence, written_by } = invoice;
            let row = params![customer, month, amount_cents, to_column(*fence), written_by];
            let is_new = transaction.execute(sql::ADD_INVOICE, row)? == 1;
            Ok(Ok(if is_new { Written::New } else { Written::Already }))
        })
    }

    fn invoices(&mut self, month: &str) -> Result<Vec<Invoice>, StoreError> {
        let mut statement = self.connection.prepare(sql::INVOICES)?;
        let rows = statement.query_map([month], |row| {
            Ok(Invoice {
                customer: row.get(0)?,
                month: row.get(1)?,
                amount_cents: row.get(2)?,
                fence: from_column(row.get(3)?),
                written_by: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn newest_fence(&mut self, lock: &str) -> Result<Option<u64>, StoreError> {
        newest_fence(&self.connection, lock)
    }
}

fn raise_fence(transaction: &Transaction<'_>, lock: &str, fence: u64) -> Result<Ruling<()>, StoreError> {
    if transaction.execute(sql::RAISE_FENCE, params![lock, to_column(fence)])? == 1 {
        return Ok(Ok(()));
    }
    let newest = newest_fence(transaction, lock)?.expect("an older fence is older than one that is there");
    Ok(Err(StaleFence { fence, newest }))
}

fn newest_fence(connection: &Connection, lock: &str) -> Result<Option<u64>, StoreError> {
    let mut statement = connection.prepare(sql::NEWEST_FENCE)?;
    let mut rows = statement.query_map([lock], |row| row.get(0))?;
    Ok(rows.next().transpose()?.map(from_column))
}
