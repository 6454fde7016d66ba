-- Changes of states made cheaper; what they may be stays as it is.

-- A trigger that fires before an update has SQLite read the row again behind it. One that fires after refuses
-- the same: what it aborts is undone.
DROP TRIGGER turn_final_is_final;
CREATE TRIGGER turn_final_is_final AFTER UPDATE OF status ON turn
WHEN old.status <> 'running' AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final turn does not change its status');
END;

DROP TRIGGER tool_call_final_is_final;
CREATE TRIGGER tool_call_final_is_final AFTER UPDATE OF status ON tool_call
WHEN old.ended_us IS NOT NULL AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final tool call does not change its status');
END;

-- A call is open until it has ended. By its status, the index was written to when the call was started, too.
DROP INDEX tool_call_open;
CREATE INDEX tool_call_open ON tool_call (created_us) WHERE ended_us IS NULL;
