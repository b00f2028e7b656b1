//! The stock, in an SQLite file. It takes each event once.
//!
//! The event's id is unique in the table of applied events, and goes there in the transaction of the changes. So an
//! event that comes again changes nothing: from the other worker, from a queue that delivers at least once, or after a
//! crash that left its sender in doubt. No lock can promise that, and with it the lock only saves work.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

/// How long a transaction waits for another process's: SQLite lets one write at a time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS applied_events (
        event_id TEXT NOT NULL UNIQUE,
        applied_by TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS stock (
        item TEXT PRIMARY KEY,
        quantity INTEGER NOT NULL
    );";

/// Changes one row, or none if the event has been applied already.
const NOTE_EVENT: &str = "
    INSERT INTO applied_events (event_id, applied_by) VALUES (?1, ?2) ON CONFLICT (event_id) DO NOTHING";

const CHANGE_STOCK: &str = "
    INSERT INTO stock (item, quantity) VALUES (?1, ?2)
    ON CONFLICT (item) DO UPDATE SET quantity = stock.quantity + excluded.quantity";

/// What an event does to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) item: String,
    /// Pieces that came (positive) or went.
    pub(crate) delta: i64,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(item, _)| !item.is_empty());
        let change = parts.and_then(|(item, delta)| Some((item.to_owned(), delta.parse().ok()?)));
        let (item, delta) = change.ok_or_else(|| format!("`{text}` is no change: write it like bolts=40"))?;
        Ok(Self { item, delta })
    }
}

/// Something that happened in the warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The same at every delivery.
    pub(crate) id: String,
    pub(crate) changes: Vec<Change>,
}

/// What the delivery of an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The event was new: the stock has changed.
    Now,
    /// It had been applied before. Nothing was changed.
    Before,
}

/// The stock of one warehouse.
#[derive(Debug)]
pub(crate) struct Stock {
    connection: Connection,
}

impl Stock {
    /// Opens the file, or makes it.
    pub(crate) fn open(file: &Path) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(file)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLES)?;
        transaction.commit()?;
        Ok(Self { connection })
    }

    /// Applies an event, all of it or, if it was applied before, nothing of it.
    pub(crate) fn apply(&mut self, event: &Event, worker: &str) -> rusqlite::Result<Applied> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if transaction.execute(NOTE_EVENT, params![event.id, worker])? == 0 {
            return Ok(Applied::Before);
        }
        for Change { item, delta } in &event.changes {
            transaction.execute(CHANGE_STOCK, params![item, delta])?;
        }
        transaction.commit()?;
        Ok(Applied::Now)
    }

    /// All items and how many pieces there are, by item.
    pub(crate) fn quantities(&self) -> rusqlite::Result<Vec<(String, i64)>> {
        let mut statement = self.connection.prepare("SELECT item, quantity FROM stock ORDER BY item")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// All applied events and who applied them, by id.
    pub(crate) fn applied(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement =
            self.connection.prepare("SELECT event_id, applied_by FROM applied_events ORDER BY event_id")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, changes: &[(&str, i64)]) -> Event {
        let change = |(item, delta): &(&str, i64)| Change { item: (*item).into(), delta: *delta };
        Event { id: id.into(), changes: changes.iter().map(change).collect() }
    }

    #[test]
    fn an_event_that_comes_again_changes_nothing_whoever_brings_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stock.db");
        let (mut one, mut two) = (Stock::open(&file).unwrap(), Stock::open(&file).unwrap());
        let delivery = event("evt-1", &[("bolts", 40), ("nuts", -3)]);
        assert_eq!(one.apply(&delivery, "one").unwrap(), Applied::Now);
        assert_eq!(two.apply(&delivery, "two").unwrap(), Applied::Before);
        assert_eq!(one.apply(&delivery, "one").unwrap(), Applied::Before);
        assert_eq!(two.quantities().unwrap(), [("bolts".into(), 40), ("nuts".into(), -3)]);
        assert_eq!(two.applied().unwrap(), [("evt-1".into(), "one".into())]);
    }

    #[test]
    fn different_events_add_up_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut stock = Stock::open(&folder.path().join("stock.db")).unwrap();
        for (id, delta) in [("evt-2", -5), ("evt-1", 40)] {
            assert_eq!(stock.apply(&event(id, &[("bolts", delta)]), "one").unwrap(), Applied::Now);
        }
        assert_eq!(stock.quantities().unwrap(), [("bolts".into(), 35)]);
    }

    #[test]
    fn of_workers_that_bring_one_event_at_once_one_applies_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stock.db");
        let start = std::sync::Barrier::new(4);
        let bring = || {
            let mut stock = Stock::open(&file).unwrap();
            start.wait();
            stock.apply(&event("evt-1", &[("bolts", 40)]), "one of them").unwrap()
        };
        let applied = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(bring)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(applied.iter().filter(|applied| **applied == Applied::Now).count(), 1);
        assert_eq!(Stock::open(&file).unwrap().quantities().unwrap(), [("bolts".into(), 40)]);
    }

    #[test]
    fn a_change_is_an_item_and_a_number() {
        assert_eq!("nuts=-3".parse(), Ok(Change { item: "nuts".into(), delta: -3 }));
        for text in ["nuts", "=3", "nuts=", "nuts=many"] {
            assert!(text.parse::<Change>().is_err(), "{text}");
        }
    }
}
