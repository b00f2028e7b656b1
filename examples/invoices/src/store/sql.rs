//! The statements, in the SQL that SQLite and PostgreSQL share.
//!
//! `$1`, `$2`, … appear in order in each of them: SQLite counts parameters as it meets them.

/// Each invoice at most once: whatever the lock does, a second row for the same customer and month cannot exist.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS customers (
        id BIGINT PRIMARY KEY,
        fee_cents BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS invoices (
        customer BIGINT NOT NULL,
        month TEXT NOT NULL,
        amount_cents BIGINT NOT NULL,
        fence BIGINT NOT NULL,
        written_by TEXT NOT NULL,
        UNIQUE (customer, month)
    );
    CREATE TABLE IF NOT EXISTS fences (
        lock_name TEXT PRIMARY KEY,
        fence BIGINT NOT NULL
    );";

/// Changes one row if the fence is not older than the newest one, and none otherwise.
///
/// The row stays locked until the transaction ends: what follows in it is written under this fence or not at all.
pub(super) const RAISE_FENCE: &str = "
    INSERT INTO fences (lock_name, fence) VALUES ($1, $2)
    ON CONFLICT (lock_name) DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence";

pub(super) const NEWEST_FENCE: &str = "SELECT fence FROM fences WHERE lock_name = $1";

/// Changes one row, or none if the customer has its invoice for the month already.
pub(super) const ADD_INVOICE: &str = "
    INSERT INTO invoices (customer, month, amount_cents, fence, written_by) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (customer, month) DO NOTHING";

pub(super) const INVOICES: &str = "
    SELECT customer, month, amount_cents, fence, written_by FROM invoices WHERE month = $1 ORDER BY customer";

pub(super) const ADD_CUSTOMER: &str =
    "INSERT INTO customers (id, fee_cents) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";

pub(super) const REMOVE_CUSTOMER: &str = "DELETE FROM customers WHERE id = $1";

pub(super) const CUSTOMERS: &str = "SELECT id, fee_cents FROM customers ORDER BY id";

/// What a month costs the customer with this number; made up, but the same for everybody who asks.
pub(super) fn fee_cents(customer: i64) -> i64 {
    1_900 + customer * 100
}
