//! The promises on SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput};
use rusqlite::{ErrorCode, params_from_iter};

use crate::promises;
use crate::store::{Connection, Refusal, Store, TABLES, Value};

#[test]
fn sqlite_keeps_the_promises() {
    for journal in ["delete", "wal"] {
        for (name, promise) in promises::ALL {
            println!("journal_mode = {journal}: {name}");
            let folder = tempfile::tempdir().unwrap();
            promise(&Sqlite::make(&folder.path().join("store.db"), journal));
        }
    }
}

struct Sqlite {
    file: PathBuf,
}

impl Sqlite {
    fn make(file: &Path, journal: &str) -> Self {
        let store = Self { file: file.to_owned() };
        let mode: String = store
            .open()
            .query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(mode, journal);
        store.script(TABLES);
        store.script(store.guards());
        store
    }

    fn open(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.file).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.pragma_update(None, "synchronous", "off").unwrap();
        connection
    }
}

impl Store for Sqlite {
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(self.open())
    }

    fn script(&self, sql: &str) {
        self.open().execute_batch(sql).unwrap();
    }

    fn guards(&self) -> &'static str {
        include_str!("../../../../guards/sqlite.sql")
    }

    fn begin(&self) -> &'static str {
        "BEGIN IMMEDIATE"
    }

    fn guard(&self) -> &'static str {
        "INSERT INTO holdfast_fences (lock_name, fence) VALUES ($1, $2)
         ON CONFLICT (lock_name) DO UPDATE SET fence = excluded.fence"
    }
}

impl Connection for rusqlite::Connection {
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Refusal> {
        // To SQLite `$2` is a name and counts as it comes; `?2` is a number.
        let changed = self.execute(&sql.replace('$', "?"), params_from_iter(values)).map_err(refusal)?;
        Ok(u64::try_from(changed).unwrap())
    }

    fn numbers(&mut self, sql: &str) -> Vec<i64> {
        let mut statement = self.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
        }
    }
}

fn refusal(error: rusqlite::Error) -> Refusal {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(message))
            if code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER =>
        {
            Refusal::Stale(message)
        }
        error if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Refusal::Again,
        error => Refusal::Other(error.to_string()),
    }
}
