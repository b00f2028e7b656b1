-- Fence guards for MariaDB and MySQL (InnoDB). Run once, in the database of the tables that are to be protected:
--
--   mariadb DATABASE < mysql.sql
--
-- How to use them, and what they promise: docs/guards.md. A stale fence is an error with SQLSTATE 'STALE'. As after any
-- error here, the transaction is still open: roll it back.

-- A routine keeps the mode that it was made in. Strict: what does not fit into the table is an error and not cut to fit.
SET @mode_before = @@SESSION.sql_mode;
SET SESSION sql_mode = 'STRICT_ALL_TABLES';

-- The highest fence that has been here, by lock. Fences of different locks do not compare. Names are bytes: a collation
-- would take `Import`, `import` and `import ` for one lock.
CREATE TABLE IF NOT EXISTS holdfast_fences (
    lock_name VARBINARY(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL CHECK (fence > 0)
) ENGINE = InnoDB;

DROP PROCEDURE IF EXISTS holdfast_guard;
DROP PROCEDURE IF EXISTS holdfast_guard_row;

DELIMITER //

-- Lets a transaction go on only if no higher fence of this lock has been here. The first statement of it:
--
--   START TRANSACTION;
--   CALL holdfast_guard('nightly-invoices', 7);
--   … the writes …
--   COMMIT;
--
-- The row of the lock stays locked until the transaction ends: what follows is written before a newer holder's
-- transaction begins its work, or not at all. A parameter can be cut by the mode of the caller's session: one character
-- more than the table takes shows it.
CREATE PROCEDURE holdfast_guard(IN guarded_lock VARCHAR(513) CHARACTER SET utf8mb4, IN claimed BIGINT)
MODIFIES SQL DATA
BEGIN
    DECLARE newest BIGINT;
    DECLARE refusal VARCHAR(128);
    INSERT INTO holdfast_fences (lock_name, fence) VALUES (guarded_lock, claimed)
    ON DUPLICATE KEY UPDATE fence = GREATEST(fence, claimed);
    -- A locking read: it sees what is committed, and not the snapshot of the transaction.
    SELECT fence INTO newest FROM holdfast_fences WHERE lock_name = CAST(guarded_lock AS BINARY) FOR UPDATE;
    IF newest > claimed THEN
        SET refusal = CONCAT('stale fence: ', claimed, ' is older than ', newest, ', which has been here since');
        SIGNAL SQLSTATE 'STALE' SET MESSAGE_TEXT = refusal;
    END IF;
END//

-- The other way: the fence in the protected row, for rows that each belong to one lock and are never deleted.
-- Give the table a column and a trigger (here, as an example, the table `reports`):
--
--     ALTER TABLE reports ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
--     CREATE TRIGGER reports_fence BEFORE UPDATE ON reports FOR EACH ROW CALL holdfast_guard_row(OLD.fence, NEW.fence);
--
-- Every update sets the fence. Without the trigger, every update asks for it, and no row *found* means refused:
--
--   UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?;
--
-- The server counts the rows that have *changed* unless the client connects with CLIENT_FOUND_ROWS: one that is written
-- again as it is does not count.
CREATE PROCEDURE holdfast_guard_row(IN newest BIGINT, IN claimed BIGINT)
NO SQL
BEGIN
    DECLARE refusal VARCHAR(128);
    IF COALESCE(claimed < newest, TRUE) THEN
        SET refusal = CONCAT('stale fence: ', COALESCE(claimed, 'NULL'), ' is older than ', newest,
            ', which has been here since');
        SIGNAL SQLSTATE 'STALE' SET MESSAGE_TEXT = refusal;
    END IF;
END//

DELIMITER ;

SET SESSION sql_mode = @mode_before;
