-- Fence guards for PostgreSQL. Run once, in the schema of the tables that are to be protected:
--
--   psql -d DATABASE -f postgresql.sql
--
-- How to use them, and what they promise: docs/guards.md. A stale fence is an error with SQLSTATE 'STALE'.

BEGIN;

-- The highest fence that has been here, by lock. Fences of different locks do not compare.
CREATE TABLE IF NOT EXISTS holdfast_fences (
    lock_name text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL CHECK (fence > 0)
);

-- Lets a transaction go on only if no higher fence of this lock has been here. The first statement of it:
--
--   BEGIN;
--   SELECT holdfast_guard('nightly-invoices', 7);
--   … the writes …
--   COMMIT;
--
-- The row of the lock stays locked until the transaction ends: what follows is written before a newer holder's
-- transaction begins its work, or not at all.
CREATE OR REPLACE FUNCTION holdfast_guard(guarded_lock text, claimed bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    INSERT INTO holdfast_fences AS known (lock_name, fence) VALUES (guarded_lock, claimed)
    ON CONFLICT (lock_name) DO UPDATE SET fence = excluded.fence WHERE known.fence <= excluded.fence;
    IF NOT FOUND THEN
        SELECT known.fence INTO newest FROM holdfast_fences AS known WHERE known.lock_name = guarded_lock;
        RAISE EXCEPTION 'stale fence: % is older than %, which has been here since', claimed, newest
            USING ERRCODE = 'STALE';
    END IF;
END
$$;

-- The other way: the fence in the protected row, for rows that each belong to one lock and are never deleted.
-- Give the table a column and a trigger (here, as an example, the table `reports`):
--
--     ALTER TABLE reports ADD COLUMN fence bigint NOT NULL DEFAULT 0;
--     CREATE TRIGGER reports_fence BEFORE UPDATE ON reports FOR EACH ROW EXECUTE FUNCTION holdfast_guard_row();
--
-- Every update sets the fence. Without the trigger, every update asks for it, and no row changed means refused:
--
--   UPDATE reports SET body = $1, fence = $2 WHERE id = $3 AND fence <= $2;
CREATE OR REPLACE FUNCTION holdfast_guard_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(NEW.fence < OLD.fence, TRUE) THEN
        RAISE EXCEPTION 'stale fence: % is older than %, which has been here since', NEW.fence, OLD.fence
            USING ERRCODE = 'STALE';
    END IF;
    RETURN NEW;
END
$$;

COMMIT;
