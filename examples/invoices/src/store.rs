//! Where invoices are kept, and where a fence is checked.
//!
//! A holder cannot know that it still holds its lock at the moment its write arrives: it may have been paused since it
//! last looked. Only the store sees both the write and what was written before it. So it keeps the newest fence that it
//! has seen for each lock, and checks and raises it **in the transaction of the write**: no write of an older holder
//! gets in once a newer one has begun.

mod postgres;
mod sql;
mod sqlite;

use std::path::Path;

pub use self::postgres::PostgresStore;
pub use self::sqlite::SqliteStore;

/// A customer, and what a month costs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customer {
    /// From 1.
    pub id: i64,
    /// In cents.
    pub fee_cents: i64,
}

/// A row of the invoices table: at most one for each customer and month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// Whose.
    pub customer: i64,
    /// `YYYY-MM`.
    pub month: String,
    /// In cents.
    pub amount_cents: i64,
    /// The fence of the hold that it was written under.
    pub fence: u64,
    /// The owner of that hold.
    pub written_by: String,
}

/// Under which grant of which lock something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The lock's name.
    pub lock: String,
    /// The grant's number.
    pub fence: u64,
}

/// The write of a holder that has been overtaken. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fence {fence} is older than {newest}, which has been here since")]
pub struct StaleFence {
    /// The writer's.
    pub fence: u64,
    /// The newest that the store has seen.
    pub newest: u64,
}

/// What the store rules on a write.
pub type Ruling<T> = Result<T, StaleFence>;

/// What a write did that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The invoice is new.
    New,
    /// The customer has its invoice for that month already. Nothing was changed.
    Already,
}

/// A database that does not work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says so.
    #[error("the database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL, or the way to it.
    #[error("the database: {0}")]
    Postgres(#[from] ::postgres::Error),
}

/// The tables of the job: customers, invoices, and the newest fence of each lock.
pub trait InvoiceStore {
    /// Adds the customers 1 to `count`, where they are missing.
    ///
    /// # Errors
    /// The database does not work; so with all methods.
    fn add_customers(&mut self, count: u32) -> Result<(), StoreError>;

    /// A customer leaves: it gets no further invoices.
    ///
    /// # Errors
    /// The database does not work.
    fn remove_customer(&mut self, id: i64) -> Result<(), StoreError>;

    /// All customers, by id.
    ///
    /// # Errors
    /// The database does not work.
    fn customers(&mut self) -> Result<Vec<Customer>, StoreError>;

    /// Begins a run: from here on, writes with an older fence are refused.
    ///
    /// It comes before the run reads anything. What it reads then can no longer be changed by those before it.
    ///
    /// # Errors
    /// The database does not work.
    fn begin_run(&mut self, pass: &Pass) -> Result<Ruling<()>, StoreError>;

    /// Writes an invoice, if its fence is not older than the newest one seen, and the invoice is not there yet.
    ///
    /// # Errors
    /// The database does not work. Whether the invoice was written can be unknown then: writing it again is safe.
    fn write(&mut self, lock: &str, invoice: &Invoice) -> Result<Ruling<Written>, StoreError>;

    /// All invoices of a month, by customer.
    ///
    /// # Errors
    /// The database does not work.
    fn invoices(&mut self, month: &str) -> Result<Vec<Invoice>, StoreError>;

    /// The newest fence seen for a lock; none if there was none yet.
    ///
    /// # Errors
    /// The database does not work.
    fn newest_fence(&mut self, lock: &str) -> Result<Option<u64>, StoreError>;
}

/// Opens a `postgres://` URL, or an SQLite file, and makes the tables that are missing.
///
/// # Errors
/// The database does not work.
pub fn open(db: &str) -> Result<Box<dyn InvoiceStore>, StoreError> {
    if db.starts_with("postgres://") || db.starts_with("postgresql://") {
        Ok(Box::new(PostgresStore::connect(db)?))
    } else {
        Ok(Box::new(SqliteStore::open(Path::new(db))?))
    }
}

/// A fence as both databases store it: a signed number of 64 bits.
fn to_column(fence: u64) -> i64 {
    i64::try_from(fence).expect("a fence is below 2^53")
}

fn from_column(fence: i64) -> u64 {
    u64::try_from(fence).expect("only fences are written to this column")
}
