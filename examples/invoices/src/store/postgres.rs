//! The store in a PostgreSQL database.

use ::postgres::{Client, GenericClient, NoTls, Row, Transaction};

use super::{Customer, Invoice, InvoiceStore, Pass, Ruling, StaleFence, StoreError, Written, sql};
use super::{from_column, to_column};

/// The key of the advisory lock around the making of the tables: any number that is always the same.
const MAKING_TABLES: i64 = 0x686f_6c64;

/// Invoices in a PostgreSQL database, over a connection without TLS.
pub struct PostgresStore {
    client: Client,
}

impl PostgresStore {
    /// Connects to a `postgres://` URL.
    ///
    /// It must not be used or dropped on an async runtime's own thread: the client has a runtime inside.
    ///
    /// # Errors
    /// No such database, or it cannot be used.
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        let mut store = Self { client: Client::connect(url, NoTls)? };
        store.transaction(|transaction| {
            // `IF NOT EXISTS` alone is no protection: of two that make the same table at once, one fails.
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING_TABLES])?;
            Ok(transaction.batch_execute(sql::TABLES)?)
        })?;
        Ok(store)
    }

    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = self.client.transaction()?;
        let result = work(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl InvoiceStore for PostgresStore {
    fn add_customers(&mut self, count: u32) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            for id in 1..=i64::from(count) {
                transaction.execute(sql::ADD_CUSTOMER, &[&id, &sql::fee_cents(id)])?;
            }
            Ok(())
        })
    }

    fn remove_customer(&mut self, id: i64) -> Result<(), StoreError> {
        self.client.execute(sql::REMOVE_CUSTOMER, &[&id])?;
        Ok(())
    }

    fn customers(&mut self) -> Result<Vec<Customer>, StoreError> {
        let rows = self.client.query(sql::CUSTOMERS, &[])?;
        Ok(rows.iter().map(|row| Customer { id: row.get(0), fee_cents: row.get(1) }).collect())
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
            let fence = to_column(*fence);
            let is_new = transaction
                .execute(sql::ADD_INVOICE, &[customer, month, amount_cents, &fence, written_by])?
                == 1;
            Ok(Ok(if is_new { Written::New } else { Written::Already }))
        })
    }

    fn invoices(&mut self, month: &str) -> Result<Vec<Invoice>, StoreError> {
        Ok(self.client.query(sql::INVOICES, &[&month])?.iter().map(invoice).collect())
    }

    fn newest_fence(&mut self, lock: &str) -> Result<Option<u64>, StoreError> {
        newest_fence(&mut self.client, lock)
    }
}

fn invoice(row: &Row) -> Invoice {
    Invoice {
        customer: row.get(0),
        month: row.get(1),
        amount_cents: row.get(2),
        fence: from_column(row.get(3)),
        written_by: row.get(4),
    }
}

fn raise_fence(transaction: &mut Transaction<'_>, lock: &str, fence: u64) -> Result<Ruling<()>, StoreError> {
    if transaction.execute(sql::RAISE_FENCE, &[&lock, &to_column(fence)])? == 1 {
        return Ok(Ok(()));
    }
    let newest = newest_fence(transaction, lock)?.expect("an older fence is older than one that is there");
    Ok(Err(StaleFence { fence, newest }))
}

fn newest_fence(client: &mut impl GenericClient, lock: &str) -> Result<Option<u64>, StoreError> {
    Ok(client.query_opt(sql::NEWEST_FENCE, &[&lock])?.map(|row| from_column(row.get(0))))
}
