//! The promises on PostgreSQL.

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, NoTls};
use private_databases::PrivatePostgres;

use crate::promises;
use crate::store::{Connection, Refusal, Store, TABLES, Value};

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

#[test]
fn postgresql_keeps_the_promises_at_every_isolation_level() {
    let Some(server) = PrivatePostgres::start() else { return };
    for (number, level) in (0..).zip(LEVELS) {
        for (promise_number, (name, promise)) in (0..).zip(promises::ALL) {
            println!("{level}: {name}");
            let url = server.new_database(&format!("level_{number}_promise_{promise_number}"));
            promise(&Postgresql::make(url, level));
        }
    }
}

struct Postgresql {
    url: String,
    level: &'static str,
}

impl Postgresql {
    fn make(url: String, level: &'static str) -> Self {
        let store = Self { url, level };
        store.script(TABLES);
        store.script(store.guards());
        store
    }

    fn open(&self) -> Client {
        let mut client = Client::connect(&self.url, NoTls).unwrap();
        client.batch_execute(&format!("SET default_transaction_isolation = '{}'", self.level)).unwrap();
        client
    }
}

impl Store for Postgresql {
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(self.open())
    }

    fn script(&self, sql: &str) {
        self.open().batch_execute(sql).unwrap();
    }

    fn guards(&self) -> &'static str {
        include_str!("../../../../guards/postgresql.sql")
    }

    fn begin(&self) -> &'static str {
        "BEGIN"
    }

    fn guard(&self) -> &'static str {
        "SELECT holdfast_guard($1, $2)"
    }
}

impl Connection for Client {
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Refusal> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(value).collect();
        self.execute(sql, &values).map_err(|error| refusal(&error))
    }

    fn numbers(&mut self, sql: &str) -> Vec<i64> {
        self.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    }
}

fn value<'a>(value: &'a Value<'_>) -> &'a (dyn ToSql + Sync) {
    match value {
        Value::Text(text) => text,
        Value::Number(number) => number,
    }
}

fn refusal(error: &postgres::Error) -> Refusal {
    match error.as_db_error() {
        Some(error) if error.code().code() == "STALE" => Refusal::Stale(error.message().to_owned()),
        Some(error) if *error.code() == SqlState::T_R_SERIALIZATION_FAILURE => Refusal::Again,
        _ => Refusal::Other(error.to_string()),
    }
}
