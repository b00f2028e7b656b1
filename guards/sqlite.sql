-- Fence guards for SQLite 3.24 or newer. Run once, in the file of the tables that are to be protected:
--
--   sqlite3 FILE < sqlite.sql
--
-- How to use them, and what they promise: docs/guards.md. A stale fence is an error with the message that begins with
-- `stale fence` (SQLITE_CONSTRAINT_TRIGGER). As after any error of a statement, the transaction is still open: roll it
-- back.

BEGIN IMMEDIATE;

-- The highest fence that has been here, by lock. Fences of different locks do not compare.
CREATE TABLE IF NOT EXISTS holdfast_fences (
    lock_name TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL CHECK (typeof(fence) = 'integer' AND fence > 0)
);

-- Lets a transaction go on only if no higher fence of this lock has been here. The first statement of it:
--
--   BEGIN IMMEDIATE;
--   INSERT INTO holdfast_fences (lock_name, fence) VALUES ('nightly-invoices', 7)
--    ON CONFLICT (lock_name) DO UPDATE SET fence = excluded.fence;
--   … the writes …
--   COMMIT;
--
-- SQLite lets one transaction write at a time: what follows is written before a newer holder's transaction begins, or
-- not at all.
CREATE TRIGGER IF NOT EXISTS holdfast_guard BEFORE UPDATE ON holdfast_fences
WHEN NEW.fence < OLD.fence
BEGIN
    SELECT RAISE(ABORT, 'stale fence: a newer one of this lock has been here since');
END;

-- The other way: the fence in the protected row, for rows that each belong to one lock and are never deleted.
-- Give the table a column and a trigger (here, as an example, the table `reports`):
--
--     ALTER TABLE reports ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
--     CREATE TRIGGER reports_fence BEFORE UPDATE ON reports WHEN COALESCE(NEW.fence < OLD.fence, TRUE)
--     BEGIN SELECT RAISE(ABORT, 'stale fence: a newer one has been in this row since'); END;
--
-- Every update sets the fence. Without the trigger, every update asks for it, and no row changed means refused:
--
--   UPDATE reports SET body = ?1, fence = ?2 WHERE id = ?3 AND fence <= ?2;

COMMIT;
