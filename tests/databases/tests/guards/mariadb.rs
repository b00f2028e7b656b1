//! The promises on MariaDB, through its command line client.

use std::io::{BufRead, BufReader, PipeReader, Write};
use std::process::{Child, ChildStdin, Stdio};

use private_databases::PrivateMariadb;

use crate::promises;
use crate::store::{Connection, Refusal, Store, TABLES, Value};

/// How a session is set up. With isolated snapshots, the default of later versions, a row that has changed since the
/// transaction first read is an error.
const LEVELS: [&str; 5] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION innodb_snapshot_isolation = ON",
];

#[test]
fn mariadb_keeps_the_promises_at_every_isolation_level() {
    let Some(server) = PrivateMariadb::start() else { return };
    for (number, level) in (0..).zip(LEVELS) {
        for (promise_number, (name, promise)) in (0..).zip(promises::ALL) {
            println!("{level}: {name}");
            let database = format!("level_{number}_promise_{promise_number}");
            promise(&Mariadb::make(&server, database, level));
        }
    }
    a_name_that_is_too_long_is_refused_and_not_cut(&Mariadb::make(&server, "long_names".into(), "DO 0"));
}

/// Not even where a session has said that values may be cut.
fn a_name_that_is_too_long_is_refused_and_not_cut(store: &Mariadb<'_>) {
    let mut connection = store.connect();
    connection.run("SET SESSION sql_mode = ''", &[]).unwrap();
    for name in ["a".repeat(513), "é".repeat(257)] {
        let ruling = connection.run(store.guard(), &[Value::Text(&name), Value::Number(7)]);
        assert!(matches!(ruling, Err(Refusal::Other(_))), "{ruling:?}");
    }
    assert_eq!(connection.numbers("SELECT fence FROM holdfast_fences"), [0; 0]);
}

struct Mariadb<'a> {
    server: &'a PrivateMariadb,
    database: String,
    level: &'static str,
}

impl<'a> Mariadb<'a> {
    fn make(server: &'a PrivateMariadb, database: String, level: &'static str) -> Self {
        server.new_database(&database);
        let store = Self { server, database, level };
        store.script(TABLES);
        store.script(store.guards());
        store
    }
}

impl Store for Mariadb<'_> {
    fn connect(&self) -> Box<dyn Connection> {
        let mut session = Session::open(self.server, &self.database);
        session.run(self.level, &[]).unwrap();
        Box::new(session)
    }

    fn script(&self, sql: &str) {
        let mut client = self.server.client(&self.database).stdin(Stdio::piped()).spawn().unwrap();
        client.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        assert!(client.wait().unwrap().success());
    }

    fn guards(&self) -> &'static str {
        include_str!("../../../../guards/mysql.sql")
    }

    fn begin(&self) -> &'static str {
        "START TRANSACTION"
    }

    fn guard(&self) -> &'static str {
        "CALL holdfast_guard($1, $2)"
    }
}

/// A client that goes on after errors, and says everything on one pipe: rows and errors in their order.
struct Session {
    client: Child,
    statements: Option<ChildStdin>,
    said: BufReader<PipeReader>,
}

impl Session {
    fn open(server: &PrivateMariadb, database: &str) -> Self {
        let (said, says) = std::io::pipe().unwrap();
        let mut command = server.client(database);
        command.args(["--batch", "--skip-column-names", "--unbuffered", "--force"]).stdin(Stdio::piped());
        let mut client = command.stdout(says.try_clone().unwrap()).stderr(says).spawn().unwrap();
        let statements = client.stdin.take();
        Self { client, statements, said: BufReader::new(said) }
    }

    /// Runs one statement. Returns the lines it has led to, and the number of rows it has changed.
    fn ask(&mut self, sql: &str) -> (Vec<String>, i64) {
        let statements = self.statements.as_mut().unwrap();
        write!(statements, "{};\nSELECT CONCAT('rows ', ROW_COUNT());\n", sql.replace('\n', " ")).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the client has ended: {lines:?}");
            match line.trim_end().strip_prefix("rows ") {
                Some(rows) => return (lines, rows.parse().unwrap()),
                None => lines.push(line.trim_end().to_owned()),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.statements.take()); // The client ends with its input.
        let _ = self.client.wait();
    }
}

impl Connection for Session {
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Refusal> {
        let with_values = (1..)
            .zip(values)
            .fold(sql.to_owned(), |sql, (number, value)| sql.replace(&format!("${number}"), &literal(value)));
        let (lines, rows) = self.ask(&with_values);
        match lines.iter().find(|line| line.starts_with("ERROR")) {
            Some(error) => Err(refusal(error)),
            None => Ok(u64::try_from(rows).unwrap_or(0)),
        }
    }

    fn numbers(&mut self, sql: &str) -> Vec<i64> {
        self.ask(sql).0.iter().map(|line| line.parse().unwrap_or_else(|_| panic!("{line}"))).collect()
    }
}

/// The client knows no parameters. A text in hexadecimal has nothing in it that could end it.
fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => {
            let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("_utf8mb4 x'{digits}'")
        }
        Value::Number(number) => number.to_string(),
    }
}

/// From a line like `ERROR 1644 (STALE) at line 7: stale fence: …`.
fn refusal(error: &str) -> Refusal {
    let (place, message) = error.split_once(": ").unwrap();
    let is_any = |marks: &[&str]| marks.iter().any(|mark| place.contains(mark));
    match () {
        () if is_any(&["(STALE)"]) => Refusal::Stale(message.to_owned()),
        // A deadlock; a row that has changed since the snapshot.
        () if is_any(&["(40001)", "ERROR 1020 "]) => Refusal::Again,
        () => Refusal::Other(error.to_owned()),
    }
}
