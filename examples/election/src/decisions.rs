//! What leaders decide, in an SQLite file that knows who led last.
//!
//! A leader is the last one to learn that it leads no more. The store learns it first, with the next leader's fence:
//! from then on it takes no decision of an older one.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

/// How long a transaction waits for another process's: SQLite lets one write at a time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS decisions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        fence INTEGER NOT NULL,
        leader TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS newest_fence (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        fence INTEGER NOT NULL
    );";

/// Changes one row if the fence is not older than the newest one, and none otherwise.
const RAISE_FENCE: &str = "
    INSERT INTO newest_fence (id, fence) VALUES (1, ?1)
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence WHERE newest_fence.fence <= excluded.fence";

/// The decision of a leader that another one has followed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fence {fence} is older than {newest}: there is a newer leader")]
pub(crate) struct StaleFence {
    pub(crate) fence: u64,
    pub(crate) newest: u64,
}

/// A row of the table of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) fence: u64,
    pub(crate) leader: String,
}

/// The decisions of all leaders, in the order in which they were taken.
#[derive(Debug)]
pub(crate) struct Decisions {
    connection: Connection,
}

impl Decisions {
    /// Opens the file, or makes it.
    pub(crate) fn open(file: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut decisions = Self { connection };
        let transaction = decisions.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.commit()?;
        Ok(decisions)
    }

    fn transaction(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Begins a term: from here on, decisions under older fences are refused.
    pub(crate) fn begin_term(&mut self, fence: u64) -> rusqlite::Result<Result<(), StaleFence>> {
        let transaction = self.transaction()?;
        let ruling = raise_fence(&transaction, fence)?;
        transaction.commit()?;
        Ok(ruling)
    }

    /// Notes a decision, if its fence is not older than the newest one seen; both in one transaction.
    pub(crate) fn decide(&mut self, fence: u64, leader: &str) -> rusqlite::Result<Result<(), StaleFence>> {
        let transaction = self.transaction()?;
        let ruling = raise_fence(&transaction, fence)?;
        if ruling.is_ok() {
            let row = params![to_column(fence), leader];
            transaction.execute("INSERT INTO decisions (fence, leader) VALUES (?1, ?2)", row)?;
        }
        transaction.commit()?;
        Ok(ruling)
    }

    /// All decisions, in the order in which they were taken.
    pub(crate) fn all(&self) -> rusqlite::Result<Vec<Decision>> {
        let mut statement = self.connection.prepare("SELECT fence, leader FROM decisions ORDER BY number")?;
        let rows = statement
            .query_map([], |row| Ok(Decision { fence: from_column(row.get(0)?), leader: row.get(1)? }))?;
        rows.collect()
    }
}

fn raise_fence(transaction: &Transaction<'_>, fence: u64) -> rusqlite::Result<Result<(), StaleFence>> {
    if transaction.execute(RAISE_FENCE, [to_column(fence)])? == 1 {
        return Ok(Ok(()));
    }
    let newest = transaction.query_row("SELECT fence FROM newest_fence", [], |row| row.get(0)).optional()?;
    let newest = from_column(newest.expect("an older fence is older than one that is there"));
    Ok(Err(StaleFence { fence, newest }))
}

/// A fence as SQLite stores it: a signed number of 64 bits.
fn to_column(fence: u64) -> i64 {
    i64::try_from(fence).expect("a fence is below 2^53")
}

fn from_column(fence: i64) -> u64 {
    u64::try_from(fence).expect("only fences are written to this column")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_leader_decides_nothing_once_the_next_term_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("decisions.db");
        let (mut old, mut new) = (Decisions::open(&file).unwrap(), Decisions::open(&file).unwrap());
        assert_eq!(old.begin_term(4).unwrap(), Ok(()));
        assert_eq!(old.decide(4, "old").unwrap(), Ok(()));
        assert_eq!(new.begin_term(6).unwrap(), Ok(()));
        let stale = StaleFence { fence: 4, newest: 6 };
        assert_eq!(old.decide(4, "old").unwrap(), Err(stale));
        assert_eq!(old.begin_term(4).unwrap(), Err(stale));
        assert_eq!(new.decide(6, "new").unwrap(), Ok(()));
        let decision = |fence, leader: &str| Decision { fence, leader: leader.into() };
        assert_eq!(new.all().unwrap(), [decision(4, "old"), decision(6, "new")]);
    }
}
