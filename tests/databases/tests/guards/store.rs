//! What the promises need of a database, whichever it is.

/// A database with the guards in it, and the tables that the promises write to.
pub(crate) trait Store: Sync {
    /// Opens a connection of its own.
    fn connect(&self) -> Box<dyn Connection>;

    /// Runs a file of statements as a user would.
    fn script(&self, sql: &str);

    /// The file of the guards.
    fn guards(&self) -> &'static str;

    /// The statement that begins a transaction.
    fn begin(&self) -> &'static str;

    /// The statement that checks and raises the fence `$2` of the lock `$1`.
    fn guard(&self) -> &'static str;
}

/// A connection: one transaction at a time.
pub(crate) trait Connection: Send {
    /// Runs one statement with values for `$1`, `$2`, …; tells how many rows it has changed.
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Refusal>;

    /// The first column of what a query finds.
    fn numbers(&mut self, sql: &str) -> Vec<i64>;
}

/// A value of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

/// Why a statement was not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By a guard, with its message.
    Stale(String),
    /// Other transactions came between: this one is to be rolled back and begun again.
    Again,
    /// For another reason.
    Other(String),
}

/// What the promises write to.
pub(crate) const TABLES: &str = "
    CREATE TABLE written (round BIGINT NOT NULL, fence BIGINT NOT NULL);
    CREATE TABLE last_writes (round BIGINT PRIMARY KEY, fence BIGINT NOT NULL);
    CREATE TABLE reports (id BIGINT PRIMARY KEY, body VARCHAR(100) NOT NULL);";

/// The statements of a file that stand in it as a template: the comment lines that are indented most.
pub(crate) fn template(sql: &str) -> String {
    let lines = sql.lines().filter_map(|line| line.strip_prefix("--     "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// One holder's transaction: guard, write, commit. It begins again where the database asks for that.
pub(crate) fn write(
    store: &dyn Store,
    connection: &mut dyn Connection,
    pass: (&str, i64),
    round: i64,
) -> Result<(), Refusal> {
    loop {
        let written = try_write(store, connection, pass, round);
        if written.is_err() {
            connection.run("ROLLBACK", &[]).unwrap();
        }
        if written != Err(Refusal::Again) {
            return written;
        }
    }
}

fn try_write(
    store: &dyn Store,
    connection: &mut dyn Connection,
    (lock, fence): (&str, i64),
    round: i64,
) -> Result<(), Refusal> {
    let values = [Value::Number(round), Value::Number(fence)];
    connection.run(store.begin(), &[])?;
    connection.run(store.guard(), &[Value::Text(lock), Value::Number(fence)])?;
    connection.run("INSERT INTO written (round, fence) VALUES ($1, $2)", &values)?;
    connection.run("UPDATE last_writes SET fence = $2 WHERE round = $1", &values)?;
    connection.run("COMMIT", &[])?;
    Ok(())
}

/// Fails unless a guard has refused it.
#[track_caller]
pub(crate) fn assert_stale<T: std::fmt::Debug>(ruling: Result<T, Refusal>) {
    match ruling {
        Err(Refusal::Stale(message)) => assert!(message.starts_with("stale fence"), "{message}"),
        other => panic!("not refused by the guard: {other:?}"),
    }
}
